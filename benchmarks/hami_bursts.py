"""Bursts of HAMi's half cards, with its node lock and without: how soon all are served.

    python benchmarks/hami_bursts.py [--repeats N] [--answers-in MS] [-o json]

node: 16 pods that ask for half a card each, at once, on one idle node of 8 cards. cluster: the same
on eight nodes of one card. A real etcd and kube-apiserver, the scheduler as a process of its own.
Without the lock, as where this project's node agent serves the cards, the time runs from the answer
to the last creation to the moment a watch shows the last pod bound. With it a stand-in for HAMi's
device plugin gives each pod its devices over the API, as HAMi's does, in so many milliseconds a
call, and the time ends when the last pod has them; `call ms` is the median of what a call took.
`wrong` counts pods that were not served, or got devices of another pod, and cards that hold more or
less than all of their memory.

Wanted: without the lock 1 s at most; with it on one node a median of at most 16 calls and 0.5 s,
and twice that at most.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import uvloop

from benchmarks.contest.cluster import Cluster, cluster
from benchmarks.followed_pods import LONGEST_S, FollowedPods
from benchmarks.hami_grounds import CARD_MIB, NODES, allow_annotations, ground
from kubeshare_py.dialects.hami.annotations import HAMI, NVIDIA_KEYS, SUCCESS, SYSTEMS, decode
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject
from tests.stories.stand_in_plugin import StandInPlugin

CARDS, HALF_MIB = 8, CARD_MIB // 2
KINDS = {"node": (1, CARDS), "cluster": (CARDS, 1)}
ALLOCATED, PHASE = NVIDIA_KEYS[HAMI].allocated, SYSTEMS[HAMI].bind_phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """All bursts of one kind."""

    kind: str
    lock: bool
    pods: int
    repeats: int
    median_ms: float
    max_ms: float
    call_ms: float
    wrong: tuple[str, ...]


class Harness:
    """Creates and deletes pods, and says when each was served."""

    def __init__(self, client: KubeClient, plugin: StandInPlugin | None) -> None:
        self._client, self._plugin = client, plugin
        self._served: dict[str, float] = {}
        self.pods = FollowedPods(client, self._changed)

    async def burst(self, count: int) -> tuple[float, list[str]]:
        """Seconds from the last creation to the last pod that is served; and what was wrong."""
        limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(HALF_MIB)}
        asked = {"resources": {"limits": limits}}
        names = [f"half-{number}" for number in range(count)]
        await asyncio.gather(*(self.pods.create({"name": name}, asked) for name in names))
        created = time.perf_counter()
        await self.pods.until(lambda: len(self._served) == count)
        spent = max(self._served.values()) - created
        wrong = self._wrong()
        await self.pods.delete_all()
        self._served.clear()
        await self._unlocked()
        return max(spent, 0.0), wrong

    async def _unlocked(self) -> None:
        """Wait until no node is locked: a plugin frees its lock after the pod has its devices."""
        async with asyncio.timeout(LONGEST_S):
            while any(  # noqa: ASYNC110
                SYSTEMS[HAMI].lock in (node["metadata"].get("annotations") or {})
                for node in await self._client.list_all(NODES)
            ):
                await asyncio.sleep(0.01)

    def _changed(self, before: UnstructuredObject | None, pod: UnstructuredObject) -> None:
        phase = (pod.metadata.annotations or {}).get(PHASE)
        if pod.spec.get("nodeName") and (self._plugin is None or phase == SUCCESS):
            self._served.setdefault(pod.uid, time.perf_counter())

    def _wrong(self) -> list[str]:
        found: list[str] = []
        held: Counter[str] = Counter()
        for pod in self.pods.known.values():
            text = (pod.metadata.annotations or {}).get(ALLOCATED, "")
            slots = decode(text)
            if isinstance(slots, str):
                found.append(f"{pod.key}: {slots}")
                continue
            for record in (one for slot in slots for one in slot):
                held[record.uuid] += record.memory_mib
            got = self._plugin.given.get(str(pod.key)) if self._plugin is not None else slots[:1]
            if got is None or got != slots[:1]:
                found.append(f"{pod.key} got {got} and not {slots[:1]}")
        found += [f"{card} gives {mib} MiB" for card, mib in held.items() if mib != CARD_MIB]
        if len(held) != CARDS:
            found.append(f"{len(held)} of {CARDS} cards are used")
        if self._plugin is not None:
            found += self._plugin.wrong
            self._plugin.wrong.clear()
            self._plugin.given.clear()
        return found


async def measure(
    plane: Cluster, folder: Path, kind: str, chosen: argparse.Namespace, *, locks: bool
) -> Figures:
    """So many bursts that fill this cluster exactly; the first is not counted."""
    nodes, cards = KINDS[kind]
    times: list[float] = []
    wrong: list[str] = []
    async with ground(plane, folder, nodes, cards, locks=locks) as client:
        plugin = StandInPlugin(client, chosen.answers_in / 1000) if locks else None
        harness = Harness(client, plugin)
        following = [asyncio.create_task(harness.pods.follow())]
        if plugin is not None:
            following.append(asyncio.create_task(plugin.run()))
        await harness.burst(2 * CARDS)
        for number in range(chosen.repeats):
            spent, problems = await harness.burst(2 * CARDS)
            times.append(1000 * spent)
            wrong += problems
            if number % 10 == 9:
                told = f"{kind}, {'lock' if locks else 'no lock'}: {number + 1} bursts"
                print(f"{told}, median {statistics.median(times):.0f} ms", file=sys.stderr)
        for task in following:
            task.cancel()
    return Figures(
        kind=kind, lock=locks, pods=2 * CARDS, repeats=chosen.repeats,
        median_ms=round(statistics.median(times), 1), max_ms=round(max(times), 1),
        call_ms=round(1000 * statistics.median(plugin.took_s), 1) if plugin is not None else 0.0,
        wrong=tuple(wrong),
    )  # fmt: skip


async def run(chosen: argparse.Namespace, folder: Path) -> list[Figures]:
    """Both kinds of bursts, without and with the lock, on one control plane."""
    home = folder / "control-plane"
    home.mkdir()
    found: list[Figures] = []
    async with cluster(home) as plane:
        await allow_annotations(plane)
        for locks in {"yes": (True,), "no": (False,), "both": (False, True)}[chosen.lock]:
            for kind in KINDS:
                own = folder / f"{kind}-{locks}"
                found.append(await measure(plane, own, kind, chosen, locks=locks))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=100, help="bursts of each kind")
    parser.add_argument("--answers-in", type=float, default=50.0, help="ms of a plugin's call")
    parser.add_argument("--lock", choices=["yes", "no", "both"], default="both")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="kubeshare-hami-bursts-") as name:
        found = uvloop.run(run(chosen, Path(name)))
    if chosen.output == "json":
        print(json.dumps([asdict(figures) for figures in found], indent=2))
        return
    heads = ("lock", "pods", "repeats", "median ms", "max ms", "call ms")
    print(" " * 8 + "".join(f"{head:>11}" for head in heads) + "  wrong")
    for one in found:
        lock = "yes" if one.lock else "no"
        print(
            f"{one.kind:8}{lock:>11}{one.pods:>11}{one.repeats:>11}{one.median_ms:>11}"
            f"{one.max_ms:>11}{one.call_ms:>11}  {len(one.wrong)} {one.wrong[:3] or ''}"
        )


if __name__ == "__main__":
    main()
