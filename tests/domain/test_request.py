"""What a claim may say, and what it is charged."""

import pytest

from kubeshare_py.domain.request import (
    CardRelation,
    ContainerClaim,
    ContainerRef,
    GpuClaim,
    GpuRequest,
)
from tests.making import a_claim, whole


@pytest.mark.parametrize("part", [-1, 1001])
def test_a_part_of_the_memory_is_within_the_card(part: int) -> None:
    with pytest.raises(ValueError, match="memory_milli"):
        GpuClaim(milli=1, memory_milli=part)


def test_memory_is_asked_for_in_one_way() -> None:
    with pytest.raises(ValueError, match="not both"):
        GpuClaim(milli=1, memory_milli=500, memory_bytes=1)


def test_a_part_of_the_memory_is_rounded_down_and_of_what_pods_may_hold() -> None:
    assert a_claim(100, memory_milli=333).bytes_of(1500, 1000, "") == 499
    assert a_claim(100).bytes_of(1500, 1000, "") == 100
    assert a_claim(100, memory_bytes=7).bytes_of(1500, 1000, "") == 7
    assert whole(1, memory_milli=333).bytes_of(1500, 1000, "") == 1500


def test_a_whole_card_is_charged_in_full() -> None:
    assert whole(1).charged_milli(2500, "") == 2500
    assert a_claim(700).charged_milli(2500, "") == 700


def a_request(relation: CardRelation, *claims: GpuClaim, of_pod: bool = False) -> GpuRequest:
    containers = [None if of_pod else ContainerRef(False, index) for index in range(len(claims))]
    parts = zip(claims, containers, strict=True)
    return GpuRequest(
        claims=tuple(ContainerClaim(claim=claim, container=one) for claim, one in parts),
        dialect="d",
        relation=relation,
    )


def test_claims_of_the_same_cards_ask_alike_for_what_can_be_shared() -> None:
    same = CardRelation.SAME_CARD
    assert len(a_request(same, a_claim(300), a_claim(500)).claims) == 2
    assert a_request(same, whole(2)).is_exclusive
    with pytest.raises(ValueError, match="same number"):
        a_request(same, a_claim(300), a_claim(300, count=2))
    for other in (whole(1), a_claim(0)):
        with pytest.raises(ValueError, match="must not be exclusive"):
            a_request(same, whole(1), other)
    assert not a_request(CardRelation.FREE, whole(1), a_claim(0)).is_exclusive


def test_several_claims_are_of_containers_and_not_too_many() -> None:
    with pytest.raises(ValueError, match="of containers"):
        a_request(CardRelation.FREE, a_claim(1), a_claim(2), of_pod=True)
    for claims in ([], [a_claim(1)] * 33):
        with pytest.raises(ValueError, match="number of claims"):
            a_request(CardRelation.FREE, *claims)


def test_the_sizes_of_cards_are_no_empty_range() -> None:
    assert GpuClaim(milli=0, card_bytes=(1, 2)).card_bytes == (1, 2)
    with pytest.raises(ValueError, match="empty range"):
        GpuClaim(milli=0, card_bytes=(2, 2))
