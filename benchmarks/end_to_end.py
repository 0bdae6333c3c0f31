"""Bare Bindings, kube-scheduler and kubeshare-scheduler on one real API server, in one run.

    python benchmarks/end_to_end.py [--measures WHAT ...] [--nodes N ...] [--pods N] [-o json]

backlog: pods that all exist before the contender starts; from the first bind to the last.
live: pods created by 32 creators while the contender binds. steady: pods created at a fixed
rate; from sending the creation to the bind. freed: all cards are taken, one pod waits, one is
deleted; from sending the deletion to the bind. memory: kubeshare-scheduler started beside
many pods. limit: the backlog in one namespace with and without maxWaitingPodsPerNamespace. There is
no kubelet and no controller manager; whole pods are at most as many as cards. The chart's admission
policies are in force for all contenders, unless --without-policies.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from pathlib import Path

import uvloop

from benchmarks.contest.cluster import CARDS, Cluster, cluster
from benchmarks.contest.contenders import BARE, KUBE, OURS_HALF, OURS_UNLIMITED, OURS_WHOLE
from benchmarks.contest.latency import Latency, freed, steady
from benchmarks.contest.memory import Memory, restarted
from benchmarks.contest.throughput import Throughput, backlog

MEASURES = ("backlog", "live", "steady", "freed", "memory", "limit")
SCHEDULERS = (KUBE, OURS_WHOLE, OURS_HALF)
FREED_NODES = 1

Figures = Throughput | Latency | Memory


async def measure(chosen: argparse.Namespace, folder: Path) -> AsyncIterator[tuple[str, Figures]]:
    """Take every measure that was asked for, on clusters of every size."""
    async with cluster(folder, policies=not chosen.without_policies) as found:
        for nodes in chosen.nodes:
            await found.register(nodes)
            async for what, figures in _of_size(found, nodes, chosen):
                yield what, figures
            await found.unregister(nodes)
        if "freed" in chosen.measures:
            await found.register(FREED_NODES)
            for contender in SCHEDULERS:
                yield "freed", await freed(found, contender, FREED_NODES, chosen.freed)


async def _of_size(
    found: Cluster, nodes: int, chosen: argparse.Namespace
) -> AsyncIterator[tuple[str, Figures]]:
    for what in ("backlog", "live"):
        if what in chosen.measures:
            # Bare requests before and after show how much the machine changed meanwhile.
            for contender in (BARE, *SCHEDULERS, BARE):
                pods = min(chosen.pods, nodes * CARDS * contender.per_card)
                yield what, await backlog(found, contender, nodes, pods, live=what == "live")
    if "steady" in chosen.measures:
        for contender in SCHEDULERS:
            yield "steady", await steady(found, contender, nodes, chosen.rate, chosen.seconds)
    if "limit" in chosen.measures:
        pods = min(chosen.pods, nodes * CARDS)
        for contender in (OURS_WHOLE, OURS_UNLIMITED) * 2:
            yield "limit", await backlog(found, contender, nodes, pods, live=False)
    if "memory" in chosen.measures:
        pods = min(chosen.memory_pods, nodes * CARDS * OURS_HALF.per_card)
        yield "memory", await restarted(found, nodes, pods)


async def report(chosen: argparse.Namespace) -> None:
    """Measure, print each figure when it is known."""
    with tempfile.TemporaryDirectory(prefix="kubeshare-contest-") as folder:
        async for what, figures in measure(chosen, Path(folder)):
            row = {"measure": what, **asdict(figures)}
            if chosen.output == "json":
                print(json.dumps(row), flush=True)
            else:
                print(
                    "  ".join(f"{name} {_text(value)}" for name, value in row.items()), flush=True
                )


def _text(value: object) -> str:
    if isinstance(value, dict):
        return "(" + ", ".join(f"{name} {number}" for name, number in value.items()) + ")"
    return str(value)


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--measures", nargs="+", choices=MEASURES, default=MEASURES)
    parser.add_argument("--nodes", nargs="+", type=int, default=[5000, 1000], metavar="N")
    parser.add_argument("--pods", type=int, default=20_000, metavar="N", help="of a backlog")
    parser.add_argument("--rate", type=float, default=100.0, metavar="R", help="steady, pods/s")
    parser.add_argument("--seconds", type=float, default=30.0, metavar="S", help="steady")
    parser.add_argument("--freed", type=int, default=1000, metavar="N", help="freed cards")
    parser.add_argument("--memory-pods", type=int, default=50_000, metavar="N")
    parser.add_argument("--without-policies", action="store_true", help="to compare")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    chosen = parser.parse_args(arguments)
    uvloop.run(report(chosen))
    return 0


if __name__ == "__main__":
    sys.exit(main())
