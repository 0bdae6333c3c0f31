"""Which part of its cards an init container may use, by its pod's allocation."""

from collections.abc import Mapping

import pytest

from kubeshare_py.domain.allocation import Allocation, CardCharge, ClaimCharge, summed
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, PodKey, PodUid
from kubeshare_py.domain.request import ContainerRef
from kubeshare_py.node_agent.allocation import CardsUnknown, ContainerSpec, DevicePod, placed_cards
from tests.making import a_gpu

MIB = 2**20
CARD = GpuUuid("GPU-a")
FIRST, MAIN = ContainerRef(True, 0), ContainerRef(False, 0)


def a_pod(
    mib_of: Mapping[ContainerRef, int], token: str = "t", *, runs_first: bool = True
) -> DevicePod:
    """A pod of `first` and `main`, with so much of the card for each."""
    claims = tuple(
        ClaimCharge(container=ref, cards=(CardCharge(CARD, 0, mib * MIB),))
        for ref, mib in mib_of.items()
    )
    cards = summed(card for one in claims for card in one.cards)
    return DevicePod(
        key=PodKey("default", "p"),
        uid=PodUid("u"),
        containers={"first": FIRST, "main": MAIN},
        annotations={},
        specs={"first": ContainerSpec(runs_first=runs_first), "main": ContainerSpec()},
        allocation=Allocation(token=DecisionToken(token), cards=cards, claims=claims),
    )


@pytest.mark.parametrize(
    ("token", "charged", "used"),
    [("t", 500, 500), ("t", 0, 3000), ("", 1000, 4000), ("", 0, 3000)],
)
def test_an_init_container_uses_its_part_or_that_of_a_later_one(
    token: str, charged: int, used: int
) -> None:
    """Of a pod that HAMi bound only what is beyond the others' part is charged."""
    pod = a_pod({FIRST: charged, MAIN: 3000}, token)
    [first] = placed_cards(pod, "first", "x.y/z", [a_gpu(CARD)])
    [main] = placed_cards(pod, "main", "x.y/z", [a_gpu(CARD)])
    assert (first.memory_bytes, main.memory_bytes) == (used * MIB, 3000 * MIB)


@pytest.mark.parametrize("runs_first", [True, False])
def test_an_init_container_without_a_part_sees_no_card(runs_first: bool) -> None:
    """As gpushare counts them, sidecars included; other containers must have a part."""
    pod = a_pod({MAIN: 3000}, runs_first=runs_first)
    assert placed_cards(pod, "first", "x.y/z", [a_gpu(CARD)]) == ()
    with pytest.raises(CardsUnknown, match="has no card for container 'main'"):
        placed_cards(a_pod({FIRST: 3000}), "main", "x.y/z", [a_gpu(CARD)])
