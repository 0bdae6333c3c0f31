"""How long one tenant's pods wait for a decision while another tenant floods the scheduler.

    python -m benchmarks.fairness [--nodes N] [--seconds S] [--kinds rest,shapes,costly,...]

A victim creates ten small pods a second. The other tenant does nothing (`rest`), or so many times a
second (`benchmarks/tenants.py`): creates a pod of a shape never seen before that fits nowhere
(`shapes`), the same with a required node affinity of 200 terms (`costly`), edits such an affinity
on one of 30 pods that wait (`edits`), creates members of gangs of such pods, half of the gangs
never complete (`gangs`), creates pods that search in vain for pods to evict (`preemptors`), lets
bound pods come and go, changes nodes and annotates pods, while 2,000 shapes wait (`events`), lets
bound pods come and go while 80 pods of 330 KB wait (`large`), or 50,000 pods of 2,000 shapes
(`crowd`), or 500 pods wait for volumes of a class that never answers, of which some come and go
(`claims`). Latency is from the pod's event to its Bind, inside the machine, with answers at once,
in real time. Turns are single calls of `handle`, in time of the processor, since other work on the
same cores is none of theirs; beside the longest is what it was about. One process, one core.
"""

import argparse
import gc
import time
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from benchmarks.decisions import cluster
from benchmarks.tenants import KINDS, SMALL, Tenant, pod
from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.domain.effects import Bind, WriteObject
from kubeshare_py.domain.events import (
    BindAnswered,
    BindSlotsFree,
    Bound,
    Event,
    ObjectSeen,
    ObjectWritten,
    PodGone,
    PodSeen,
    PodsListed,
    WriteOutcome,
)
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.storage import SelectNode
from kubeshare_py.edges.scheduler.process import collect_in_short_pauses
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.scheduling.machine import Machine

VICTIMS_A_SECOND = 10.0
#: A turn longer than this is one too long (s).
LONG_S = 0.020


@dataclass(slots=True)
class Flood:
    """One run: a machine, the two tenants, and what was measured (s)."""

    machine: Machine
    tenant: Tenant
    rate: float
    came: dict[PodUid, float] = field(default_factory=dict)
    latencies: list[float] = field(default_factory=list)
    longest: tuple[float, str] = (0.0, "")
    long: Counter[str] = field(default_factory=Counter)
    number: int = 0
    writes: list[WriteObject] = field(default_factory=list)

    def tell(self, event: Event) -> list[Bind]:
        """Hand over one event and note how long it took."""
        began = time.thread_time()
        effects = self.machine.handle(event, time.perf_counter())
        took = time.thread_time() - began
        if took > LONG_S:
            self.long[type(event).__name__] += 1
        self.longest = max(self.longest, (took, type(event).__name__))
        self.writes += [effect for effect in effects if isinstance(effect, WriteObject)]
        return [effect for effect in effects if isinstance(effect, Bind)]

    def prepare(self) -> None:
        """What is there before, decided upon, as far as it goes in a while."""
        for event in self.tenant.before():
            self.tell(event)
        until = time.perf_counter() + 120.0
        while (now := time.perf_counter()) < until:
            wake_at = self.machine.wake_at(now)
            if wake_at is None or wake_at > now:
                return
            self._decide()

    def run(self, seconds: float) -> None:
        """Let both tenants go on for so long."""
        end = time.perf_counter() + seconds
        victim_at = flood_at = time.perf_counter()
        while (now := time.perf_counter()) < end:
            if now >= victim_at:
                victim_at += 1 / VICTIMS_A_SECOND
                self._victim(now)
            # Events of at most one batch before the next decision, as in the loop.
            for _ in range(200):
                if not self.rate or time.perf_counter() < flood_at:
                    break
                flood_at += 1 / self.rate
                for event in self.tenant.next():
                    self.tell(event)
            self._decide()
        overdue = time.perf_counter()
        self.latencies += [overdue - came for came in self.came.values()]

    def _victim(self, now: float) -> None:
        self.number += 1
        one = pod("victim", f"v{self.number}", SMALL, "2026-01-01T00:00:01Z")
        self.came[one.uid] = now
        self.tell(PodSeen(one))

    def _decide(self) -> None:
        for bind in self.tell(BindSlotsFree(64)):
            came = self.came.pop(bind.uid, None)
            if came is not None:
                self.latencies.append(time.perf_counter() - came)
            self.tell(BindAnswered(bind.uid, bind.allocation.token, Bound()))
            self.tell(PodGone(bind.uid))
        writes, self.writes = self.writes, []
        for one in writes:  # each is stored, and the watch shows it; no volume is ever made
            self.tell(ObjectWritten(one.uid, one.token, one.write, WriteOutcome.DONE))
            assert isinstance(one.write, SelectNode)
            number = int(one.write.claim.removeprefix("c"))
            self.tenant.selected[number] = one.write.node
            self.tell(ObjectSeen(self.tenant.claim(number)))


def measured(kind: str, nodes: int, seconds: float) -> Flood:
    """A cluster of so many nodes under one kind of flood."""
    machine = Machine(profiles(read({}), IN_TREE), "bench")
    flood = Flood(machine, Tenant(kind, nodes), KINDS[kind])
    for event in (*cluster(nodes), PodsListed((), 0.0)):
        machine.handle(event, time.perf_counter())
    flood.prepare()
    gc.collect()
    gc.freeze()  # as the scheduler does after its first list
    if kind != "crowd":
        flood.longest, flood.long = (0.0, ""), Counter()
    flood.run(seconds)
    return flood


def main() -> None:
    """Print a line for each kind."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--nodes", type=int, default=400)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--kinds", default=",".join(KINDS))
    asked = parser.parse_args()
    collect_in_short_pauses()
    print("kind       victims  median ms   p99 ms  longest turn ms  turns above 20 ms")
    for kind in asked.kinds.split(","):
        flood = measured(kind, asked.nodes, asked.seconds)
        median, p99 = np.percentile(flood.latencies, [50, 99]) * 1000
        longest, event = flood.longest
        above = ", ".join(f"{name} {count}" for name, count in sorted(flood.long.items()))
        print(
            f"{kind:10} {len(flood.latencies):7} {median:10.1f} {p99:8.1f} {longest * 1000:16.1f}"
            f"  {event} ({above or 'none'})",
            flush=True,
        )


if __name__ == "__main__":
    main()
