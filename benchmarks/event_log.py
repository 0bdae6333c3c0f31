"""What the event log costs, how large it gets, and how long it takes to run it again.

    python benchmarks/event_log.py [--nodes N] [--rate PODS_PER_S] [--hours H] [--rounds N]

`cost`: pods at 1,000 a second, through the machine alone, in turn with and without a log; CPU time
of the whole process, its writing thread included. `size`: so many hours of a cluster whose pods
run for half an hour on average: seen, placed, answered, seen bound, seen running, deleted; kubelets
report every five minutes without a change. `replay`: the same log, read and run again. Nodes have 8
cards. One process; the log is below a temporary folder.
"""

import argparse
import asyncio
import heapq
import json
import math
import statistics
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from random import Random

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import SCHEDULER_NAME, read
from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.events import (
    BindAnswered,
    BindSlotsFree,
    Bound,
    Event,
    InventoryRead,
    NodeSeen,
    NodesListed,
    PodGone,
    PodSeen,
    PodsListed,
)
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.pod import Pod, Shape
from kubeshare_py.domain.request import ContainerClaim, GpuClaim, GpuRequest
from kubeshare_py.domain.values import replace
from kubeshare_py.edges.event_log.event_log import EventLog, LogLimits
from kubeshare_py.edges.event_log.log_folder import LoggedSession, ReplaySettings, sessions
from kubeshare_py.programs.replay import replayed
from kubeshare_py.scheduling.machine import configured_machine, known_events

GIB = 1 << 30
CONFIGURATION = read(None)
#: Turns of the loop a second, each with the pods that came since the last.
TURNS = 10
LIFE_S, STARTS_S, REPORTS_S = 1800.0, 5.0, 300.0
FAST = 1000


class Traffic:
    """A cluster, its pods, and a machine; `log` gets what the machine handles."""

    def __init__(self, nodes: int, seed: int = 0) -> None:
        self.numbers = Random(seed)
        self.machine = configured_machine(CONFIGURATION, IN_TREE, "scheduler-0-1a2b3c4d")
        self.log: EventLog | None = None
        self.now, self.wakes_at = 1000.0, 0.0
        self.events = self.binds = self.unchanged = self.count = 0
        self.nodes = [self._node(f"gpu-node-{number:04}") for number in range(nodes)]
        self.cards = tuple((node.name, self._cards()) for node in self.nodes)
        claims = [GpuClaim(milli=milli) for milli in (100, 200, 250, 300, 333, 400, 500, 700)]
        claims += [GpuClaim(milli=1000, count=count, exclusive=True) for count in (1, 1, 2, 4)]
        self.shapes = [self._shape(claim, cpu) for claim in claims for cpu in (500, 1000)]
        self.due: list[tuple[float, int, Event]] = []

    def start(self) -> None:
        """The first lists."""
        self.tell(PodsListed((), self.now), NodesListed(tuple(self.nodes)))
        self.tell(InventoryRead(self.cards))

    def tell(self, *events: Event) -> None:
        """Handle events, and answer Binds at once."""
        for event in events:
            if self.machine.is_known(event):
                self.unchanged += 1
                continue
            effects = self.machine.handle(event, self.now)
            self.events += 1
            if self.log is not None:
                self.log.handled(event, self.now, effects)
            for effect in effects:
                if isinstance(effect, Bind):
                    self._bound(effect)

    def turn(self, pods: int) -> None:
        """One turn of the loop: what is due, new pods, and a decision, if there is anything."""
        if not (pods or (self.due and self.due[0][0] <= self.now) or self.wakes_at <= self.now):
            return
        while self.due and self.due[0][0] <= self.now:
            self.tell(heapq.heappop(self.due)[2])
        for _ in range(pods):
            self.tell(PodSeen(self._pod()))
        for _ in range(100):
            self.tell(BindSlotsFree(64))
            self.wakes_at = self.machine.wake_at(self.now) or math.inf
            if self.wakes_at > self.now:
                return

    def later(self, after_s: float, event: Event) -> None:
        """Tell this event after so many seconds."""
        heapq.heappush(self.due, (self.now + after_s, len(self.due) + self.events, event))

    def _bound(self, bind: Bind) -> None:
        self.binds += 1
        pod = self.machine.records[bind.uid].pod
        labels = (("app", pod.key.name[:9]), ("team", "ml"), ("tier", "batch"))
        shown = replace(
            pod, node_name=bind.node, allocation=bind.allocation, labels=labels, grace_s=30
        )
        self.tell(BindAnswered(bind.uid, bind.allocation.token, Bound()), PodSeen(shown))
        self.later(STARTS_S, PodSeen(replace(shown, started=_stamp(self.now + STARTS_S))))
        life_s = self.numbers.expovariate(1 / LIFE_S) + 2 * STARTS_S
        self.later(life_s, PodSeen(replace(shown, deleting=True)))
        self.later(life_s + 1.0, PodGone(pod.uid, stopped=True))

    def _pod(self) -> Pod:
        self.count += 1
        name = f"job-{self.count // 20:05}-{self.numbers.getrandbits(40):010x}"
        shape = self.shapes[self.numbers.randrange(len(self.shapes))]
        assert shape.claim is not None
        claims = (ContainerClaim(claim=shape.claim, container=None, limit_milli=1000),)
        return Pod(
            uid=PodUid(str(uuid.UUID(int=self.numbers.getrandbits(128)))),
            key=PodKey(f"team-{self.count % 40}", name),
            shape=shape,
            scheduler_name=SCHEDULER_NAME,
            created=_stamp(self.now),
            request=GpuRequest(claims=claims, dialect="sharedgpu", needs_port=shape.needs_port),
        )

    def _node(self, name: str) -> Node:
        amounts = (("cpu", 128_000), ("memory", 1024 * GIB), ("pods", 250))
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"z{name[-1]}"}
        return Node(name=NodeName(name), labels=labels, allocatable=amounts)

    def _cards(self) -> tuple[Gpu, ...]:
        uuids = (uuid.UUID(int=self.numbers.getrandbits(128)) for _ in range(8))
        return tuple(
            Gpu(uuid=GpuUuid(f"GPU-{one}"), index=at, model="NVIDIA-A100", memory_bytes=80 * GIB)
            for at, one in enumerate(uuids)
        )

    @staticmethod
    def _shape(claim: GpuClaim, cpu: int) -> Shape:
        resources = (("cpu", cpu), ("memory", 4 * GIB))
        return Shape(resources=resources, claims=(claim,), needs_port=not claim.exclusive)


def _stamp(now: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_790_000_000 + now))


def a_log(traffic: Traffic, folder: Path) -> EventLog:
    """The log of this traffic's machine."""
    return EventLog(
        folder=folder,
        machine_name=traffic.machine.name,
        version="benchmark",
        configuration=CONFIGURATION,
        known=lambda: known_events(traffic.machine, traffic.now),
        clock=lambda: traffic.now,
        limits=LogLimits(total_bytes=64 << 30),
    )


async def cost(nodes: int, rounds: int, folder: Path) -> dict[str, object]:
    """CPU µs per bind, with and without a log, in turn."""
    traffic = Traffic(nodes)
    traffic.start()
    log, took_us = a_log(traffic, folder), {False: list[float](), True: list[float]()}
    for number in range(2 * rounds):
        logs = number % 2 == 1
        traffic.log = log if logs else None
        binds, began = traffic.binds, time.process_time()
        for _ in range(TURNS):
            traffic.now += 1 / TURNS
            traffic.turn(FAST // TURNS)
        if logs:
            await log.flush()
        if number > 1:
            took = time.process_time() - began
            took_us[logs].append(1e6 * took / (traffic.binds - binds))
        traffic.now += 2 * LIFE_S  # so that the cluster stays as full
        traffic.log = None
        traffic.turn(0)
    log.stop()
    await log.run()
    without, written = (statistics.median(took_us[logs]) for logs in (False, True))
    return {
        "us_per_bind": [round(without, 1), round(written, 1)],
        "percent_of_a_core_at_1000_binds_s": round((written - without) / 10, 1),
    }


async def size(
    nodes: int, rate: float, hours: float, folder: Path
) -> tuple[dict[str, object], Traffic]:
    """Write so many hours of events."""
    traffic = Traffic(nodes)
    log = traffic.log = a_log(traffic, folder)
    traffic.start()
    reports = _reports(traffic)
    began, owed = time.perf_counter(), 0.0
    for turn in range(int(hours * 3600 * TURNS)):
        traffic.now += 1 / TURNS
        owed += rate / TURNS
        traffic.tell(*next(reports))
        traffic.turn(int(owed))
        owed -= int(owed)
        if turn % TURNS == 0:
            await log.flush()
    log.stop()
    await log.run()
    (session,) = sessions(folder)
    return {
        "hours": hours,
        "pods_per_s": rate,
        "binds": traffic.binds,
        "events": traffic.events,
        "unchanged_reports": traffic.unchanged,
        "files": len(session.files),
        "mib": round(session.size / (1 << 20), 1),
        "bytes_per_bind": round(session.size / traffic.binds, 1),
        "gib_per_day_at_this_rate": round(session.size * 24 / hours / (1 << 30), 3),
        "took_s": round(time.perf_counter() - began, 1),
    }, traffic


def _reports(traffic: Traffic) -> Iterator[list[NodeSeen]]:
    """The kubelets' reports of each turn, which show nothing new."""
    at, owed = 0, 0.0
    while True:
        owed += len(traffic.nodes) / REPORTS_S / TURNS
        count = int(owed)
        owed -= count
        shown = [traffic.nodes[(at + n) % len(traffic.nodes)] for n in range(count)]
        at += count
        yield [NodeSeen(replace(node)) for node in shown]


def replay(folder: Path) -> dict[str, object]:
    """Run the log again."""
    began = time.perf_counter()
    session = LoggedSession(ReplaySettings(folder=folder))
    replayed(session, IN_TREE)
    took = time.perf_counter() - began
    report = session.report
    return {
        "events": report.events,
        "differing": report.differing,
        "took_s": round(took, 1),
        "events_per_s": round(report.events / took),
    }


async def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--rate", type=float, default=10.0)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        found: dict[str, object] = {}
        if given.rounds:
            found["cost"] = await cost(given.nodes, given.rounds, Path(place) / "cost")
        found["size"], _ = await size(given.nodes, given.rate, given.hours, Path(place) / "size")
        found["replay"] = replay(Path(place) / "size")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    asyncio.run(main())
