"""What a scheduler needs that starts in a full cluster: memory, and time until it decides."""

from dataclasses import dataclass
from time import perf_counter

from benchmarks.contest.binds import watched_binds
from benchmarks.contest.cluster import CARDS, Cluster
from benchmarks.contest.contenders import OURS_HALF, running
from benchmarks.contest.usage import usage

_LONGEST_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Of kubeshare-scheduler, started anew: seconds to its first bind, peak memory in MiB."""

    nodes: int
    cards: int
    pods: int
    bound: int
    start_s: float
    cpu_s: float
    peak_mib: float


async def restarted(cluster: Cluster, nodes: int, pods: int) -> Memory:
    """Bind so many half-card pods, start again beside them, and bind one more."""
    names = [f"pod-{number:06}" for number in range(pods)]
    async with watched_binds(cluster.client) as binds:
        with running(OURS_HALF, cluster):
            await cluster.create(map(OURS_HALF.ask.manifest, names))
            await binds.until(pods, _LONGEST_S)
        await cluster.create([OURS_HALF.ask.manifest("one-more")])
        started = perf_counter()
        with running(OURS_HALF, cluster) as pid:
            await binds.of("one-more", _LONGEST_S)
            found = usage(pid)
            took = binds.at["one-more"] - started
        bound = len(binds.at)
        await cluster.delete([*names, "one-more"])
    return Memory(
        nodes=nodes,
        cards=nodes * CARDS,
        pods=pods,
        bound=bound,
        start_s=round(took, 2),
        cpu_s=round(found.cpu_s, 2),
        peak_mib=round(found.peak_mib, 1),
    )
