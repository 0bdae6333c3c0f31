"""What a dialect is, and what becomes of one that fails."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.dialects.card_visibility import CardVisibility
from kubeshare_py.dialects.dialect import (
    ContainerAmounts,
    Dialect,
    NodeCard,
    NodeKeys,
    OwnedKeys,
    PlacedNode,
    PodAsk,
    owns_by,
    read_back_by,
    read_by,
    results_by,
    visibility_by,
)
from kubeshare_py.dialects.dialects import DialectTable, container_visibility
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.domain.allocation import Allocation, CardCharge, ClaimCharge, summed
from kubeshare_py.domain.identity import DecisionToken, GpuUuid
from kubeshare_py.domain.request import ContainerRef, GpuRequest
from kubeshare_py.manifests.binding import annotation_problem
from tests.dialects.pods import CORE, MEMORY, NANO, NEW_PERCENT, OLD_CORE, PERCENT, a_pod

# --- The annotations of a placement, which name cards by index, and what belongs to the dialect ---


#: In another order than their indices.
UUIDS = [GpuUuid(f"GPU-{name}") for name in "dbca"]
CARDS = {uuid: NodeCard(at, 16 << 30, "T4") for at, uuid in enumerate(UUIDS)}


def written(pod: PodAsk, *cards: Sequence[int]) -> dict[str, str]:
    """The annotations of a pod whose containers that ask got cards of these indices, in order."""
    request = NANO.read(pod)
    assert isinstance(request, GpuRequest)
    charges = []
    for one, indices in zip(request.claims, cards, strict=True):
        assert one.container is not None
        parts = tuple(CardCharge(UUIDS[at], one.claim.milli, 1) for at in indices)
        charges.append(ClaimCharge(container=one.container, cards=parts))
    held = Allocation(
        token=DecisionToken("t"),
        dialect="nano-gpu",
        cards=summed(card for charge in charges for card in charge.cards),
        claims=tuple(charges),
    )
    found = results_by(NANO, held, PlacedNode(CARDS, {}, 0, request.notes))
    assert not isinstance(found, str)
    assert annotation_problem(found) == ""
    return dict(found)


def test_g62_the_first_generation_has_a_flag_and_an_index_for_each_container() -> None:
    assert written(a_pod({OLD_CORE: 20}, {}, names=("cuda", "log")), [1]) == {
        "nano-gpu.io/gpu": "true",
        "nano-gpu.io/gpu-cuda": "1",
    }


@pytest.mark.parametrize("prefix", ["nano-gpu", "elastic-gpu"])
def test_the_second_generation_says_of_containers_without_a_card_that_they_have_none(
    prefix: str,
) -> None:
    resource = {"nano-gpu": PERCENT, "elastic-gpu": NEW_PERCENT}[prefix]
    pod = a_pod({}, {resource: 20}, {resource: 40}, names=("log", "a", "b"))
    assert written(pod, [3], [0]) == {
        f"{prefix}/assume": "true",
        f"{prefix}/container-log": "-1",
        f"{prefix}/container-a": "3",
        f"{prefix}/container-b": "0",
    }


def test_a_name_without_room_and_without_a_card_has_no_annotation() -> None:
    pod = a_pod({PERCENT: 20}, {}, names=("a", "b" * 54))
    assert written(pod, [0]) == {"nano-gpu/assume": "true", "nano-gpu/container-a": "0"}


def test_g64_and_g65_the_newest_generation_lists_whole_cards() -> None:
    assert written(a_pod({MEMORY: 256}, names=("cuda",)), [0]) == {
        "elasticgpu.io/assumed": "true",
        "elasticgpu.io/container-cuda": "0",
    }
    found = written(a_pod({CORE: 200}, {}, {CORE: 50}), [0, 1], [2])
    assert found["elasticgpu.io/container-c0"] == "0,1"
    assert found["elasticgpu.io/container-c2"] == "2"
    assert "elasticgpu.io/container-c1" not in found


def test_the_flags_are_labels_too_and_all_annotations_are_results() -> None:
    keys = NANO.result_keys
    assert keys.labels == keys.scheduler
    assert sorted(keys.labels) == [
        "elastic-gpu/assume",
        "elasticgpu.io/assumed",
        "nano-gpu.io/gpu",
        "nano-gpu/assume",
    ]
    table = DialectTable((SHAREDGPU, NANO))
    for key in (*keys.labels, "nano-gpu.io/gpu-cuda", "elasticgpu.io/container-x"):
        assert table.is_result(key)
    assert not table.is_result("elasticgpu.io/mine")


amounts = st.one_of(
    st.just({}),
    st.builds(lambda core: {CORE: core}, st.integers(0, 300)),
    st.builds(lambda memory: {MEMORY: memory}, st.integers(0, 9)),
    st.builds(
        lambda core, memory: {CORE: core, MEMORY: memory}, st.integers(0, 300), st.integers(0, 9)
    ),
)


@given(st.lists(amounts, max_size=4))
def test_the_rules_about_containers_agree_with_what_they_get(asked: list[dict[str, int]]) -> None:
    table = DialectTable((SHAREDGPU, NANO))
    pod = a_pod(*asked)
    request = NANO.read(pod)
    by_claims = (
        {}
        if request is None
        else {
            one.container: CardVisibility.WHOLE if one.claim.exclusive else CardVisibility.SHARE
            for one in request.claims  # type: ignore[union-attr]
        }
    )
    assert container_visibility(table, pod) == by_claims


def test_init_containers_and_sidecars_hold_cards_of_their_own() -> None:
    side = ContainerAmounts("side", ContainerRef(True, 0), True, ((CORE, 30),))
    request = NANO.read(PodAsk({}, {}, (side,)))
    assert isinstance(request, GpuRequest)
    assert request.notes == (
        ("", "elasticgpu.io/assumed"),
        ("init-0", "elasticgpu.io/container-side"),
    )


# --- Whatever a dialect raises, or answers in another form, ends at its call ----------------------


POD = PodAsk({}, {})
NODE = NodeKeys("n1", {}, {})
ALLOCATION = Allocation(token=DecisionToken("t"))
PLACED = PlacedNode({}, {}, 0)


class Unreadable:
    """Neither its text nor its representation can be had."""

    def __repr__(self) -> str:
        raise ValueError


class Odd(Dialect):
    """Answers every question by this function."""

    name = "odd"
    owns = OwnedKeys()

    def __init__(self, answer: Callable[[], Any]) -> None:
        self._answer = answer

    def read(self, pod: PodAsk) -> Any:
        return self._answer()

    def results(self, allocation: Allocation, node: PlacedNode) -> Any:
        return self._answer()

    def read_back(self, pod: PodAsk) -> Any:
        return self._answer()

    def visibility(self, pod: PodAsk) -> Any:
        return self._answer()

    def owns_on(self, resource: str, node: NodeKeys) -> Any:
        return self._answer()


def fails() -> None:
    raise RuntimeError("out of luck")


@pytest.mark.parametrize(
    ("answer", "cause"),
    [(fails, "RuntimeError: out of luck"), (Unreadable, "a Unreadable"), (lambda: 7, "7")],
)
def test_each_question_has_an_answer_that_costs_one_pod(
    answer: Callable[[], Any], cause: str
) -> None:
    dialect = Odd(answer)
    for sentence in (
        str(read_by(dialect, POD)),
        str(results_by(dialect, ALLOCATION, PLACED)),
        str(read_back_by(dialect, POD)),
    ):
        assert sentence.startswith("dialect odd failed: ")
        assert cause in sentence
    assert visibility_by(dialect, POD) is CardVisibility.SHARE
    assert owns_by(dialect, "example.com/gpu", NODE) is False
