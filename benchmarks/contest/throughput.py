"""How fast a backlog is bound, and what that costs."""

import asyncio
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

from benchmarks.contest.binds import watched_binds
from benchmarks.contest.cluster import Cluster
from benchmarks.contest.contenders import BARE, Contender, bare_binds, running
from benchmarks.contest.usage import descendants, usage

#: Nothing here takes longer (s).
LONGEST_S = 900.0
EVENTS = "POST events"
_EVENTS_POLL_S = 0.25
#: Events that did not grow for so long (s) are complete.
_EVENTS_QUIET_S = 5.0
_SERVERS = ("kube-apiserver", "etcd")
_COUNTED = ("pods", "pods/binding", "pods/status", "events", "nodes")
#: Created before bare requests bind them, where both happen at a time.
_PART = 320


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """One contender binding one backlog. Times in seconds, memory in MiB.

    `start_s`: from the start of the process to the first bind. `events_s`: from the last bind to
    the last event. `cpu_s` by process, from the first bind to the last; `start_cpu_s` before that.
    `calls`: requests that changed something, for each pod.
    """

    contender: str
    nodes: int
    pods: int
    bound: int
    live: bool
    start_s: float
    binding_s: float
    per_s: float
    events: int
    events_s: float
    start_cpu_s: Mapping[str, float]
    cpu_s: Mapping[str, float]
    peak_mib: float
    calls: Mapping[str, float]


async def backlog(
    cluster: Cluster, contender: Contender, nodes: int, pods: int, *, live: bool
) -> Throughput:
    """Bind so many pods that exist already or, `live`, are created meanwhile; then delete them."""
    names = [f"pod-{number:06}" for number in range(pods)]
    first, rest = names[:1], names[1:]
    await cluster.create(map(contender.ask.manifest, first if live else names))
    async with watched_binds(cluster.client) as binds:
        asked, before, started = await cluster.requests(), _costs(0), perf_counter()
        with running(contender, cluster) as pid:
            async with asyncio.TaskGroup() as group:
                if contender is BARE:
                    group.create_task(bare_binds(cluster, first if live else names, nodes))
                async with asyncio.timeout(LONGEST_S):
                    await binds.begin()
                begun = _costs(pid)
                if live:
                    await _create_meanwhile(cluster, contender, rest, nodes)
                await binds.until(pods, LONGEST_S)
            costs = _costs(pid)
            times = sorted(binds.at.values())
            counted = times[1:] if live else times
            events, events_s = await _events(cluster, asked, pods if pid else 0, times[-1])
            peak = usage(pid or os.getpid()).peak_mib
            calls = await cluster.requests() - asked
        binding_s = counted[-1] - counted[0]
        found = Throughput(
            contender=contender.name,
            nodes=nodes,
            pods=pods,
            bound=len(times),
            live=live,
            start_s=round(times[0] - started, 2),
            binding_s=round(binding_s, 2),
            per_s=round((len(counted) - 1) / binding_s, 1),
            events=events,
            events_s=round(events_s, 2),
            start_cpu_s=_since(before, begun),
            cpu_s=_since(begun, costs),
            peak_mib=round(peak, 1),
            calls=_per_pod(calls, pods),
        )
        await cluster.delete(names)
        await binds.until(0, LONGEST_S)
    return found


async def _create_meanwhile(
    cluster: Cluster, contender: Contender, names: Sequence[str], nodes: int
) -> None:
    """Create pods; bare requests bind each part of them as soon as it is there."""
    if contender is not BARE:
        await cluster.create(map(contender.ask.manifest, names))
        return
    async with asyncio.TaskGroup() as group:
        for start in range(0, len(names), _PART):
            part = names[start : start + _PART]
            await cluster.create(map(contender.ask.manifest, part))
            group.create_task(bare_binds(cluster, part, nodes))


async def _events(
    cluster: Cluster, asked: Counter[str], wanted: int, since: float
) -> tuple[int, float]:
    """How many events were created in all, and how long after `since` (s) the last of them."""
    count, grown = 0, since
    while count < wanted:
        there = (await cluster.requests() - asked)[EVENTS]
        if there > count:
            count, grown = there, perf_counter()
        elif perf_counter() - max(grown, since) > _EVENTS_QUIET_S:
            break
        await asyncio.sleep(_EVENTS_POLL_S)
    return count, max(grown - since, 0.0)


def _costs(pid: int) -> dict[str, float]:
    """CPU seconds so far of the servers, of the harness and of the contender."""
    found = {"harness": usage(os.getpid()).cpu_s}
    if pid:
        found["scheduler"] = usage(pid).cpu_s
    below = descendants()
    return found | {name: usage(below[name]).cpu_s for name in _SERVERS}


def _since(before: Mapping[str, float], costs: Mapping[str, float]) -> dict[str, float]:
    return {name: round(cost - before.get(name, 0.0), 2) for name, cost in costs.items()}


def _per_pod(calls: Counter[str], pods: int) -> dict[str, float]:
    """The requests that grow with the pods, but for those of the harness and of Leases."""
    return {
        what: round(count / pods, 3)
        for what, count in sorted(calls.items())
        if what.partition(" ")[2] in _COUNTED and what != "POST pods" and count * 100 > pods
    }
