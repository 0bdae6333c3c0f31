"""Whose token a request shows, and with whom its owner may share an answer."""

from typing import Any

import msgspec
import pytest

from kubeshare_py.dashboard.fan_out import ViewerId
from kubeshare_py.dashboard.viewers import (
    BAD_TOKEN,
    EVERYTHING,
    KEPT_S,
    MAX_KEPT,
    MAX_REFUSED,
    MAX_TOKEN,
    NO_TOKEN,
    QUESTIONS,
    KnownViewers,
    Viewer,
    ViewerRefusal,
    token_of,
    viewer_of,
)


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ({"Kubeshare-Token": "abc"}, "abc"),
        ({"Authorization": "Bearer abc"}, "abc"),
        ({"Authorization": "bearer  abc "}, "abc"),
        # The page's own header counts where a proxy in between has a token of its own.
        ({"Authorization": "Bearer proxy", "Kubeshare-Token": "abc"}, "abc"),
        ({"Authorization": "Basic abc"}, NO_TOKEN),
        ({}, NO_TOKEN),
        ({"Kubeshare-Token": "a b"}, BAD_TOKEN),
        ({"Kubeshare-Token": "a\tb"}, BAD_TOKEN),
        ({"Kubeshare-Token": "ä"}, BAD_TOKEN),
        ({"Kubeshare-Token": "a" * MAX_TOKEN}, "a" * MAX_TOKEN),
        ({"Kubeshare-Token": "a" * (MAX_TOKEN + 1)}, BAD_TOKEN),
    ],
)
def test_the_token_is_in_either_header(headers: dict[str, str], found: str | ViewerRefusal) -> None:
    assert token_of(headers) == found


def answers(
    name: str = "ann",
    groups: tuple[str, ...] = (),
    *,
    cards: bool = True,
    pods: bool = False,
    extra: dict[str, list[str]] | None = None,
) -> tuple[bytes, bytes, bytes]:
    def of(status: dict[str, Any]) -> bytes:
        return msgspec.json.encode({"kind": "Review", "status": status})

    user = {"username": name, "groups": groups, "extra": extra or {}}
    about = {"userInfo": user} if name else {}
    return of(about), of({"allowed": cards}), of({"allowed": pods})


def seen(name: str = "ann", groups: tuple[str, ...] = (), *, pods: bool = False) -> Viewer:
    found = viewer_of("token", answers(name, groups, pods=pods))
    assert isinstance(found, Viewer)
    return found


def test_those_who_may_see_every_pod_share_one_answer() -> None:
    assert seen("ann", pods=True).audience == seen("bob", pods=True).audience == EVERYTHING
    assert seen("ann", pods=True).sees_all


def test_all_others_share_with_themselves_alone() -> None:
    ann = seen("ann", ("team",))
    assert ann.audience == seen("ann", ("team",)).audience
    others = [seen("bob", ("team",)), seen("ann", ("team", "more")), seen("ann"), seen(pods=True)]
    assert ann.audience not in [one.audience for one in others]
    assert not ann.sees_all


def test_the_order_of_groups_says_nothing() -> None:
    assert seen("ann", ("a", "b")).audience == seen("ann", ("b", "a")).audience


def test_the_tokens_of_one_user_are_one_audience_unless_more_than_the_token_differs() -> None:
    def audience(**extra: list[str]) -> str:
        keys = {f"authentication.kubernetes.io/{key}": one for key, one in extra.items()}
        found = viewer_of("token", answers(extra=keys))
        assert isinstance(found, Viewer)
        return found.audience

    first = audience(**{"credential-id": ["JTI=1"], "pod-name": ["a"]})
    assert first == audience(**{"pod-name": ["a"], "credential-id": ["JTI=2"]})
    assert first != audience(**{"pod-name": ["b"], "credential-id": ["JTI=1"]})


def test_a_viewer_who_may_list_no_cards_is_told_the_role() -> None:
    found = viewer_of("token", answers(cards=False, pods=True))
    assert isinstance(found, ViewerRefusal)
    assert found.status == 403
    assert "kubeshare-gpu-reader" in found.message


def test_an_unknown_user_is_refused() -> None:
    assert viewer_of("token", answers("")) == BAD_TOKEN


def test_nothing_of_a_token_is_in_what_stands_for_it() -> None:
    assert "token" not in seen("ann").id


def test_questions_are_about_oneself() -> None:
    assert [path.rpartition("/")[2] for path, _ in QUESTIONS] == [
        "selfsubjectreviews", "selfsubjectaccessreviews", "selfsubjectaccessreviews",
    ]  # fmt: skip
    asked = [body["spec"]["resourceAttributes"] for _, body in QUESTIONS[1:]]
    assert [(one["verb"], one["resource"], one["namespace"]) for one in asked] == [
        ("list", "gpus", ""), ("list", "pods", ""),
    ]  # fmt: skip


def test_an_answer_is_believed_for_a_while_and_whom_it_let_in_is_known_for_longer() -> None:
    known, ann = KnownViewers(), seen("ann")
    known.keep(ann.id, ann, 5.0)
    assert known.answer(ann.id, 5.0 + KEPT_S - 0.1) == ann
    assert known.believed_s(ann.id, 6.0) == KEPT_S - 1.0
    assert known.answer(ann.id, 5.0 + KEPT_S) is None
    assert known.is_known(ann.id)
    known.keep(ann.id, BAD_TOKEN, 50.0)
    assert (known.answer(ann.id, 51.0), known.is_known(ann.id)) == (BAD_TOKEN, False)
    known.keep(ann.id, ann, 52.0)
    assert known.answer(ann.id, 53.0) == ann


def test_that_nothing_was_found_out_is_not_remembered() -> None:
    known, ann = KnownViewers(), seen("ann")
    known.keep(ann.id, ann, 0.0)
    known.keep(ann.id, ViewerRefusal(503, "away"), 1.0)
    assert known.answer(ann.id, 2.0) == ann


def test_made_up_tokens_are_remembered_and_make_no_viewer_forgotten() -> None:
    known, ann = KnownViewers(), seen("ann")
    known.keep(ann.id, ann, 0.0)
    made_up = [ViewerId(str(number)) for number in range(MAX_REFUSED + 1)]
    for one in made_up:
        known.keep(one, BAD_TOKEN, 0.0)
    assert known.answer(ann.id, 1.0) == ann
    answers = [known.answer(one, 1.0) for one in made_up]
    assert answers == [None, *[BAD_TOKEN] * MAX_REFUSED]
    for number in range(MAX_KEPT):
        known.keep(ViewerId(f"viewer {number}"), ann, 0.0)
    assert not known.is_known(ann.id)
