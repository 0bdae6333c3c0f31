"""Values refuse amounts beyond their bounds, and take those that are just within."""

from collections.abc import Callable
from typing import Any

import pytest

from kubeshare_py.domain import bounds
from kubeshare_py.domain.allocation import CardCharge
from kubeshare_py.domain.bounds import AmountRange
from kubeshare_py.domain.gpu import PeerLink
from kubeshare_py.domain.group_objects import GroupApi, PodGroupObject
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.domain.pod import PodGroup
from kubeshare_py.domain.request import GpuClaim
from tests.builders import a_gpu

OF_A_GPU = {
    "index": bounds.CARD_INDEX,
    "memory_bytes": bounds.CARD_BYTES,
    "max_tenants": bounds.CARD_TENANTS,
    "memory_scaling": bounds.SCALING,
    "cores_scaling": bounds.SCALING,
    "numa_node": bounds.NUMA_NODE,
    "cell_priority": bounds.CELL_PRIORITY,
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
    "peer": (bounds.CARD_INDEX, lambda amount: PeerLink(amount, "NV1", 1)),
    "speed": (bounds.LINK_SPEED, lambda amount: PeerLink(1, "NV1", amount)),
    "charge": (bounds.HELD_BYTES, lambda amount: CardCharge(GpuUuid("g"), 1, amount)),
    "count": (bounds.CLAIMED_CARDS, lambda amount: GpuClaim(milli=1, count=amount)),
    "claim": (bounds.HELD_BYTES, lambda amount: GpuClaim(milli=1, memory_bytes=amount)),
    "minimum": (bounds.GROUP_MEMBERS, of_a_group),
    "headcount": (
        bounds.GROUP_MEMBERS,
        lambda amount: PodGroup(name="g", headcount=amount, min_available=0),
    ),
    "min_available": (
        bounds.GROUP_MINIMUM,
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
