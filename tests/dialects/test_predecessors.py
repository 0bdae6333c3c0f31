"""Pods that another scheduler bound in one of the enabled dialects."""

import pytest

from kubeshare_py.dialects.allocation import NOTHING_HELD
from kubeshare_py.dialects.dialect import PodAsk
from kubeshare_py.dialects.dialects import DialectTable
from kubeshare_py.dialects.predecessors import held_by_predecessor
from kubeshare_py.domain.allocation import Allocation, CardCharge, ClaimCharge
from kubeshare_py.domain.identity import DecisionToken, GpuUuid
from kubeshare_py.domain.request import (
    CardRelation,
    ContainerClaim,
    ContainerRef,
    GpuClaim,
    GpuRequest,
)
from tests.dialects.halves import BOTH, CARDS, Halves, a_container, an_ask

FIRST, SECOND = ContainerRef(False, 0), ContainerRef(False, 1)
A, B = GpuUuid("GPU-a"), GpuUuid("GPU-b")


def asks(*claims: tuple[ContainerRef | None, GpuClaim]) -> GpuRequest:
    found = tuple(ContainerClaim(claim=claim, container=one) for one, claim in claims)
    return GpuRequest(claims=found, dialect="halves", relation=CardRelation.FREE)


HALF = asks((FIRST, GpuClaim(milli=500)))


def bound(text: str) -> PodAsk:
    return an_ask(a_container(half=1), annotations={CARDS: text, "note": "x"})


class Held(Halves):
    """Reads this allocation back."""

    def __init__(self, held: object) -> None:
        super().__init__()
        self.held = held

    def read_back(self, pod: PodAsk) -> Allocation | str | None:
        if isinstance(self.held, Exception):
            raise self.held
        return self.held  # type: ignore[return-value]


def test_the_dialect_reads_what_its_scheduler_wrote() -> None:
    found = held_by_predecessor(BOTH, bound("GPU-a=500"), HALF)
    assert found.allocation is not None
    assert found.allocation.cards == (CardCharge(A, 500, 1),)
    assert found.allocation.dialect == "halves"
    assert (found.problem, found.mismatch, found.difference) == ("", "", "")


@pytest.mark.parametrize(("said", "charged"), [(300, 500), (700, 700)])
def test_the_larger_of_annotation_and_spec_is_charged_and_the_difference_named(
    said: int, charged: int
) -> None:
    found = held_by_predecessor(BOTH, bound(f"GPU-a={said}"), HALF)
    assert found.allocation is not None
    assert [card.milli for card in found.allocation.cards] == [charged]
    assert found.difference == (
        f"of GPU GPU-a its annotations say {said} thousandths, its spec 500"
    )


def test_memory_and_exclusiveness_count_too() -> None:
    request = asks((None, GpuClaim(milli=500, memory_bytes=8, exclusive=True)))
    found = held_by_predecessor(BOTH, bound("GPU-a=500"), request)
    assert found.allocation is not None
    assert found.allocation.cards == (CardCharge(A, 500, 8, exclusive=True),)
    assert found.difference == "of GPU GPU-a its annotations say 1 bytes, its spec 8"


def test_each_container_is_compared_with_its_own_claim() -> None:
    cards = (CardCharge(A, 300, 0), CardCharge(B, 500, 0))
    claims = tuple(
        ClaimCharge(container=one, cards=(card,))
        for one, card in zip((FIRST, SECOND), cards, strict=True)
    )
    held = Allocation(token=DecisionToken(""), cards=cards, claims=claims)
    request = asks((FIRST, GpuClaim(milli=500)), (SECOND, GpuClaim(milli=500)))
    found = held_by_predecessor(DialectTable((Held(held),)), bound("x"), request)
    assert found.allocation is not None
    assert [card.milli for card in found.allocation.cards] == [500, 500]
    assert found.difference == (
        "container-0: of GPU GPU-a its annotations say 300 thousandths, its spec 500"
    )


def test_a_container_of_which_its_annotations_say_nothing_is_named() -> None:
    card = CardCharge(A, 500, 0)
    charge = ClaimCharge(container=FIRST, cards=(card,))
    held = Allocation(token=DecisionToken(""), cards=(card,), claims=(charge,))
    request = asks((FIRST, GpuClaim(milli=500)), (SECOND, GpuClaim(milli=500, count=2)))
    found = held_by_predecessor(DialectTable((Held(held),)), bound("x"), request)
    assert found.allocation is not None
    assert found.allocation.cards == (card,)
    assert found.difference == "container-1: its annotations name no GPU, its spec asks for 2"


def test_another_number_of_cards_is_named() -> None:
    request = asks((None, GpuClaim(milli=500, count=2)))
    found = held_by_predecessor(BOTH, bound("GPU-a=500"), request)
    assert found.difference == "its annotations name 1 GPUs, its spec asks for 2"
    assert held_by_predecessor(BOTH, bound("GPU-a=500"), None).difference == (
        "its annotations name GPUs, its spec asks for none"
    )


@pytest.mark.parametrize(
    ("held", "problem"),
    [
        ("example.com/cards: unreadable", "example.com/cards: unreadable"),
        (ValueError("x"), "dialect halves failed: ValueError: x"),
        (7, "dialect halves failed: read_back answered 7, which is no Allocation"),
    ],
)
def test_what_cannot_be_read_is_a_problem_of_the_pod(held: object, problem: str) -> None:
    found = held_by_predecessor(DialectTable((Held(held),)), bound("x"), HALF)
    assert (found.allocation, found.problem) == (None, problem)


def test_pods_without_such_annotations_hold_nothing() -> None:
    assert held_by_predecessor(BOTH, an_ask(a_container(half=1)), HALF) == NOTHING_HELD
    assert held_by_predecessor(BOTH, bound(""), HALF) == NOTHING_HELD
