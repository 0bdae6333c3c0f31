"""Gangs that must be in one place preempt in one place only."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.events import InventoryRead, NodesListed
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import Pod, PodGroup
from kubeshare_py.domain.values import replace
from tests.making import (
    PREEMPTION,
    Driver,
    a_claim,
    a_group,
    a_node,
    a_pod,
    a_shape,
    members,
    some_gpus,
)
from tests.scale import examples
from tests.scheduling.pod_groups.test_gang_places import ZONE

HOST = "kubernetes.io/hostname"


def cluster(tenants: Mapping[str, int | None]) -> Driver:
    """Nodes of one card: the zone is the name's first letter, x is none; their tenants' ranks."""
    driver = Driver({}, PREEMPTION)
    zones = {name: {ZONE: name[0]} if name[0] != "x" else {} for name in tenants}
    nodes = tuple(a_node(name, labels={HOST: name, **zone}) for name, zone in zones.items())
    cards = tuple((NodeName(name), some_gpus(name, 1)) for name in tenants)
    driver.tell(NodesListed(nodes), InventoryRead(cards))
    for name, priority in tenants.items():
        if priority is not None:
            driver.fill(pinned(f"on-{name}", name, priority=priority))
    return driver


def pinned(name: str, node: str, priority: int = 0, group: PodGroup | None = None) -> Pod:
    shape = a_shape(a_claim(1000), node_selector=((HOST, node),))
    return a_pod(name, shape, priority=priority, group=group)


def urgent(count: int, least: int = 0, start: int = 0) -> list[Pod]:
    group = replace(a_group(least or count, headcount=max(count, 3)), within=ZONE)
    return members(group, count, start=start, priority=9)


def test_all_victims_are_in_one_place_the_one_where_the_least_important_are() -> None:
    driver = cluster({"a1": 1, "a2": 5, "b1": 3, "b2": 4, "x1": 0, "x2": 0})
    driver.show(*urgent(2))
    assert sorted(driver.evicted) == ["on-b1", "on-b2"]


def test_nobody_goes_where_no_place_could_hold_it() -> None:
    driver = cluster({"a1": 1, "a2": 9, "b1": 1, "x1": 0, "x2": 0})
    driver.show(*urgent(2))
    assert driver.evicted == []


def test_what_is_free_in_a_place_is_counted_on() -> None:
    driver = cluster({"a1": 1, "a2": 1, "b1": 5, "b2": None})
    driver.show(*urgent(2))
    assert sorted(driver.evicted) == ["on-a1", "on-a2"]
    driver = cluster({"a1": 1, "a2": 1, "b1": 1, "b2": None})
    driver.show(*urgent(2))
    assert driver.evicted == ["on-b1"]


@pytest.mark.parametrize("least", [1, 2])
def test_later_members_take_places_near_those_that_are_there(least: int) -> None:
    driver = cluster({"a1": 5, "a2": None, "a3": None, "b1": 1})
    first = [
        replace(pod, shape=replace(pod.shape, node_selector=((ZONE, "a"),)))
        for pod in urgent(2, least)
    ]
    driver.fill(*first)
    driver.show(*urgent(1, least, start=2))
    assert driver.evicted == ["on-a1"]


RANKS = st.lists(st.one_of(st.none(), st.integers(0, 12)), min_size=1, max_size=5)


@examples(100)
@given(RANKS, RANKS, RANKS, st.integers(2, 4))
def test_the_place_is_the_best_by_the_order_of_kube_scheduler(
    a: list[int | None], b: list[int | None], x: list[int | None], count: int
) -> None:
    zones = {"a": a, "b": b, "x": x}
    ranks = {f"{zone}{n}": rank for zone, some in zones.items() for n, rank in enumerate(some)}
    driver = cluster(ranks)
    bound = driver.show(*urgent(count))
    costs = []
    for some in (a, b):
        lacking = max(0, count - some.count(None))
        able = sorted(rank for rank in some if rank is not None and rank < 9)
        if len(able) >= lacking:
            gone = able[:lacking]
            costs.append((max(gone, default=-1), sum(gone) + (len(gone) << 31)))
    gone = [
        rank for name in driver.evicted if (rank := ranks[name.removeprefix("on-")]) is not None
    ]
    assert len({name[3] for name in driver.evicted}) <= 1
    assert bool(bound or gone) == bool(costs)
    if gone:
        assert (max(gone), sum(gone) + (len(gone) << 31)) == min(costs)
