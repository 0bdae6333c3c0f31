"""A placement is committed in one way, whether of a pod, of a gang or of a preemptor."""

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

import kubeshare_py.scheduling
from kubeshare_py.domain.effects import Bind
from kubeshare_py.scheduling.queue.pod_records import PodState
from tests.making import (
    PREEMPTION,
    Driver,
    a_group,
    a_share,
    members,
    names,
)
from tests.scheduling.test_reservations import (
    AFTER_S,
    a_big_pod_with_reservations,
    a_driver,
    small,
)

SCHEDULING = Path(kubeshare_py.scheduling.__file__).parent
Story = Callable[[], tuple[Driver, list[Bind]]]


def a_single_pod() -> tuple[Driver, list[Bind]]:
    driver = Driver({"n1": 2})
    return driver, driver.show(a_share("single"))


def a_gang() -> tuple[Driver, list[Bind]]:
    driver = Driver({"n1": 2})
    return driver, driver.show(*members(a_group(2), 2))


def a_gang_in_two_parts() -> tuple[Driver, list[Bind]]:
    driver = Driver({"n1": 3})
    return driver, driver.show(*members(a_group(2, headcount=3), 3))


def a_pod_with_reservations() -> tuple[Driver, list[Bind]]:
    driver = a_driver({"n1": 2})
    a_big_pod_with_reservations(driver)
    assert driver.machine.reservations
    return driver, driver.gone(small(0))


def a_gang_with_reservations() -> tuple[Driver, list[Bind]]:
    driver = a_driver({"n1": 2})
    driver.bound(driver.show(small(0)), small(0))
    driver.show(*members(a_group(2), 2, created="1"))
    driver.later(AFTER_S)
    assert driver.machine.reservations
    return driver, driver.gone(small(0))


def a_preemptor() -> tuple[Driver, list[Bind]]:
    driver = Driver({"n1": 1}, PREEMPTION)
    driver.fill(a_share("low"))
    driver.show(a_share("urgent", priority=1))
    assert driver.machine.reservations
    return driver, driver.gone("low")


STORIES: list[Story] = [
    a_single_pod,
    a_gang,
    a_gang_in_two_parts,
    a_pod_with_reservations,
    a_gang_with_reservations,
    a_preemptor,
]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_committed_pod_is_charged_awaits_its_answer_and_waits_for_nothing(story: Story) -> None:
    driver, binds = story()
    machine = driver.machine
    assert binds
    assert machine.unanswered == len(binds)
    for bind in binds:
        record, charge = machine.records[bind.uid], machine.ledger.charge_of(bind.uid)
        assert record.state is PodState.ASSUMED
        assert charge is not None
        assert (charge.node, charge.allocation) == (bind.node, bind.allocation)
        assert machine.queue.queue_of(bind.uid) is None
        gang = machine.gangs.of(bind.uid)
        assert gang is None or bind.uid not in gang.waiting
    assert not machine.reservations, "what was kept for the nominee is given back"
    assert not machine.ledger.reservations


def test_a_place_that_another_pod_was_to_get_is_planned_anew() -> None:
    driver = a_driver({"n1": 2})
    a_big_pod_with_reservations(driver)
    driver.now += 1
    # It goes before the holder, so that it may take the card that is kept.
    assert names(driver.show(a_share("urgent", priority=1))) == ["urgent"]
    assert [reservation.planned_at for reservation in driver.machine.reservations.holders] == [
        driver.now
    ]


def calls(name: str) -> list[str]:
    """Where a method of this name is called in the scheduler, by file."""
    return [
        path.name
        for path in sorted(SCHEDULING.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == name
    ]


@pytest.mark.slow
def test_pods_and_gangs_take_the_same_way_and_no_other() -> None:
    assert calls("commit") == ["extender_binds.py", "pod_cycle.py", "gang_cycles.py"]
    assert calls("break_under_pod") == ["pod_cycle.py"]
    assert {*calls("_bind")} == {"pod_cycle.py"}
