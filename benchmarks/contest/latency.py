"""How soon one pod is bound: at a steady rate of arrivals, and when a card becomes free."""

import asyncio
import statistics
from dataclasses import dataclass
from time import perf_counter

from benchmarks.contest.binds import Binds, watched_binds
from benchmarks.contest.cluster import CARDS, PODS, Cluster
from benchmarks.contest.contenders import Contender, running

_START_S = 60.0
_POLL_S = 0.01
#: A waiting pod that was not bound after so long (s) was missed.
MISSED_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Of one contender, in milliseconds; `missed` pods were not bound at all."""

    contender: str
    nodes: int
    what: str
    count: int
    missed: int
    median_ms: float
    p99_ms: float
    most_ms: float


async def steady(
    cluster: Cluster, contender: Contender, nodes: int, rate: float, seconds: float
) -> Latency:
    """Pods are created at a steady rate (1/s): from the request's sending to the bind."""
    count = round(rate * seconds)
    names = [f"steady-{number:06}" for number in range(count)]
    async with watched_binds(cluster.client) as binds:
        with running(contender, cluster):
            await _first(cluster, contender, binds)
            started = perf_counter()
            sent: dict[str, float] = {}
            async with asyncio.TaskGroup() as group:
                for number, name in enumerate(names):
                    await asyncio.sleep(max(started + number / rate - perf_counter(), 0.0))
                    sent[name] = perf_counter()
                    group.create_task(cluster.create([contender.ask.manifest(name)]))
            await binds.until(count + 1, MISSED_S)
            took = [binds.at[name] - sent[name] for name in names if name in binds.at]
        await cluster.delete([*names, "first"])
        await binds.until(0, _START_S)
    return _latency(contender, nodes, f"created at {rate:g}/s, then bound", count, took)


async def freed(cluster: Cluster, contender: Contender, nodes: int, count: int) -> Latency:
    """All cards are taken, one pod waits, one is deleted: from the request to the bind."""
    size = nodes * CARDS * contender.per_card
    names = [f"pod-{number:06}" for number in range(size + count)]
    took = []
    async with watched_binds(cluster.client) as binds:
        with running(contender, cluster):
            await cluster.create(map(contender.ask.manifest, names[:size]))
            await binds.until(size, _START_S)
            for old, new in zip(names, names[size:], strict=False):
                await cluster.create([contender.ask.manifest(new)])
                await _waits(cluster, new)
                started = perf_counter()
                await cluster.delete([old])
                if await binds.of(new, MISSED_S):
                    took.append(binds.at[new] - started)
        await cluster.delete(names[count:])
        await binds.until(0, _START_S)
    return _latency(contender, nodes, "freed card, then bound", count, took)


async def _first(cluster: Cluster, contender: Contender, binds: Binds) -> None:
    """Wait until it binds at all."""
    await cluster.create([contender.ask.manifest("first")])
    if not await binds.until(1, _START_S):
        raise TimeoutError(f"{contender.name} binds nothing")


async def _waits(cluster: Cluster, name: str) -> None:
    """Return once the scheduler has written that it waits."""
    async with asyncio.timeout(_START_S):
        while True:
            pod = await cluster.client.get(f"{PODS}/{name}")
            conditions = pod["status"].get("conditions", [])
            if any(one["type"] == "PodScheduled" for one in conditions):
                return
            await asyncio.sleep(_POLL_S)


def _latency(contender: Contender, nodes: int, what: str, count: int, took: list[float]) -> Latency:
    ordered = sorted(took)
    return Latency(
        contender=contender.name,
        nodes=nodes,
        what=what,
        count=count,
        missed=count - len(took),
        median_ms=round(1000 * statistics.median(ordered), 1),
        p99_ms=round(1000 * ordered[min(int(0.99 * len(ordered)), len(ordered) - 1)], 1),
        most_ms=round(1000 * ordered[-1], 1),
    )
