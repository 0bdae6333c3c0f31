"""How long the machine's turns are for large gangs, in milliseconds of processor time.

    python benchmarks/gangs.py [-o json]

`decided`: 512 pods of 1 GPU on 500 nodes of 8 cards. `mixed`: the same with pods of four shapes.
`large`: 4,096 pods of 1 GPU on 5,000 nodes. `too many`: 5,000 pods on 500 nodes, which have 4,000
cards, until all are told why they wait. `preempting`: the gang of 512 where each of the 4,000 cards
has a tenant of low priority.
`leaving`: 100 of its victims are gone, one after the other, each in a turn of its own.
`too big`: 1,000 pods of 8 GPUs on 5,000 nodes of which 4,400 have a tenant, until all are told why
they wait. `still too big`: the same gang once more, after one of these tenants left. What counts
is the time inside `handle`, the best of five runs; `longest_turn_ms` is the longest single call.
Processor time of the thread, so that other work on the machine counts for less.
"""

import argparse
import gc
import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from benchmarks.decisions import cluster, request_of
from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import SCHEDULER_NAME, read
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.effects import Bind, Effect, Evict, ReportWaiting
from kubeshare_py.domain.events import BindSlotsFree, Event, PodGone, PodSeen, PodsListed
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.domain.pod import Pod, PodGroup, Shape
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.scheduling.machine import Machine

GIB = 1 << 30
RUNS = 5
LEFT = 100
ONE = GpuClaim(milli=1000)
EIGHT = GpuClaim(count=8, milli=1000, exclusive=True)
#: What the pods of a mixed gang ask for in turn.
MIX = (ONE, GpuClaim(milli=500), GpuClaim(count=2, milli=1000, exclusive=True), EIGHT)


@dataclass(slots=True)
class Timed:
    """A machine on a cluster; time inside it is counted."""

    machine: Machine = field(
        default_factory=lambda: Machine(profiles(read(None), IN_TREE), "bench")
    )
    now: float = 0.0
    seconds: float = 0.0
    longest_s: float = 0.0

    def handle(self, *events: Event) -> list[Effect]:
        """Hand events over."""
        effects: list[Effect] = []
        for event in events:
            began_s = time.thread_time()
            effects += self.machine.handle(event, self.now)
            took_s = time.thread_time() - began_s
            self.seconds += took_s
            self.longest_s = max(self.longest_s, took_s)
        return effects

    def turns(self) -> list[Effect]:
        """Let it decide until it has nothing more to do at once."""
        effects = self.handle(BindSlotsFree(64))
        while (wake_at := self.machine.wake_at(self.now)) is not None and wake_at <= self.now:
            if self.machine.unanswered:
                break
            effects += self.handle(BindSlotsFree(64))
        return effects


def a_pod(number: int, claim: GpuClaim, **fields: Any) -> Pod:
    """A pod with some cpu."""
    shape = Shape(resources=(("cpu", 500), ("memory", GIB)), claims=(claim,))
    return Pod(
        uid=PodUid(f"uid-{number:06d}"),
        key=PodKey("default", f"pod-{number}"),
        shape=shape,
        scheduler_name=SCHEDULER_NAME,
        request=request_of(shape),
        **fields,
    )


def a_gang(count: int, claims: Iterable[GpuClaim], **fields: Any) -> Iterator[PodSeen]:
    """Its members, all of which must start together."""
    group = PodGroup(name="train", headcount=count, min_available=count)
    several = tuple(claims)
    return (
        PodSeen(a_pod(n, several[n % len(several)], group=group, **fields)) for n in range(count)
    )


def a_tenant(number: int) -> Pod:
    """A pod that holds half a card of the node with this number."""
    node = NodeName(f"node-{number:05d}")
    charge = CardCharge(GpuUuid(f"GPU-{node}-0"), 500, 40 * GIB)
    allocation = Allocation(token=DecisionToken(f"t-{number}"), cards=(charge,))
    claim = GpuClaim(milli=500)
    return a_pod(1_000_000 + number, claim, node_name=node, allocation=allocation)


def ready(nodes: int, tenants: int = 0) -> Timed:
    """A machine that knows a cluster, some nodes of which have a tenant."""
    timed = Timed()
    pods = tuple(a_tenant(number) for number in range(tenants))
    timed.handle(PodsListed(pods, 0.0), *cluster(nodes))
    gc.collect()
    return timed


def placed(claims: Iterable[GpuClaim], count: int = 512, nodes: int = 500) -> Timed:
    """A gang is placed."""
    timed = ready(nodes)
    timed.handle(*a_gang(count, claims))
    timed.seconds = timed.longest_s = 0.0
    binds = [effect for effect in timed.turns() if isinstance(effect, Bind)]
    assert len(binds) == count
    return timed


def too_many() -> Timed:
    """A gang of 5,000 does not fit on 4,000 cards."""
    timed = ready(500)
    timed.handle(*a_gang(5000, [ONE]))
    timed.seconds = timed.longest_s = 0.0
    told = [effect for effect in timed.turns() if isinstance(effect, ReportWaiting)]
    assert len(told) == 5000
    return timed


def refused(again: bool) -> Timed:
    """A gang of 1,000 does not fit; `again`: nor does it when it is tried once more."""
    timed = ready(5000, tenants=4400)
    timed.handle(*a_gang(1000, [EIGHT]))
    timed.seconds = timed.longest_s = 0.0
    told = [effect for effect in timed.turns() if isinstance(effect, ReportWaiting)]
    assert len(told) == 1000
    assert "room for 600 of them" in told[0].diagnosis.message
    if again:
        timed.seconds = timed.longest_s = 0.0
        timed.handle(PodGone(a_tenant(0).uid))
        assert not timed.turns()
    return timed


def preempting() -> Timed:
    """A gang of 512 evicts 512 tenants."""
    timed = Timed()
    tenants = [a_full_card(node, card) for node in range(500) for card in range(8)]
    timed.handle(PodsListed(tuple(tenants), 0.0), *cluster(500))
    gc.collect()
    timed.handle(*a_gang(512, [ONE], priority=10))
    timed.seconds = timed.longest_s = 0.0
    evicted = [effect for effect in timed.turns() if isinstance(effect, Evict)]
    assert len(evicted) == 512
    return timed


def leaving() -> Timed:
    """The first 100 of these 512 are gone, one after the other: each makes one turn."""
    timed = preempting()
    victims = [uid for uid, record in timed.machine.records.items() if record.evicted]
    timed.seconds = timed.longest_s = 0.0
    for uid in victims[:LEFT]:
        timed.handle(PodGone(uid))
        assert not any(isinstance(effect, Bind) for effect in timed.turns())
    return timed


def a_full_card(number: int, card: int) -> Pod:
    """A tenant that holds all of a card, of one of three priorities."""
    node = NodeName(f"node-{number:05d}")
    charge = CardCharge(GpuUuid(f"GPU-{node}-{card}"), 1000, 80 * GIB)
    which = number * 8 + card
    allocation = Allocation(token=DecisionToken(f"f-{which}"), cards=(charge,))
    fields = {"priority": which % 3, "created": f"2026-11-21T12:{which % 60:02d}:{which % 59:02d}Z"}
    return a_pod(1_000_000 + which, ONE, node_name=node, allocation=allocation, **fields)


CASES: dict[str, Callable[[], Timed]] = {
    "decided": lambda: placed([ONE]),
    "mixed": lambda: placed(MIX),
    "large": lambda: placed([ONE], 4096, 5000),
    "too many": too_many,
    "preempting": preempting,
    "leaving": leaving,
    "too big": lambda: refused(again=False),
    "still too big": lambda: refused(again=True),
}


def main() -> None:
    """Parse, measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    as_json = parser.parse_args().output == "json"
    for case, run in CASES.items():
        best = min((run() for _ in range(RUNS)), key=lambda timed: timed.seconds)
        row = {
            "case": case,
            "ms": round(best.seconds * 1000, 2),
            "longest_turn_ms": round(best.longest_s * 1000, 2),
        }
        print(json.dumps(row) if as_json else f"{case:14} {row['ms']:8} {row['longest_turn_ms']:8}")


if __name__ == "__main__":
    main()
