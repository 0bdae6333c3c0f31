"""Which victims of a gang are reprieved: the important ones, as long as all of it still fits."""

import pytest

from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.cluster_objects import Budget, Requirement
from kubeshare_py.domain.events import BudgetSeen
from kubeshare_py.domain.identity import DecisionToken, NodeName, PodKey
from kubeshare_py.domain.values import replace
from tests.making import PREEMPTION, Driver, a_claim, a_group, a_pod, a_shape, a_share, members


def a_cluster(cards: int = 1) -> Driver:
    return Driver({"n1": cards}, PREEMPTION)


def preempts(driver: Driver, milli: int, count: int = 2) -> list[str]:
    """A gang of so many members arrives; its victims."""
    driver.show(*members(a_group(count, "urgent"), count, a_claim(milli), priority=9))
    return sorted(driver.evicted)


@pytest.mark.parametrize(
    ("tenants", "milli", "victims"),
    [
        pytest.param({1: 250, 2: 250, 3: 250, 4: 250}, 125, [1], id="no more go than it needs"),
        pytest.param({4: 250, 1: 250, 3: 250, 2: 250}, 250, [1, 2], id="the important ones stay"),
        pytest.param({1: 250, 2: 250, 3: 250, 4: 250}, 500, [1, 2, 3, 4], id="it needs the card"),
        pytest.param({2: 300, 1: 700}, 300, [1], id="a small one stays beside a large one"),
        pytest.param({1: 300, 2: 700}, 300, [2], id="an important one goes if others do not do"),
    ],
)
def test_of_the_tenants_of_a_card_the_important_ones_are_reprieved(
    tenants: dict[int, int], milli: int, victims: list[int]
) -> None:
    driver = a_cluster()
    driver.fill(*(a_share(f"p{rank}", share, rank) for rank, share in tenants.items()))
    assert preempts(driver, milli) == [f"p{rank}" for rank in victims]


def test_of_equal_priority_the_pod_that_runs_longer_is_reprieved() -> None:
    driver = a_cluster()
    for name, hour in (("old", 10), ("new", 11)):
        driver.fill(a_share(name, 500, started=f"2026-01-01T{hour}:00:00Z"))
    assert preempts(driver, 250) == ["new"]


def test_a_victim_that_no_budget_protects_goes_before_a_less_important_protected_one() -> None:
    driver = a_cluster()
    driver.fill(replace(a_share("kept", 500, 1), labels=(("app", "db"),)), a_share("free", 500, 2))
    db = (Requirement("app", "In", ("db",)),)
    driver.tell(BudgetSeen(Budget(key=PodKey("default", "db"), selector=db)))
    assert preempts(driver, 250) == ["free"]


def test_a_gang_that_is_needed_below_its_minimum_goes_as_a_whole() -> None:
    driver = a_cluster(3)
    gang = members(a_group(3), 3)
    driver.bound(driver.show(*gang), *gang)
    assert preempts(driver, 500) == ["g-0", "g-1", "g-2"]


def test_a_victim_that_a_later_one_makes_needless_is_reprieved() -> None:
    driver = Driver({"n1": 2}, PREEMPTION)
    driver.fill(a_share("high", 500, 20), a_share("half", 500, 0), a_share("full", 1000, 1))
    driver.show(*members(a_group(2), 2, a_claim(500), priority=9))
    assert driver.evicted == ["full"]


def test_of_an_elastic_gang_only_members_that_are_in_the_way_go() -> None:
    driver = Driver({"n1": 1, "n2": 1}, PREEMPTION)
    allocation = Allocation(token=DecisionToken("old"), group="g", min_available=2)
    for number, node, cpu in ((0, "n2", 1_000), (1, "n1", 30_000), (2, "n1", 1_000)):
        one = a_pod(f"g-{number}", a_shape(cpu=cpu), group=a_group(2, headcount=3))
        driver.show(replace(one, node_name=NodeName(node), allocation=allocation))
    alone = Allocation(token=DecisionToken("old"))
    other = a_pod("other", a_shape(cpu=60_000), priority=9)
    driver.show(replace(other, node_name=NodeName("n2"), allocation=alone))
    driver.show(a_pod("urgent", a_shape(cpu=60_000), priority=9))
    assert driver.evicted == ["g-1"]


def test_of_a_gang_whose_quorum_is_met_as_many_members_are_reprieved_as_it_needs() -> None:
    driver = Driver({"n1": 1, "n2": 1}, PREEMPTION)
    allocation = Allocation(token=DecisionToken("old"), group="g", min_available=2)
    for number, node, cpu, priority in (
        (0, "n2", 64_000, 20),
        (1, "n1", 30_000, 5),
        (2, "n1", 1, 0),
    ):
        shape, group = a_shape(cpu=cpu), a_group(2, headcount=3)
        one = a_pod(f"g-{number}", shape, group=group, priority=priority)
        driver.show(replace(one, node_name=NodeName(node), allocation=allocation))
    driver.show(a_pod("urgent", a_shape(cpu=60_000), priority=9))
    assert driver.evicted == ["g-1"]
