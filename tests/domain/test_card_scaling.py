"""Rules that scale cards: which card they are about, and what it has then."""

import math

import pytest

from kubeshare_py.domain.card_scaling import CardScaling, scaled, thousandths
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName
from tests.builders import GIB, a_gpu


def capacities(gpu: Gpu) -> tuple[int, int, int]:
    return gpu.max_tenants, gpu.capacity_milli, gpu.capacity_bytes


def one(rules: tuple[CardScaling, ...], node: str = "t4-1", **fields: object) -> Gpu:
    (found,) = scaled(rules, NodeName(node), (a_gpu("a", **fields),))
    return found


def test_without_a_rule_a_card_gives_what_it_has() -> None:
    cards = (a_gpu("a", memory_bytes=GIB),)
    assert scaled((), NodeName("n1"), cards) is cards
    assert capacities(cards[0]) == (0, 1000, GIB)


def test_the_first_rule_that_covers_a_card_counts() -> None:
    rules = (
        CardScaling(nodes=("t4-*", "x"), models=("T4",), cores_scaling=2000),
        CardScaling(models=("A100",), memory_scaling=1500, max_tenants=3),
        CardScaling(cores_scaling=500),
    )
    assert one(rules, model="Tesla-T4").capacity_milli == 2000
    assert one(rules, "other", model="Tesla-T4").capacity_milli == 500
    assert capacities(one(rules, "other", memory_bytes=3)) == (3, 1000, 4)


def test_what_the_source_says_of_a_card_counts_and_of_two_limits_the_smaller() -> None:
    rules = (CardScaling(memory_scaling=1500, cores_scaling=2000, max_tenants=4),)
    own = one(rules, memory_bytes=100, memory_scaling=2000, cores_scaling=3000, max_tenants=9)
    assert capacities(own) == (4, 3000, 200)
    assert one(rules, max_tenants=2).max_tenants == 2


def test_a_card_keeps_its_memory_where_none_would_be_left() -> None:
    assert one((CardScaling(memory_scaling=1),), memory_bytes=999).capacity_bytes == 999
    assert one((CardScaling(memory_scaling=2000),), memory_bytes=2**48).capacity_bytes == 2**48


@pytest.mark.parametrize(("uuid", "parent"), [("a", GpuUuid("GPU-a")), ("MIG-a", None)])
def test_mig_instances_are_not_scaled_but_their_pods_are_limited(
    uuid: str, parent: GpuUuid | None
) -> None:
    rules = (CardScaling(memory_scaling=1500, cores_scaling=2000, max_tenants=4),)
    [found] = scaled(rules, NodeName("n"), (a_gpu(uuid, memory_bytes=GIB, parent=parent),))
    assert capacities(found) == (4, 1000, GIB)


@pytest.mark.parametrize(("factor", "found"), [(1.0, 1000), (1.5, 1500), (0.001, 1), (2.675, 2675)])
def test_factors_are_read_exactly(factor: float, found: int) -> None:
    assert thousandths(factor) == found


@pytest.mark.parametrize(
    ("factor", "rule"),
    [
        (1.0001, "1.0001 has more than three decimals"),
        (0.0, "0.0 is not within 0.001…100"),
        (100.5, "100.5 is not within 0.001…100"),
        (math.inf, "inf is not a number"),
        (math.nan, "nan is not a number"),
    ],
)
def test_other_factors_are_refused(factor: float, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        thousandths(factor)


def test_the_scaled_memory_of_a_card_is_within_the_bound_of_memory() -> None:
    with pytest.raises(ValueError, match="scaled memory"):
        a_gpu("a", memory_bytes=2**48, memory_scaling=1001)
    with pytest.raises(ValueError, match="scaled memory"):
        a_gpu("a", memory_bytes=1, memory_scaling=999)
