"""Which part of its cards an init container may use, by its pod's allocation."""

import pytest

from kubeshare_py.domain.allocation import Allocation, CardCharge, ClaimCharge, summed
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, PodKey, PodUid
from kubeshare_py.domain.request import ContainerRef
from kubeshare_py.node_agent.device_plugin.container_cards import (
    ContainerSpec,
    DevicePod,
    placed_cards,
)
from tests.builders import a_gpu

MIB = 2**20
CARD = GpuUuid("GPU-a")


@pytest.mark.parametrize(
    ("token", "charged", "used"),
    [("t", 500, 500), ("t", 0, 3000), ("", 1000, 4000), ("", 0, 3000)],
)
def test_an_init_container_uses_its_part_or_that_of_a_later_one(
    token: str, charged: int, used: int
) -> None:
    """Of a pod that HAMi bound only what is beyond the others' part is charged."""
    parts = {ContainerRef(True, 0): charged, ContainerRef(False, 0): 3000}
    claims = tuple(
        ClaimCharge(container=ref, cards=(CardCharge(CARD, 0, mib * MIB),))
        for ref, mib in parts.items()
    )
    cards = summed(card for one in claims for card in one.cards)
    allocation = Allocation(token=DecisionToken(token), cards=cards, claims=claims)
    pod = DevicePod(
        key=PodKey("default", "p"),
        uid=PodUid("u"),
        containers={"first": ContainerRef(True, 0), "main": ContainerRef(False, 0)},
        annotations={},
        specs={"first": ContainerSpec(runs_first=True), "main": ContainerSpec()},
        allocation=allocation,
    )
    [first] = placed_cards(pod, "first", "x.y/z", [a_gpu(CARD)])
    [main] = placed_cards(pod, "main", "x.y/z", [a_gpu(CARD)])
    assert (first.memory_bytes, main.memory_bytes) == (used * MIB, 3000 * MIB)
