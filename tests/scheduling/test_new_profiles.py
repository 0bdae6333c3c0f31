"""The policy changes while pods wait and run: who holds what stays, and decisions follow it."""

from typing import Any

import numpy as np
from hypothesis import given

from kubeshare_plugins import IN_TREE
from kubeshare_py.cluster.columns import CARD_COLUMNS, NODE_COLUMNS
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.domain.effects import Bind, Effect, ReportWaiting
from kubeshare_py.domain.events import BindAnswered, BindSlotsFree, Bound, PodSeen
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import Pod
from kubeshare_py.framework.profile_making import profiles as made_profiles
from kubeshare_py.framework.scheduler_profile import Profile, ProfilesReplaced
from kubeshare_py.scheduling.machine import Machine
from tests.builders import a_claim, a_cluster, a_machine, a_pod, a_shape
from tests.scale import examples
from tests.scheduling.test_any_history import STEPS
from tests.scheduling.world import Step, World

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


def place(machine: Machine, *pods: Pod) -> list[NodeName]:
    """Create pods one after another, each bound before the next; where they went."""
    nodes = []
    for pod in pods:
        machine.handle(PodSeen(pod), 0.0)
        [bind] = [e for e in machine.handle(BindSlotsFree(9), 0.0) if isinstance(e, Bind)]
        machine.handle(BindAnswered(bind.uid, bind.allocation.token, Bound()), 0.0)
        nodes.append(bind.node)
    return nodes


def shares(*names: str) -> list[Pod]:
    return [a_pod(name, a_shape(a_claim(100))) for name in names]


def started() -> Machine:
    machine = a_machine()
    for event in a_cluster({"n1": 2, "n2": 2}):
        machine.handle(event, 0.0)
    return machine


def test_placements_obey_the_new_profile() -> None:
    machine = started()
    first = place(machine, *shares("a", "b"))
    assert len(set(first)) == 1, "packed"
    machine.handle(ProfilesReplaced(profiles(SPREAD)), 0.0)
    [after] = place(machine, *shares("c"))
    assert after not in first, "spread"


def test_what_a_new_filter_no_longer_refuses_is_placed_at_once() -> None:
    machine = started()
    choosy = a_pod("choosy", a_shape(a_claim(100), node_selector=FAST))
    machine.handle(PodSeen(choosy), 0.0)
    assert "node affinity" in told(machine.handle(BindSlotsFree(9), 0.0))
    machine.handle(ProfilesReplaced(profiles(ANY_NODE)), 1.0)
    [bind] = [e for e in machine.handle(BindSlotsFree(9), 1.0) if isinstance(e, Bind)]
    assert bind.uid == choosy.uid


def test_who_still_waits_is_told_the_new_reasons_without_delay() -> None:
    machine = started()
    pod = a_pod("t4", a_shape(a_claim(100, models=("T4",)), node_selector=FAST))
    machine.handle(PodSeen(pod), 0.0)
    assert "node affinity" in told(machine.handle(BindSlotsFree(9), 0.0))
    machine.handle(ProfilesReplaced(profiles(ANY_NODE)), 0.1)
    reasons = told(machine.handle(BindSlotsFree(9), 0.1))
    assert "affinity" not in reasons
    assert "no GPU of model T4" in reasons


def test_what_was_known_of_the_lines_is_forgotten() -> None:
    machine = started()
    pod = a_pod("big", a_shape(a_claim(100), cpu=1_000_000))
    machine.handle(PodSeen(pod), 0.0)
    machine.handle(BindSlotsFree(9), 0.0)
    shape_queue = machine.queue.queue_of(pod.uid)
    assert shape_queue is not None
    assert shape_queue.unschedulable
    machine.handle(ProfilesReplaced(profiles()), 0.1)
    assert not shape_queue.unschedulable, "its timer finds nothing to report"
    assert machine.queue.queue_of(pod.uid) is not shape_queue


def told(effects: list[Effect]) -> str:
    return " ".join(e.diagnosis.message for e in effects if isinstance(e, ReportWaiting))


@examples(100)
@given(STEPS, STEPS)
def test_the_ledger_stays_and_nobody_is_forgotten(before: list[Step], after: list[Step]) -> None:
    world = World()
    world.start()
    for step in before:
        world.step(step)
    held = picture(world.machine)
    for effect in world.machine.handle(ProfilesReplaced(profiles(SPREAD)), world.now):
        world.reference.effect(effect)
    expect_same(held, picture(world.machine))
    for step in after:
        world.step(step)
    world.settle()
    left = {pod.key.name: world.reference.fits_somewhere(pod) for pod in world.reference.waiting()}
    assert {name: node for name, node in left.items() if node} == {}


def test_a_plugin_that_keeps_count_is_told_what_is_held_already() -> None:
    class Counting:
        name = "Counting"

        def __init__(self) -> None:
            self.held: list[str] = []

        def reserve(self, pod: Pod, node: NodeName, allocation: object) -> None:
            self.held.append(pod.key.name)

        def unreserve(self, pod: Pod, node: NodeName) -> None:
            self.held.remove(pod.key.name)

    machine = started()
    place(machine, *shares("a", "b"))
    counting = Counting()
    document = {"profiles": [{"plugins": {"reserve": {"enabled": [{"name": "Counting"}]}}}]}
    factories = {**IN_TREE, "Counting": lambda: counting}
    machine.handle(ProfilesReplaced(made_profiles(read(document), factories)), 0.0)
    assert counting.held == ["a", "b"]
