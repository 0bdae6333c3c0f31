import pytest

from kubeshare_py.domain.allocation import Allocation, CardCharge, ClaimCharge, common_limit, summed
from kubeshare_py.domain.identity import DecisionToken, GpuUuid
from kubeshare_py.domain.request import ContainerRef

A, B = GpuUuid("GPU-a"), GpuUuid("GPU-b")


def test_a_card_is_charged_once_with_all_that_is_held_of_it() -> None:
    parts = (CardCharge(A, 200, 3, "M", "n/1"), CardCharge(B, 1, 1), CardCharge(A, 300, 4))
    assert summed(parts) == (CardCharge(A, 500, 7, "M", "n/1"), CardCharge(B, 1, 1))


@pytest.mark.parametrize("first", [True, False])
def test_a_card_is_for_the_pod_alone_if_any_of_its_containers_has_it_so(first: bool) -> None:
    parts = (CardCharge(A, 1, 1, exclusive=first), CardCharge(A, 1, 1, exclusive=not first))
    assert summed(parts) == (CardCharge(A, 2, 2, exclusive=True),)


def test_the_claims_of_one_container_are_told_together() -> None:
    main, init = ContainerRef(False, 0), ContainerRef(True, 3)
    claims = (
        ClaimCharge(container=init, cards=(CardCharge(B, 5, 5),), limit_milli=9),
        ClaimCharge(container=main, cards=(CardCharge(A, 1, 1),), limit_milli=700),
        ClaimCharge(container=main, cards=(CardCharge(B, 2, 2), CardCharge(A, 3, 3))),
    )
    held = Allocation(token=DecisionToken("t"), claims=claims)
    assert held.containers == (
        ClaimCharge(container=main, cards=(CardCharge(A, 4, 4), CardCharge(B, 2, 2))),
        claims[0],
    )
    assert Allocation(token=DecisionToken("t"), cards=(CardCharge(A, 1, 1),)).containers == ()


@pytest.mark.parametrize(("limits", "together"), [((7, 9), 9), ((7, 0), 0), ((0,), 0)])
def test_a_claim_without_a_limit_leaves_the_others_without_one(
    limits: tuple[int, ...], together: int
) -> None:
    assert common_limit(limits) == together
