"""The policy changes while pods wait and run: who holds what stays, and decisions follow it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given

from kubeshare_plugins import IN_TREE
from kubeshare_py.cluster.columns import CARD_COLUMNS, NODE_COLUMNS
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.domain.effects import Effect, ReportWaiting
from kubeshare_py.domain.events import BindSlotsFree, PodSeen
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import Pod
from kubeshare_py.framework.profile_making import profiles as made_profiles
from kubeshare_py.framework.scheduler_profile import Profile, ProfilesReplaced
from kubeshare_py.scheduling.machine import Machine
from tests.making import Driver, a_claim, a_pod, a_shape, a_share
from tests.making.world import Step, World
from tests.scale import examples
from tests.scheduling.test_any_history import STEPS

SPREAD = {
    "score": {"disabled": [{"name": "*"}], "enabled": [{"name": "Spread"}]},
    "cardScore": {"disabled": [{"name": "*"}], "enabled": [{"name": "Spread"}]},
}

FAST = (("disk", "fast"),)
ANY_NODE = {"filter": {"disabled": [{"name": "NodeAffinity"}]}}


def profiles(plugins: Any = None, **more: Any) -> tuple[Profile, ...]:
    quiet = {"postFilter": {"disabled": [{"name": "*"}]}}
    document = {"profiles": [{"plugins": {**quiet, **(plugins or {})}, **more}]}
    return made_profiles(read(document), IN_TREE)


def picture(machine: Machine) -> dict[str, Any]:
    """The ledger as it is: every column, and what each pod is charged."""
    columns = machine.ledger.columns
    names = ("allocatable", "free", "present", *NODE_COLUMNS, *CARD_COLUMNS)
    taken: dict[str, Any] = {name: getattr(columns, name).copy() for name in names}
    taken["charges"] = {uid: machine.ledger.charge_of(uid) for uid in machine.records}
    return taken


def expect_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    for name, value in one.items():
        same = value == other[name] if name == "charges" else np.array_equal(value, other[name])
        assert same, name


def place(driver: Driver, *pods: Pod) -> list[NodeName]:
    """Create pods one after another, each bound before the next; where they went."""
    return [driver.place(pod).node for pod in pods]


def shares(*names: str) -> list[Pod]:
    return [a_share(name, 100) for name in names]


def test_placements_obey_the_new_profile() -> None:
    driver = Driver({"n1": 2, "n2": 2})
    first = place(driver, *shares("a", "b"))
    assert len(set(first)) == 1, "packed"
    driver.tell(ProfilesReplaced(profiles(SPREAD)))
    [after] = place(driver, *shares("c"))
    assert after not in first, "spread"


def test_what_a_new_filter_no_longer_refuses_is_placed_at_once() -> None:
    driver = Driver({"n1": 2, "n2": 2})
    choosy = a_pod("choosy", a_shape(a_claim(100), node_selector=FAST))
    driver.tell(PodSeen(choosy))
    assert "node affinity" in told(driver.tell(BindSlotsFree(9)))
    driver.now = 1.0
    driver.tell(ProfilesReplaced(profiles(ANY_NODE)))
    [bind] = driver.decide()
    assert bind.uid == choosy.uid


def test_who_still_waits_is_told_the_new_reasons_without_delay() -> None:
    driver = Driver({"n1": 2, "n2": 2})
    pod = a_pod("t4", a_shape(a_claim(100, models=("T4",)), node_selector=FAST))
    driver.tell(PodSeen(pod))
    assert "node affinity" in told(driver.tell(BindSlotsFree(9)))
    driver.now = 0.1
    driver.tell(ProfilesReplaced(profiles(ANY_NODE)))
    reasons = told(driver.tell(BindSlotsFree(9)))
    assert "affinity" not in reasons
    assert "no GPU of model T4" in reasons


def test_what_was_known_of_the_lines_is_forgotten() -> None:
    driver = Driver({"n1": 2, "n2": 2})
    pod = a_pod("big", a_shape(a_claim(100), cpu=1_000_000))
    driver.tell(PodSeen(pod))
    driver.tell(BindSlotsFree(9))
    shape_queue = driver.machine.queue.queue_of(pod.uid)
    assert shape_queue is not None
    assert shape_queue.unschedulable
    driver.now = 0.1
    driver.tell(ProfilesReplaced(profiles()))
    assert not shape_queue.unschedulable, "its timer finds nothing to report"
    assert driver.machine.queue.queue_of(pod.uid) is not shape_queue


def told(effects: list[Effect]) -> str:
    return " ".join(e.diagnosis.message for e in effects if isinstance(e, ReportWaiting))


@pytest.mark.slow
@examples(100)
@given(STEPS, STEPS)
def test_the_ledger_stays_and_nobody_is_forgotten(before: list[Step], after: list[Step]) -> None:
    world = World().follow(before)
    held = picture(world.machine)
    for effect in world.machine.handle(ProfilesReplaced(profiles(SPREAD)), world.now):
        world.reference.effect(effect)
    expect_same(held, picture(world.machine))
    for step in after:
        world.step(step)
    world.settle()
    assert world.reference.forgotten() == {}


def test_a_plugin_that_keeps_count_is_told_what_is_held_already() -> None:
    class Counting:
        name = "Counting"

        def __init__(self) -> None:
            self.held: list[str] = []

        def reserve(self, pod: Pod, node: NodeName, allocation: object) -> None:
            self.held.append(pod.key.name)

        def unreserve(self, pod: Pod, node: NodeName) -> None:
            self.held.remove(pod.key.name)

    driver = Driver({"n1": 2, "n2": 2})
    place(driver, *shares("a", "b"))
    counting = Counting()
    document = {"profiles": [{"plugins": {"reserve": {"enabled": [{"name": "Counting"}]}}}]}
    factories = {**IN_TREE, "Counting": lambda: counting}
    driver.tell(ProfilesReplaced(made_profiles(read(document), factories)))
    assert counting.held == ["a", "b"]
