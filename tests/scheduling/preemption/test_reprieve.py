"""Which victims of a gang are reprieved: the important ones, as long as all of it still fits."""

from dataclasses import replace

from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.budget import Budget
from kubeshare_py.domain.events import BudgetSeen
from kubeshare_py.domain.identity import DecisionToken, NodeName, PodKey
from kubeshare_py.domain.label_selector import Requirement
from tests.builders import a_claim, a_pod, a_shape
from tests.scheduling.gang_driver import a_group, members
from tests.scheduling.preemption_driver import PreemptionDriver, pod


def a_cluster(cards: int = 1) -> PreemptionDriver:
    return PreemptionDriver({"n1": cards})


def preempts(driver: PreemptionDriver, milli: int, count: int = 2) -> list[str]:
    """A gang of so many members arrives; its victims."""
    driver.show(*members(a_group(count, "urgent"), count, a_claim(milli), priority=9))
    return sorted(driver.victims)


def quarters(*priorities: int) -> PreemptionDriver:
    """One card with a pod of a quarter for each priority, named after it."""
    driver = a_cluster()
    driver.fill(*(pod(f"p{priority}", 250, priority) for priority in priorities))
    return driver


def test_no_more_victims_go_than_the_gang_needs() -> None:
    driver = quarters(1, 2, 3, 4)
    assert preempts(driver, 125) == ["p1"]


def test_the_most_important_victims_are_reprieved() -> None:
    driver = quarters(4, 1, 3, 2)
    assert preempts(driver, 250) == ["p1", "p2"]


def test_of_equal_priority_the_pod_that_runs_longer_is_reprieved() -> None:
    driver = a_cluster()
    for name, hour in (("old", 10), ("new", 11)):
        driver.fill(pod(name, 500, started=f"2026-01-01T{hour}:00:00Z"))
    assert preempts(driver, 250) == ["new"]


def test_none_is_reprieved_where_the_gang_needs_the_whole_card() -> None:
    driver = quarters(1, 2, 3, 4)
    assert preempts(driver, 500) == ["p1", "p2", "p3", "p4"]


def test_a_small_victim_is_reprieved_beside_a_large_one_that_must_go() -> None:
    driver = a_cluster()
    driver.fill(pod("small", 300, 2), pod("large", 700, 1))
    assert preempts(driver, 300) == ["large"]


def test_one_important_victim_goes_where_many_unimportant_ones_would_not_do() -> None:
    driver = a_cluster()
    driver.fill(pod("small", 300, 1), pod("large", 700, 2))
    assert preempts(driver, 300) == ["large"]


def test_a_victim_that_no_budget_protects_goes_before_a_less_important_protected_one() -> None:
    driver = a_cluster()
    driver.fill(replace(pod("kept", 500, 1), labels=(("app", "db"),)), pod("free", 500, 2))
    db = (Requirement("app", "In", ("db",)),)
    driver.tell(BudgetSeen(Budget(key=PodKey("default", "db"), selector=db)))
    assert preempts(driver, 250) == ["free"]


def test_a_gang_that_is_needed_below_its_minimum_goes_as_a_whole() -> None:
    driver = a_cluster(3)
    gang = members(a_group(3), 3)
    driver.bound(driver.show(*gang), *gang)
    assert preempts(driver, 500) == ["g-0", "g-1", "g-2"]


def test_a_victim_that_a_later_one_makes_needless_is_reprieved() -> None:
    driver = PreemptionDriver({"n1": 2})
    driver.fill(pod("high", 500, 20), pod("half", 500, 0), pod("full", 1000, 1))
    driver.show(*members(a_group(2), 2, a_claim(500), priority=9))
    assert driver.victims == ["full"]


def test_of_an_elastic_gang_only_members_that_are_in_the_way_go() -> None:
    driver = PreemptionDriver({"n1": 1, "n2": 1})
    allocation = Allocation(token=DecisionToken("old"), group="g", min_available=2)
    for number, node, cpu in ((0, "n2", 1_000), (1, "n1", 30_000), (2, "n1", 1_000)):
        one = a_pod(f"g-{number}", a_shape(cpu=cpu), group=a_group(2, headcount=3))
        driver.show(replace(one, node_name=NodeName(node), allocation=allocation))
    alone = Allocation(token=DecisionToken("old"))
    other = a_pod("other", a_shape(cpu=60_000), priority=9)
    driver.show(replace(other, node_name=NodeName("n2"), allocation=alone))
    driver.show(a_pod("urgent", a_shape(cpu=60_000), priority=9))
    assert driver.victims == ["g-1"]


def test_of_a_gang_whose_quorum_is_met_as_many_members_are_reprieved_as_it_needs() -> None:
    driver = PreemptionDriver({"n1": 1, "n2": 1})
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
    assert driver.victims == ["g-1"]
