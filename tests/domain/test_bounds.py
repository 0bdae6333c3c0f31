"""Values refuse amounts beyond their bounds, and take those that are just within."""

from collections.abc import Callable
from typing import Any

import pytest

from kubeshare_py.domain import quantity
from kubeshare_py.domain.allocation import CardCharge
from kubeshare_py.domain.cluster_objects import GroupApi, PodGroupObject
from kubeshare_py.domain.gpu import PeerLink
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.domain.pod import PodGroup
from kubeshare_py.domain.quantity import AmountRange
from kubeshare_py.domain.request import GpuClaim
from tests.making import a_gpu

OF_A_GPU = {
    "index": quantity.CARD_INDEX,
    "memory_bytes": quantity.CARD_BYTES,
    "max_tenants": quantity.CARD_TENANTS,
    "memory_scaling": quantity.SCALING,
    "cores_scaling": quantity.SCALING,
    "numa_node": quantity.NUMA_NODE,
    "cell_priority": quantity.CELL_PRIORITY,
}


def of_a_gpu(field: str) -> Callable[[int], object]:
    def make(amount: int) -> object:
        fields: dict[str, Any] = {field: amount}
        return a_gpu(**fields)

    return make


def of_a_group(amount: int) -> PodGroupObject:
    return PodGroupObject(api=GroupApi.KUBERNETES, namespace="n", name="g", min_member=amount)


MAKERS: dict[str, tuple[AmountRange, Callable[[int], object]]] = {
    **{field: (bound, of_a_gpu(field)) for field, bound in OF_A_GPU.items()},
    "peer": (quantity.CARD_INDEX, lambda amount: PeerLink(amount, "NV1", 1)),
    "speed": (quantity.LINK_SPEED, lambda amount: PeerLink(1, "NV1", amount)),
    "charge": (quantity.HELD_BYTES, lambda amount: CardCharge(GpuUuid("g"), 1, amount)),
    "count": (quantity.CLAIMED_CARDS, lambda amount: GpuClaim(milli=1, count=amount)),
    "claim": (quantity.HELD_BYTES, lambda amount: GpuClaim(milli=1, memory_bytes=amount)),
    "minimum": (quantity.GROUP_MEMBERS, of_a_group),
    "headcount": (
        quantity.GROUP_MEMBERS,
        lambda amount: PodGroup(name="g", headcount=amount, min_available=0),
    ),
    "min_available": (
        quantity.GROUP_MINIMUM,
        lambda amount: PodGroup(name="g", headcount=1, min_available=amount),
    ),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_value_is_within_its_bounds(name: str) -> None:
    bound, make = MAKERS[name]
    make(bound.least)
    make(bound.most)
    for beyond in (bound.least - 1, bound.most + 1, 2**63, 10**400):
        with pytest.raises(ValueError, match=f"is not within {bound.least}…{bound.most}"):
            make(beyond)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"uuid": ""}, "a GPU needs a UUID"),
        ({"uuid": "x" * 254}, "length of its uuid 254 is not within 1…253"),
        ({"model": "x" * 254}, "length of its model 254 is not within 1…253"),
    ],
)
def test_names_of_cards_have_a_length(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        a_gpu(**fields)
    a_gpu("x" * 253, model="")


def test_a_number_is_shown_as_long_as_it_can_be_read() -> None:
    assert AmountRange(0, 9).problem(5) == ""
    assert AmountRange(0, 9).problem(10**20) == f"{10**20} is not within 0…9"
    assert AmountRange(0, 9).problem(10**5000) == "with more than 24 digits is not within 0…9"
