"""Reviews of pods that do not exist: who may ask, within which bounds, and what is answered."""

import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from kubeshare_py.edges.scheduler.state_api import MAX_REVIEW_BYTES
from kubeshare_py.views.view import ProspectView
from tests.edges.state_readers import ROOT, Rights, State, state_of
from tests.terminal.views import a_fitting, a_why

REVIEWS = f"{ROOT}/namespaces/default/placementreviews"
SCHEDULERS = f"{ROOT}/namespaces/default/schedulers"
ASK, CREATE = ("create", "placementreviews"), ("create", "pods")
LIST = ("list", "pods")


@pytest.fixture
async def state() -> AsyncIterator[State]:
    """`root` may do everything; jane all that a review in `default` needs, the others a part."""
    rights = Rights(
        {
            "root": {(*one, "") for one in (ASK, CREATE, LIST)},
            "jane": {(*one, "default") for one in (ASK, CREATE, LIST, ("list", "schedulers"))},
            "blind": {(*one, "default") for one in (ASK, CREATE)},
            "reader": {(*one, "default") for one in (ASK, LIST)},
            "creator": {(*one, "default") for one in (CREATE, LIST)},
        }
    )
    async with state_of(rights, "of-the-file") as state:
        yield state


def review(share: str = "0.5", name: str = "new", **spec: Any) -> bytes:
    labels = {"sharedgpu/gpu_request": share, "sharedgpu/gpu_limit": "1.0"}
    given = {"schedulerName": "kubeshare-scheduler", "containers": [{"name": "c"}], **spec}
    pod = {"metadata": {"name": name, "labels": labels}, "spec": given}
    return json.dumps({"kind": "PlacementReview", "spec": {"pod": pod}}).encode()


async def test_a_review_is_answered_in_its_status(state: State) -> None:
    code, body = await state.post(REVIEWS, review("0.5"), "jane")
    assert (code, body["kind"], body["apiVersion"]) == (
        201,
        "PlacementReview",
        "state.kubeshare.io/v1",
    )
    assert msgspec.convert(body["status"], ProspectView) == a_fitting("new")
    code, body = await state.post(REVIEWS, review("0.8"), "jane")
    assert code == 201
    assert msgspec.convert(body["status"], ProspectView) == ProspectView(fits=False, why=a_why())


@pytest.mark.parametrize(
    ("user", "what"),
    [
        ("reader", 'cannot create resource "pods" in API group "" in the namespace "default"'),
        ("creator", 'cannot create resource "placementreviews" in API group "state.kubeshare.io"'),
        ("stranger", 'cannot create resource "placementreviews"'),
    ],
)
async def test_who_may_not_create_pods_there_may_not_ask(
    state: State, user: str, what: str
) -> None:
    code, body = await state.post(REVIEWS, review(), user)
    assert (code, body["reason"]) == (403, "Forbidden")
    assert str(body["message"]).startswith("placementreviews.state.kubeshare.io is forbidden: ")
    assert what in str(body["message"])


async def test_rights_in_one_namespace_are_none_in_another(state: State) -> None:
    elsewhere = f"{ROOT}/namespaces/team/placementreviews"
    assert (await state.post(elsewhere, review(), "jane"))[0] == 403
    assert (await state.post(elsewhere, review(), "root"))[0] == 201


async def test_without_a_name_nothing_is_answered(state: State) -> None:
    assert (await state.post(REVIEWS, review()))[0] == 401


@pytest.mark.parametrize(
    ("user", "seen"), [("root", ["default", "team"]), ("jane", ["default"]), ("blind", [])]
)
async def test_pods_are_named_to_readers_that_may_list_them(
    state: State, user: str, seen: list[str]
) -> None:
    assert (await state.post(REVIEWS, review(), user))[0] == 201
    assert state.seen == seen


async def test_while_the_api_server_cannot_be_asked_nothing_is_answered(state: State) -> None:
    state.rights.away = True
    code, body = await state.post(REVIEWS, review(), "jane")
    assert (code, body["reason"]) == (503, "ServiceUnavailable")


async def test_before_the_cluster_was_read_nothing_is_answered(state: State) -> None:
    state.ready = False
    code, body = await state.post(REVIEWS, review(), "jane")
    assert (code, body["message"]) == (503, "the scheduler has not read the cluster yet")


@pytest.mark.parametrize("body", [b"", b"[]", b'{"spec": {"pod": 1}}'])
async def test_what_is_no_review_is_a_bad_request(state: State, body: bytes) -> None:
    code, answer = await state.post(REVIEWS, body, "jane")
    assert (code, answer["reason"]) == (400, "BadRequest")
    assert str(answer["message"]).startswith("not a PlacementReview: ")


async def test_a_body_that_no_pod_needs_is_not_read(state: State) -> None:
    code, answer = await state.post(REVIEWS, b" " * (MAX_REVIEW_BYTES + 1), "jane")
    assert (code, answer["reason"]) == (413, "RequestEntityTooLarge")


async def test_large_pods_are_read_as_small_ones_are(state: State) -> None:
    image = "x" * 2**17
    body = review(containers=[{"name": "c", "image": image}])
    assert (await state.post(REVIEWS, body, "jane"))[0] == 201


async def test_a_schedulers_name_that_is_none_here_is_refused_with_those_that_are(
    state: State,
) -> None:
    code, body = await state.post(REVIEWS, review(schedulerName="x" * 5000), "jane")
    assert (code, body["reason"]) == (422, "Invalid")
    message = str(body["message"])
    assert message.endswith("it has kubeshare-scheduler, batch")
    assert len(message) < 500


async def test_reviews_are_not_there_to_be_read(state: State) -> None:
    assert (await state.ask(REVIEWS, "root"))[0] == 404
    code, body = await state.post(f"{ROOT}/gpus", b"{}", "root")
    assert (code, body["reason"]) == (405, "MethodNotAllowed")


async def test_the_schedulers_names_and_dialects_are_listed(state: State) -> None:
    code, body = await state.ask(SCHEDULERS, "jane")
    assert (code, body["kind"]) == (200, "SchedulerList")
    items = body["items"]
    assert isinstance(items, list)
    assert [(one["metadata"]["name"], one["dialects"], one["extender"]) for one in items] == [
        ("kubeshare-scheduler", ["sharedgpu"], False),
        ("batch", ["sharedgpu"], False),
    ]
    assert (await state.ask(SCHEDULERS, "blind"))[0] == 403
