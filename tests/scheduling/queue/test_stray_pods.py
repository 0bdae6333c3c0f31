"""Pods that ask in a dialect and name a scheduler that is not there get one event that says so."""

from typing import Any

import pytest

from kubeshare_py.dialects.pod_request import unread
from kubeshare_py.domain.dialect_switch import ALL_ON
from kubeshare_py.domain.effects import PodWarning, ReportPodWarning
from kubeshare_py.domain.events import BindSlotsFree, PodGone, PodSeen, PodsListed, TimePassed
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import Pod
from kubeshare_py.scheduling import event_handlers
from kubeshare_py.scheduling.event_handlers import MOST, PATIENCE_S
from kubeshare_py.testing.values import whole
from tests.making import Driver, a_pod, a_shape, a_share, of

LONG = PATIENCE_S + 1


def a_leader() -> Driver:
    driver = Driver({"n1": 2})
    driver.decide()
    return driver


def stray(name: str = "a", scheduler: str = event_handlers.DEFAULT, **fields: Any) -> Pod:
    return a_share(name, 500, scheduler_name=scheduler, **fields)


def notes(driver: Driver, after_s: float = LONG) -> list[str]:
    """What is said of pods after a while."""
    driver.now += after_s
    effects = driver.tell(TimePassed())
    found = of(ReportPodWarning, effects)
    assert {one.warning for one in found} <= {PodWarning.NO_SCHEDULER}
    return [one.note for one in found]


def test_it_says_once_which_label_and_which_name_would_help() -> None:
    driver = a_leader()
    driver.tell(PodSeen(stray()))
    wake_at = driver.machine.wake_at(driver.now)
    assert wake_at is not None
    assert wake_at <= driver.now + PATIENCE_S
    assert notes(driver, PATIENCE_S / 2) == []
    [note] = notes(driver)
    assert "its schedulerName is default-scheduler" in note
    assert "kubectl label namespace default kubeshare.io/dialects=true" in note
    assert "schedulerName: kubeshare-scheduler" in note
    driver.tell(PodSeen(stray()))
    assert notes(driver) == []


def test_a_misspelt_name_is_named() -> None:
    driver = a_leader()
    driver.tell(PodSeen(stray(scheduler="kubeshare-schedular")))
    [note] = notes(driver)
    assert "no scheduler here is called kubeshare-schedular" in note
    assert "did you mean schedulerName: kubeshare-scheduler?" in note


def test_the_stand_in_for_kube_scheduler_is_not_advised() -> None:
    names = ("kubeshare-scheduler", event_handlers.DEFAULT)
    profiles = [{"schedulerName": name} for name in names]
    driver = Driver({"n1": 2}, {"profiles": profiles})
    driver.decide()
    driver.tell(PodSeen(stray(scheduler="nano-scheduler")))
    [note] = notes(driver)
    assert "did you mean schedulerName: kubeshare-scheduler?" in note


def unreadable(*names: str, scheduler: str = event_handlers.DEFAULT) -> Pod:
    """A pod that asks by names that no profile here reads."""
    problem = unread(names, scheduler, elsewhere=False)
    shape = a_shape(resources=tuple((name, 1) for name in names))
    return a_pod("a", shape, scheduler_name=scheduler, problem=problem)


def test_a_dialect_that_is_off_is_named_with_the_command_that_switches_it_on() -> None:
    driver = a_leader()
    driver.tell(PodSeen(unreadable("nvidia.com/gpu", "nvidia.com/gpumem")))
    [note] = notes(driver)
    assert "its schedulerName is default-scheduler" in note
    assert f"nvidia.com/gpumem is of dialect hami, which is off: enable it, or {ALL_ON}" in note


@pytest.mark.parametrize(
    "pod",
    [
        unreadable("nvidia.com/gpu"),
        unreadable("nvidia.com/gpumem", scheduler="hami-scheduler"),
        a_pod("a", a_shape(), scheduler_name=event_handlers.DEFAULT),
        stray(scheduler="volcano"),
        a_pod(
            "a",
            a_shape(whole(1), resources=(("nvidia.com/gpu of nvidia", 1),)),
            scheduler_name=event_handlers.DEFAULT,
        ),
    ],
    ids=[
        "another dialect's cards of the kubelet",
        "another dialect's scheduler",
        "no GPU",
        "another scheduler",
        "whole cards of the kubelet",
    ],
)
def test_nothing_is_said_of_pods_that_others_may_well_place(pod: Pod) -> None:
    driver = a_leader()
    driver.tell(PodSeen(pod))
    assert notes(driver) == []


def test_nothing_is_said_of_pods_that_were_placed_or_are_gone() -> None:
    driver = a_leader()
    for name in "abc":
        driver.tell(PodSeen(stray(name)))
    driver.tell(PodSeen(stray("a", node_name=NodeName("n1"))))
    driver.tell(PodGone(stray("b").uid, stopped=True))
    driver.tell(PodsListed((stray("a", node_name=NodeName("n1")),), asked_at=driver.now))
    assert notes(driver) == []


def test_only_the_leader_says_it() -> None:
    driver = Driver({"n1": 2})
    driver.tell(PodSeen(stray()))
    assert notes(driver) == []
    effects = driver.tell(BindSlotsFree(slots=1))
    assert len(of(ReportPodWarning, effects)) == 1


def test_a_flood_of_them_is_bounded() -> None:
    driver = a_leader()
    for number in range(MOST + 100):
        driver.tell(PodSeen(stray(f"p{number}")))
    assert len(notes(driver)) == MOST
