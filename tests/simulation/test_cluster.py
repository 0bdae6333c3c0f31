"""A simulated cluster does what the scheduler then does: compared with a machine that goes on."""

from collections.abc import Sequence
from typing import Any

import pytest

from kubeshare_py.cluster.charge import Charge
from kubeshare_py.domain.effects import Bind, Evict
from kubeshare_py.domain.events import BindAnswered, BindSlotsFree, Bound, PodGone, PodSeen
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.values import replace
from kubeshare_py.event_log.records import LogHeader
from kubeshare_py.event_log.snapshot import read_snapshot, snapshot_pieces
from kubeshare_py.scheduling.machine import Machine, known_events
from kubeshare_py.simulation.cluster import SimulatedCluster
from kubeshare_py.simulation.foresight import NewPod, Supposition, what_if
from kubeshare_py.views.foresight import WhatIfView
from tests.making import PREEMPTION, Driver, a_group, a_machine, a_share, members
from tests.making.busy_world import a_busy_machine, a_configuration, run
from tests.making.world import scrambled
from tests.scale import seeds


def copied(machine: Machine, now: float, again: Machine) -> SimulatedCluster:
    """The cluster of a machine of its own, by way of the bytes of a snapshot."""
    header = LogHeader(
        name=machine.name,
        version="1",
        session="s",
        file=0,
        now=now,
        wall=1e9,
        configuration=a_configuration(0),
        is_snapshot=True,
    )
    found, events = read_snapshot(snapshot_pieces(header, known_events(machine, now)))
    cluster = SimulatedCluster(again, found.now)
    cluster.tell(one.event for one in events)  # type: ignore[misc]
    return cluster


def held(machine: Machine) -> dict[PodUid, Charge | None]:
    return {uid: machine.ledger.charge_of(uid) for uid in machine.records}


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(10))
def test_a_snapshot_brings_all_that_is_known(seed: int) -> None:
    world = run(seed)
    cluster = copied(world.machine, world.now, a_busy_machine("again"))
    assert held(cluster.machine) == held(world.machine)
    assert cluster.machine.ready
    before = dict(world.machine.ledger.claims.as_listed)
    assert dict(cluster.machine.ledger.claims.as_listed) == before


class GoesOn:
    """A cluster as it goes on: a plain loop, of which the simulation knows nothing."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.evicted: list[str] = []

    def create(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            self.handled([PodSeen(pod)])
        for _ in range(200):
            self.handled([BindSlotsFree(64)])
            wake_at = self.driver.machine.wake_at(self.driver.now)
            self.driver.now = max(self.driver.now + 0.5, wake_at or 0.0)

    def handled(self, events: Sequence[Any]) -> None:
        for event in events:
            for effect in self.driver.tell(event):
                if isinstance(effect, Bind):
                    pod = self.driver.machine.records[effect.uid].pod
                    shown = replace(pod, node_name=effect.node, allocation=effect.allocation)
                    answer = BindAnswered(effect.uid, effect.allocation.token, Bound())
                    self.handled([answer, PodSeen(shown)])
                elif isinstance(effect, Evict):
                    self.evicted.append(effect.key.name)
                    self.handled([PodGone(effect.uid, stopped=True)])

    def places(self, pods: Sequence[Pod]) -> dict[str, tuple[str, tuple[str, ...]]]:
        found: dict[str, tuple[str, tuple[str, ...]]] = {}
        for pod in pods:
            record = self.driver.machine.records.get(pod.uid)
            if record is not None and record.node is not None:
                assert record.allocation is not None
                cards = tuple(dict.fromkeys(card.uuid for card in record.allocation.cards))
                found[pod.key.name] = (str(record.node), cards)
        return found


def foreseen(view: WhatIfView) -> dict[str, tuple[str, tuple[str, ...]]]:
    return {
        one.name: (one.node, tuple(card.uuid for card in one.cards))
        for one in view.pods
        if one.outcome == "placed"
    }


def some_pods(seed: int, name: str, count: int) -> list[Pod]:
    """Shares and priorities that depend on the seed alone."""
    numbers = [(seed * 7919 + number * 104_729) % 997 for number in range(count)]
    return [
        # In another order of arrival than by name, which decides between equals in a list.
        a_share(f"{name}{scrambled(at)}", 100 + number % 9 * 100, priority=number % 3)
        for at, number in enumerate(numbers)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(200))
def test_what_is_foreseen_is_what_then_happens(seed: int) -> None:
    driver = Driver({"n1": 2, "n2": 1, "n3": 3}, PREEMPTION)
    real = GoesOn(driver)
    real.create(some_pods(seed, "old-", 8))
    real.evicted.clear()
    new = [
        *some_pods(seed + 1, "new-", 5),
        *members(a_group(2, name=f"gang-{seed}"), 2, priority=seed % 3),
    ]
    cluster = copied(driver.machine, driver.now, a_machine(PREEMPTION))
    view = what_if(cluster, Supposition(pods=tuple(NewPod(pod, pod.key.name) for pod in new)))
    real.create(new)
    assert foreseen(view) == real.places(new)
    evicted = {one.name for one in view.evicted}
    again = {one.name for one in view.pods if "evicted again" in one.message}
    assert evicted | again == {*real.evicted}


def test_what_if_changes_nothing_in_the_machine_that_was_copied() -> None:
    driver = Driver({"n1": 1}, PREEMPTION)
    driver.fill(a_share("old", 900))
    before = held(driver.machine)
    cluster = copied(driver.machine, 0.0, a_machine(PREEMPTION))
    pod = a_share("urgent", 900, priority=5)
    view = what_if(cluster, Supposition(pods=(NewPod(pod, "pod/urgent"),)))
    assert [one.name for one in view.evicted] == ["old"]
    assert "urgent" in foreseen(view)
    assert held(driver.machine) == before
    assert driver.evicted == []
