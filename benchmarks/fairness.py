"""How long one tenant's pods wait for a decision while another tenant floods the scheduler.

    python -m benchmarks.fairness [--nodes N] [--seconds S] [--kinds rest,shapes,costly,edits]

A victim creates ten small pods a second. The other tenant does nothing (`rest`), or 500 times a
second creates a pod of a shape never seen before that fits nowhere (`shapes`), the same with a
required node affinity of 200 terms (`costly`), or edits such an affinity on one of 30 pods that
wait, 136 times a second (`edits`). Latency is from the pod's event to its Bind, inside the machine,
with answers at once; turns are single calls of `handle`. One process, one core, real time.
"""

import argparse
import random
import time
from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.decisions import GIB, cluster, request_of
from kubeshare_plugins import IN_TREE
from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.events import (
    BindAnswered,
    BindSlotsFree,
    Bound,
    Event,
    PodGone,
    PodSeen,
    PodsListed,
)
from kubeshare_py.domain.identity import PodKey, PodUid
from kubeshare_py.domain.pod import NodeTerm, Pod, Requirement, Shape
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.framework.configuration import SCHEDULER_NAME, read
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.scheduling.machine import Machine

KINDS = {"rest": 0.0, "shapes": 500.0, "costly": 500.0, "edits": 136.0}
VICTIMS_A_SECOND = 10.0
EDITED = 30
TERMS = 200
SMALL = Shape(resources=(("cpu", 100), ("memory", GIB)), claim=GpuClaim(milli=100), needs_port=True)


@dataclass(slots=True)
class Flood:
    """One run: a machine, the two tenants, and what was measured (s)."""

    machine: Machine
    kind: str
    rng: random.Random = field(default_factory=lambda: random.Random(7))
    came: dict[PodUid, float] = field(default_factory=dict)
    latencies: list[float] = field(default_factory=list)
    turns: list[float] = field(default_factory=list)
    number: int = 0

    def tell(self, event: Event) -> list[Bind]:
        """Hand over one event and note how long it took."""
        began = time.perf_counter()
        effects = self.machine.handle(event, began)
        self.turns.append(time.perf_counter() - began)
        return [effect for effect in effects if isinstance(effect, Bind)]

    def run(self, seconds: float) -> None:
        """Let both tenants go on for so long."""
        rate = KINDS[self.kind]
        end = time.perf_counter() + seconds
        victim_at = flood_at = time.perf_counter()
        while (now := time.perf_counter()) < end:
            if now >= victim_at:
                victim_at += 1 / VICTIMS_A_SECOND
                self._victim(now)
            # Events of at most one batch before the next decision, as in the loop.
            for _ in range(200):
                if not rate or time.perf_counter() < flood_at:
                    break
                flood_at += 1 / rate
                self.tell(PodSeen(self._other()))
            self._decide()
        overdue = time.perf_counter()
        self.latencies += [overdue - came for came in self.came.values()]

    def _victim(self, now: float) -> None:
        self.number += 1
        pod = self._pod("victim", f"v{self.number}", SMALL)
        self.came[pod.uid] = now
        self.tell(PodSeen(pod))

    def _decide(self) -> None:
        for bind in self.tell(BindSlotsFree(64)):
            came = self.came.pop(bind.uid, None)
            if came is not None:
                self.latencies.append(time.perf_counter() - came)
            self.tell(BindAnswered(bind.uid, bind.allocation.token, Bound()))
            self.tell(PodGone(bind.uid))

    def _other(self) -> Pod:
        self.number += 1
        shape = replace(SMALL, resources=(("cpu", 200_000 + self.number), ("memory", GIB)))
        if self.kind != "shapes":
            shape = replace(shape, terms=self._terms())
        name = f"e{self.number % EDITED}" if self.kind == "edits" else f"o{self.number}"
        return self._pod("other", name, shape)

    def _terms(self) -> tuple[NodeTerm, ...]:
        return tuple(
            NodeTerm(labels=(Requirement("zone", "In", (f"{self.number}-{term}",)),))
            for term in range(TERMS)
        )

    @staticmethod
    def _pod(namespace: str, name: str, shape: Shape) -> Pod:
        return Pod(
            uid=PodUid(name),
            key=PodKey(namespace, name),
            shape=shape,
            scheduler_name=SCHEDULER_NAME,
            request=request_of(shape),
            created="2026-01-01T00:00:00Z" if namespace == "other" else "2026-01-01T00:00:01Z",
        )


def measured(kind: str, nodes: int, seconds: float) -> Flood:
    """A cluster of so many nodes under one kind of flood."""
    machine = Machine(profiles(read({}), IN_TREE), "bench")
    flood = Flood(machine, kind)
    for event in (*cluster(nodes), PodsListed((), 0.0)):
        machine.handle(event, time.perf_counter())
    flood.run(seconds)
    return flood


def main() -> None:
    """Print a line for each kind."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--nodes", type=int, default=400)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--kinds", default=",".join(KINDS))
    asked = parser.parse_args()
    print("kind      victims  median ms   p99 ms  longest turn ms")
    for kind in asked.kinds.split(","):
        flood = measured(kind, asked.nodes, asked.seconds)
        median, p99 = np.percentile(flood.latencies, [50, 99]) * 1000
        longest = max(flood.turns) * 1000
        print(f"{kind:9} {len(flood.latencies):7} {median:10.1f} {p99:8.1f} {longest:16.1f}")


if __name__ == "__main__":
    main()
