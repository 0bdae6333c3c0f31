"""Bursts of half-card pods: how soon all are bound, and how well.

    python benchmarks/bursts.py [--control-plane real|embedded] [--repeats N] [--nodes N] [-o json]

node: 16 pods of 0.5 at once on one idle node of 8 cards, again and again. cluster: two pods of 0.5
per card at once on many nodes of one card each. The time runs from the answer to the last creation
to the moment a watch shows the last pod bound. With the embedded control plane API server,
scheduler, kubelets and the harness share one process and one core; with a real one the scheduler is
a process of its own, as users run it, and so are kube-apiserver and etcd. `wrong` counts what must
never be: cards with more than they have, cards not full although everything fits exactly, pods
bound without their card or stripped of it later, pods not bound.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import uvloop

from benchmarks.burst_grounds import CONTROL_PLANES, Ground
from benchmarks.followed_pods import FollowedPods
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject

CREATORS = 32
WHOLE_MILLI = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """One burst: seconds from the last creation to the last bind, and what was wrong."""

    last_bind_s: float
    wrong: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """All bursts of one kind."""

    nodes: int
    cards: int
    pods: int
    repeats: int
    creation_s: float
    median_ms: float
    max_ms: float
    wrong: tuple[str, ...]


class Harness:
    """Creates and deletes pods, and says when the last one was bound."""

    def __init__(self, client: KubeClient, cards: int) -> None:
        self._cards = cards
        self._bound_at = 0.0
        self.pods = FollowedPods(client, self._changed)

    async def burst(self, count: int) -> tuple[float, Burst]:
        """Create, wait, judge, delete; also the seconds that creating took."""
        started = time.perf_counter()
        names = iter([f"half-{number}" for number in range(count)])
        async with asyncio.TaskGroup() as group:
            for _ in range(CREATORS):
                group.create_task(self._create(names))
        created = time.perf_counter()
        known = self.pods.known
        await self.pods.until(lambda: sum(map(_is_bound, known.values())) == count)
        found = Burst(last_bind_s=max(self._bound_at - created, 0.0), wrong=self._wrong())
        await self.pods.delete_all()
        return created - started, found

    async def _create(self, names: Iterator[str]) -> None:
        labels = {"sharedgpu/gpu_request": "0.5", "sharedgpu/gpu_limit": "1.0"}
        for name in names:
            await self.pods.create({"name": name, "labels": labels}, {})

    def _changed(self, before: UnstructuredObject | None, pod: UnstructuredObject) -> None:
        if _is_bound(pod) and not (before is not None and _is_bound(before)):
            self._bound_at = time.perf_counter()

    def _wrong(self) -> tuple[str, ...]:
        given: Counter[str] = Counter()
        wrong = []
        for pod in self.pods.known.values():
            written = (pod.metadata.annotations or {}).get("sharedgpu/allocation")
            if not _is_bound(pod):
                wrong.append(f"{pod.key} is not bound")
            elif written is None:
                wrong.append(f"{pod.key} is bound without a card")
            else:
                for claim in json.loads(written)["claims"]:
                    given[claim["uuid"]] += claim["milli"]
        wrong += [f"{card} gives {milli}" for card, milli in given.items() if milli != WHOLE_MILLI]
        if len(given) != self._cards:
            wrong.append(f"{len(given)} of {self._cards} cards are used")
        return tuple(wrong)


def _is_bound(pod: UnstructuredObject) -> bool:
    return bool(pod.spec.get("nodeName"))


async def measure(ground: Ground, folder: Path, nodes: int, cards: int, repeats: int) -> Figures:
    """So many bursts that fill this cluster exactly."""
    async with ground(folder, nodes, cards) as client, asyncio.TaskGroup() as group:
        harness = Harness(client, nodes * cards)
        following = group.create_task(harness.pods.follow())
        # The first one waits for the inventory; it is not counted.
        await harness.burst(2 * nodes * cards)
        bursts = [await harness.burst(2 * nodes * cards) for _ in range(repeats)]
        following.cancel()
    times_ms = [1000 * burst.last_bind_s for _, burst in bursts]
    return Figures(
        nodes=nodes,
        cards=nodes * cards,
        pods=2 * nodes * cards,
        repeats=repeats,
        creation_s=round(statistics.median(spent for spent, _ in bursts), 3),
        median_ms=round(statistics.median(times_ms), 1),
        max_ms=round(max(times_ms), 1),
        wrong=tuple(problem for _, burst in bursts for problem in burst.wrong),
    )


async def run(chosen: argparse.Namespace, folder: Path) -> dict[str, Figures]:
    """Both kinds of bursts on one control plane."""
    async with CONTROL_PLANES[chosen.control_plane](folder) as ground:
        found = {"node": await measure(ground, folder / "node", 1, 8, chosen.repeats)}
        if chosen.nodes:
            found["cluster"] = await measure(ground, folder / "cluster", chosen.nodes, 1, 3)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--control-plane", choices=CONTROL_PLANES, default="embedded")
    parser.add_argument("--repeats", type=int, default=100, help="bursts on the one node")
    parser.add_argument("--nodes", type=int, default=1000, help="nodes of one card each; 0: none")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="kubeshare-bursts-") as name:
        found = uvloop.run(run(chosen, Path(name)))
    if chosen.output == "json":
        print(json.dumps({name: asdict(figures) for name, figures in found.items()}, indent=2))
        return
    heads = ("nodes", "cards", "pods", "repeats", "median ms", "max ms")
    print(" " * 8 + "".join(f"{head:>11}" for head in heads) + "  wrong")
    for name, one in found.items():
        print(
            f"{name:8}{one.nodes:>11}{one.cards:>11}{one.pods:>11}{one.repeats:>11}"
            f"{one.median_ms:>11}{one.max_ms:>11}  {len(one.wrong)} {one.wrong[:3] or ''}"
        )


if __name__ == "__main__":
    main()
