"""Pods that fit nowhere are tried again after minutes, whatever hints say."""

from typing import Any

import pytest

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.domain.events import BindRefused, Bound, PodGone, PodSeen, Refusal, TimePassed
from kubeshare_py.domain.pod import Pod, Shape
from kubeshare_py.framework.profile_making import PluginFactory
from kubeshare_py.plugin import Depends, IntArray, ReasonTable, RowFilter, Rows
from kubeshare_py.scheduling.explain.figures import decision_figures
from kubeshare_py.scheduling.machine import configured_machine
from tests.making import Driver, a_claim, a_group, a_pod, a_shape, a_share, members

WAIT_S = 300.0
MOVE = ("active", "UnschedulableTimeout")
SMALL = a_shape(a_claim(600))


class Moody:
    """A filter whose answer changes without any event, which its contract does not allow."""

    name = "Moody"
    depends = Depends.STATIC

    def __init__(self) -> None:
        self.refuses = True

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        """Refuses all nodes, or none."""
        moody = reasons.register(self.name, "node is moody")

        def ask(rows: Rows) -> IntArray:
            return rows.unschedulable * 0 + (moody if self.refuses else 0)

        return ask


class MoodyDriver(Driver):
    """A cluster of two cards whose profile has that filter."""

    def __init__(self, **document: Any) -> None:
        self.moody = Moody()
        known: dict[str, PluginFactory] = {**IN_TREE, "Moody": lambda: self.moody}
        profile = {"plugins": {"filter": {"enabled": [{"name": "Moody"}]}}}
        given = read({"profiles": [profile], **document})
        super().__init__({"n1": 2}, machine=configured_machine(given, known, "test"))

    def flushed(self) -> int:
        """Pods that the flush moved so far."""
        return dict(self.machine.moves.counts()).get(MOVE, 0)

    def after_flush(self) -> int:
        """Pods bound because of it."""
        return decision_figures(self.machine).scheduled_after_flush

    def pass_time(self, seconds: float) -> None:
        """The machine is asked to decide whenever it wants to be, until then."""
        end = self.now + seconds
        while (wake_at := self.machine.wake_at(self.now)) is not None and wake_at < end:
            self.now = max(wake_at, self.now)
            assert self.decide() == []
        self.now = end


@pytest.fixture
def driver() -> MoodyDriver:
    return MoodyDriver()


def test_a_pod_is_tried_again_after_five_minutes_and_counted(driver: MoodyDriver) -> None:
    assert driver.seen(a_pod("p", SMALL)) == []
    driver.moody.refuses = False
    driver.pass_time(WAIT_S)
    assert (driver.flushed(), driver.after_flush()) == (0, 0)
    (bind,) = driver.decide()
    assert driver.flushed() == 1
    assert driver.after_flush() == 0
    driver.answer(bind, Bound())
    assert driver.after_flush() == 1


def test_one_that_still_fits_nowhere_waits_as_long_again(driver: MoodyDriver) -> None:
    driver.seen(a_pod("p", SMALL))
    driver.pass_time(WAIT_S + 1)
    assert driver.decide() == []
    assert driver.flushed() == 1
    driver.pass_time(WAIT_S - 10)
    assert driver.decide() == []
    assert driver.flushed() == 1
    driver.pass_time(10)
    assert driver.decide() == []
    assert driver.flushed() == 2


def test_all_pods_of_a_shape_are_moved_and_counted(driver: MoodyDriver) -> None:
    pods = [a_share(f"p{number}", 300) for number in range(5)]
    driver.tell(*map(PodSeen, pods))
    assert driver.decide() == []
    driver.moody.refuses = False
    driver.pass_time(WAIT_S)
    binds = driver.decide()
    assert (len(binds), driver.flushed()) == (5, 5)
    for bind in binds:
        driver.answer(bind, Bound())
    assert driver.after_flush() == 5


def test_a_pod_that_an_event_helped_is_not_counted(driver: MoodyDriver) -> None:
    driver.moody.refuses = False
    whole = a_pod("whole", a_shape(a_claim(1000, count=2)))
    driver.place(whole)
    assert driver.seen(a_pod("p", SMALL)) == []
    driver.pass_time(WAIT_S + 1)
    assert driver.decide() == []
    assert driver.flushed() == 1
    driver.tell(PodGone(whole.uid))
    (bind,) = driver.decide()
    driver.answer(bind, Bound())
    assert driver.after_flush() == 0


def test_a_shape_that_was_tried_later_is_not_flushed_with_others(driver: MoodyDriver) -> None:
    driver.seen(a_pod("p", SMALL))
    driver.pass_time(100)
    driver.seen(a_share("q", 500))
    driver.moody.refuses = False
    driver.pass_time(WAIT_S - 100)
    assert [bind.key.name for bind in driver.decide()] == ["p"]
    driver.pass_time(100)
    assert [bind.key.name for bind in driver.decide()] == ["q"]


def test_a_refused_binding_ends_the_flush(driver: MoodyDriver) -> None:
    driver.seen(a_pod("p", SMALL))
    driver.moody.refuses = False
    driver.pass_time(WAIT_S)
    (bind,) = driver.decide()
    driver.answer(bind, BindRefused(Refusal.INVALID, "no"))
    driver.now += 1
    (bind,) = driver.decide()
    driver.answer(bind, Bound())
    assert driver.after_flush() == 0


def test_gangs_are_tried_again_too(driver: MoodyDriver) -> None:
    gang: list[Pod] = members(a_group(2), 2)
    driver.tell(*map(PodSeen, gang))
    assert driver.decide() == []
    driver.moody.refuses = False
    driver.pass_time(WAIT_S)
    assert driver.flushed() == 0
    binds = driver.decide()
    assert (len(binds), driver.flushed()) == (2, 2)
    for bind in binds:
        driver.answer(bind, Bound())
    assert driver.after_flush() == 2


def test_the_configuration_says_after_how_long() -> None:
    driver = MoodyDriver(podMaxInUnschedulablePodsSeconds=40)
    driver.seen(a_pod("p", SMALL))
    driver.moody.refuses = False
    driver.pass_time(40)
    assert len(driver.decide()) == 1


def test_without_pods_that_fit_nowhere_there_is_nothing_to_flush(driver: MoodyDriver) -> None:
    assert driver.decide() == []
    assert driver.machine.wake_at(driver.now) is None
    pod = a_pod("p", SMALL)
    driver.seen(pod)
    driver.tell(PodGone(pod.uid))
    driver.pass_time(WAIT_S)
    driver.tell(TimePassed())
    assert driver.flushed() == 0
    assert driver.machine.wake_at(driver.now) is None
