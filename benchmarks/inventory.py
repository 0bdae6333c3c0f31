"""How long the scheduler takes to learn of many cards, and how long its event loop is held by it.

    python benchmarks/inventory.py [--nodes N] [--cards N] [--source prometheus|scrape] [-o json]

Collectors answer at loopback addresses of their own, all from one process (collector_pages.py). For
`prometheus` a real one scrapes them (that on the PATH, or Debian's); `scrape` asks them itself.
Seconds: `first`, from the start of the process that asks until the machine has every card; `links`,
from then until it knows how the cards of every node are joined; `again`, a reading without news,
its pause not counted; `changed`, from the moment when a card of every node falls ill until the
machine knows it of all, scrapes and pauses included. `late_ms` is how late a timer of a millisecond
was meanwhile: what others waited for the loop and for a core. `busy_ms` is what the loop computed
between two of these ticks: no turn of it was longer. `turn_ms` is one call of the machine. It knows
all nodes before.
"""

import argparse
import asyncio
import gc
import json
import statistics
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from time import perf_counter, thread_time
from typing import Any

import uvloop

from benchmarks.inventory_grounds import grounds, turn
from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.domain.effects import Effect
from kubeshare_py.domain.events import (
    InventoryFailed,
    InventoryRead,
    NodesListed,
    PodsListed,
)
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.scheduler.decision_loop import DecisionLoop
from kubeshare_py.edges.scheduler.inventory_watch import InventoryWatch
from kubeshare_py.edges.scheduler.process import collect_in_short_pauses
from kubeshare_py.edges.scheduler.process_health import ProcessHealth
from kubeshare_py.edges.scheduler.writes.kube_api import KubeApi
from kubeshare_py.edges.scheduler.writes.report_lane import ReportLane
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.scheduling.machine import Machine, MachineEvent
from tests.edges.bare_server import plain
from tests.making import a_node

Stream = AsyncGenerator[InventoryRead | InventoryFailed, None]
SOURCES = ("prometheus", "scrape")
TICK_S, READINGS = 0.001, 10
#: Bounds of the histogram of lateness (ms).
BOUNDS = (1, 2, 5, 10, 20, 50, 100)


class TimedMachine(Machine):
    """Notes how long each of its calls takes (s)."""

    def __init__(self) -> None:
        super().__init__(profiles(read(None), IN_TREE), "benchmark")
        self.turn_s: list[float] = []

    def handle(self, event: MachineEvent, now: float) -> list[Effect]:
        """As ever."""
        began = perf_counter()
        effects = super().handle(event, now)
        self.turn_s.append(perf_counter() - began)
        return effects


@dataclass(slots=True)
class Scheduler:
    """The part of a scheduler that takes in an inventory, with a timer beside it."""

    machine: TimedMachine
    watch: InventoryWatch
    late_s: list[float] = field(default_factory=list)
    busy_s: list[float] = field(default_factory=list)
    heard_at: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    #: Of which nodes it is known how their cards are joined, and that their first card is ill.
    linked: set[str] = field(default_factory=set)
    ill: set[str] = field(default_factory=set)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def heard(self) -> None:
        """A reading succeeded."""
        self.heard_at.append(perf_counter())
        self._news.set()

    async def tick(self) -> None:
        """Note how late a timer is, and what was computed meanwhile, for ever."""
        while True:
            began, computed = perf_counter(), thread_time()
            await asyncio.sleep(TICK_S)
            self.late_s.append(perf_counter() - began - TICK_S)
            self.busy_s.append(thread_time() - computed)

    async def follow(self, stream: Stream) -> None:
        """Take in what the source says, for ever."""
        async with aclosing(stream) as events:
            async for event in events:
                if isinstance(event, InventoryFailed):
                    self.failures.append(event.message)
                else:
                    self._note(event)
                await self.watch.take(event)
                self._news.set()

    async def until(self, wanted: Callable[[], bool]) -> dict[str, Any]:
        """Wait for it; how long that took and what was noticed meanwhile."""
        self.late_s.clear()
        self.busy_s.clear()
        self.machine.turn_s.clear()
        began = perf_counter()
        async with asyncio.timeout(300):
            while not wanted():
                self._news.clear()
                await self._news.wait()
        took_s = round(perf_counter() - began, 2)
        return {
            "s": took_s,
            "late_ms": _spread(self.late_s),
            "busy_ms": _spread(self.busy_s),
            "turn_ms": _spread(self.machine.turn_s),
        }

    def _note(self, event: InventoryRead) -> None:
        for node, cards in event.changed:
            if cards[0].links:
                self.linked.add(node)
            if not cards[0].healthy:
                self.ill.add(node)


async def measured(source: str, nodes: int, cards: int, interval_s: float) -> dict[str, Any]:
    """Everything, of one cluster."""
    machine = TimedMachine()
    machine.handle(PodsListed((), 0.0), 0.0)
    names = [f"node-{number:05}" for number in range(nodes)]
    machine.handle(NodesListed(tuple(a_node(name) for name in names)), 0.0)
    # As the scheduler's process does.
    collect_in_short_pauses()
    gc.freeze()
    client = KubeClient(plain("http://127.0.0.1"))
    api = KubeApi(client, ReportLane(client, instance="benchmark"))
    process_health = ProcessHealth(machine, asyncio.get_running_loop().time)
    async with grounds(source, nodes, cards, interval_s) as ground, asyncio.TaskGroup() as group:
        loop = DecisionLoop(machine, api, group, asyncio.Event(), process_health)
        scheduler = Scheduler(machine, InventoryWatch(loop, read(None).inventory))
        tasks = [
            group.create_task(scheduler.tick()),
            group.create_task(scheduler.follow(ground.readings(scheduler.heard))),
        ]
        known = machine.ledger.inventory
        found = {
            "first": await scheduler.until(lambda: len(known) == nodes),
            "links": await scheduler.until(lambda: len(scheduler.linked) == nodes),
        }
        count = len(scheduler.heard_at) + READINGS
        found["again"] = await scheduler.until(lambda: len(scheduler.heard_at) >= count)
        gaps = [
            later - earlier - interval_s
            for earlier, later in zip(
                scheduler.heard_at[-READINGS - 1 :], scheduler.heard_at[-READINGS:], strict=False
            )
        ]
        found["again"]["s"] = round(statistics.median(gaps), 2)
        await turn(ground.port)
        found["changed"] = await scheduler.until(lambda: len(scheduler.ill) == nodes)
        for task in tasks:
            task.cancel()
    return {**found, "failures": scheduler.failures}


def _spread(seconds: Sequence[float]) -> dict[str, Any]:
    ordered = sorted(1000 * one for one in seconds)
    if len(ordered) < 2:
        return {"count": len(ordered), "worst": round(max(ordered, default=0.0), 2)}
    cut = statistics.quantiles(ordered, n=1000)
    return {
        "count": len(ordered),
        "p50": round(cut[499], 2),
        "p99": round(cut[989], 2),
        "worst": round(ordered[-1], 2),
        "at_most": {str(bound): sum(one <= bound for one in ordered) for bound in BOUNDS},
    }


def _table(found: dict[str, Any]) -> str:
    lines = [f"{found['source']}: {found['nodes']} nodes of {found['cards']} cards"]
    for what in ("first", "links", "again", "changed"):
        one = found[what]
        late, turns, busy = one["late_ms"], one["turn_ms"], one["busy_ms"]
        lines.append(
            f"{what:8} {one['s']:6.2f} s; timer late p50 {late.get('p50', 0)} ms, p99 "
            f"{late.get('p99', 0)} ms, worst {late['worst']} ms; busy at most {busy['worst']} ms; "
            f"longest turn {turns['worst']} ms"
        )
    return "\n".join([*lines, *(f"failed: {one}" for one in found["failures"])])


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--source", choices=SOURCES, default="prometheus")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--cards", type=int, default=8)
    parser.add_argument("--interval", type=float, default=5.0, help="between readings; 5 s")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    given = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(measured(given.source, given.nodes, given.cards, given.interval))
    found = {"source": given.source, "nodes": given.nodes, "cards": given.cards, **found}
    print(json.dumps(found, indent=2) if given.output == "json" else _table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
