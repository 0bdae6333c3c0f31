"""How long one tenant's pods wait while another tenant floods the scheduler, on a real API server.

    python -m benchmarks.floods [--nodes N ...] [--seconds S] [--kinds KIND ...] [-o json]

A victim creates ten pods of half a card a second, in a namespace of its own; latency is from
sending the creation to seeing the bind. Another namespace floods meanwhile, with at most 2,000
pods: benchmarks/contest/floods.py has the kinds. Each kind has a scheduler process of its own;
its memory (RSS) is taken before the flood, and after the flood's pods are gone: once it is within
10 % + 30 MiB of before, or else a minute later. The Lease was kept if the same process holds it
and no transition was counted. API server, scheduler and flood share the machine's cores: the kind
"others' pods" shows what the former cost alone.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import asdict, dataclass
from http import HTTPStatus
from pathlib import Path
from time import perf_counter

import numpy as np
import uvloop

from benchmarks.contest.binds import Binds, watched_binds
from benchmarks.contest.cluster import Cluster, cluster
from benchmarks.contest.contenders import OURS_HALF, running
from benchmarks.contest.floods import FLOODS, HIGH, LOW, NAMESPACE, VICTIM, Flood, victim
from benchmarks.contest.usage import resident_mib, usage
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeError

VICTIMS_A_SECOND = 10.0
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kubeshare-scheduler"
#: A victim's pod that is not bound after so long (s) counts with this latency.
OVERDUE_S = 30.0
_START_S = 60.0
_FORGETS_S = 60.0
_MORE, _MORE_MIB = 1.1, 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One kind of flood. Latencies in ms, memory in MiB; `sent` counts pods and edits.

    `cpu_s` is what the scheduler needed from the flood's begin until the victim's last bind.
    """

    kind: str
    nodes: int
    victims: int
    missed: int
    median_ms: float
    p99_ms: float
    most_ms: float
    sent: int
    cpu_s: float
    lease_kept: bool
    tracebacks: int
    before_mib: float
    most_mib: float
    after_mib: float
    memory_back_s: float | None


def pods_of(namespace: str) -> str:
    """The path of a namespace's pods."""
    return f"/api/v1/namespaces/{namespace}/pods"


async def flooded(found: Cluster, flood: Flood, nodes: int, seconds: float) -> Figures:
    """Run one kind, and take its pods away again."""
    async with (
        watched_binds(found.client, pods_of(VICTIM)) as binds,
        found.client.another(concurrency=32) as others,
    ):
        with running(OURS_HALF, found) as pid:
            tenants = Tenants(found.client, others, flood, binds)
            await tenants.victim(0)
            if not await binds.until(1, _START_S):
                raise TimeoutError("the scheduler binds nothing")
            await tenants.prepare()
            held, before, cpu_s = await _holder(found.client), resident_mib(pid), usage(pid).cpu_s
            await tenants.flood(seconds)
            most, cpu_s = resident_mib(pid), usage(pid).cpu_s - cpu_s
            missed, latencies = tenants.latencies()
            kept = await _holder(found.client) == held
            await tenants.leave()
            back_s, after = await _forgotten(pid, before)
    log = (found.folder / f"{OURS_HALF.name.replace(' ', '-')}.log").read_text(errors="replace")
    median, p99, worst = np.percentile(latencies, [50, 99, 100]) * 1000
    return Figures(
        kind=flood.name, nodes=nodes, victims=len(latencies), missed=missed,
        median_ms=round(median, 1), p99_ms=round(p99, 1), most_ms=round(worst, 1),
        sent=tenants.sent, cpu_s=round(cpu_s, 1),
        lease_kept=kept, tracebacks=log.count("Traceback"),
        before_mib=round(before, 1), most_mib=round(most, 1), after_mib=round(after, 1),
        memory_back_s=back_s,
    )  # fmt: skip


class Tenants:
    """The victim and the other one."""

    def __init__(self, victims: KubeClient, others: KubeClient, kind: Flood, binds: Binds) -> None:
        self.sent = 0
        # A client each: requests in flight are limited, and those of the flood must not be in the
        # victim's way before they are sent.
        self._victims, self._client, self._kind, self._binds = (
            victims,
            others,
            kind,
            binds,
        )
        self._created: list[float] = []

    async def victim(self, number: int) -> None:
        """Create the next of the victim's pods."""
        self._created.append(perf_counter())
        await self._victims.request("POST", pods_of(VICTIM), body=victim(number, self._kind))

    async def prepare(self) -> None:
        """Create the pods that the flood begins with, and let those be bound that fit."""
        await _together(self._pod(number) for number in range(self._kind.before))
        if self._kind.fit:
            async with watched_binds(self._client, pods_of(NAMESPACE)) as binds:
                if not await binds.until(self._kind.before, _START_S):
                    raise TimeoutError("the pods before the flood are not bound")

    async def flood(self, seconds: float) -> None:
        """Let both tenants go on for so long; then wait for the victim's pods."""
        kind = self._kind
        async with asyncio.TaskGroup() as group:
            group.create_task(_at_rate(VICTIMS_A_SECOND, seconds, self.victim, first=1))
            group.create_task(
                _at_rate(kind.rate, seconds, self._pod, first=kind.before, most=kind.pods)
            )
            group.create_task(_at_rate(kind.edits, seconds, self._edit))
        await self._binds.until(len(self._created), OVERDUE_S)

    def latencies(self) -> tuple[int, list[float]]:
        """How many were not bound in time, and the latencies (s) of all but the first."""
        seen = self._binds.at
        found = [
            seen[name] - at if (name := f"{VICTIM}-{number:06}") in seen else OVERDUE_S
            for number, at in enumerate(self._created)
        ]
        return found.count(OVERDUE_S), found[1:]

    async def leave(self) -> None:
        """Delete what both have."""
        for namespace in (NAMESPACE, VICTIM):
            path = pods_of(namespace)
            names = [pod["metadata"]["name"] for pod in await self._client.list_all(path)]
            await _together(self._gone(f"{path}/{name}") for name in names)

    async def _pod(self, number: int) -> None:
        self.sent += 1
        await self._client.request("POST", pods_of(NAMESPACE), body=self._kind.pod(number))

    async def _edit(self, number: int) -> None:
        self.sent += 1
        name = f"{NAMESPACE}-{number % self._kind.before:06}"
        await self._client.merge_patch(f"{pods_of(NAMESPACE)}/{name}", self._kind.edit(number))

    async def _gone(self, path: str) -> None:
        try:
            await self._client.request("DELETE", path, query={"gracePeriodSeconds": 0})
        except KubeError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise


async def _at_rate(
    rate: float,
    seconds: float,
    act: Callable[[int], Coroutine[None, None, None]],
    *,
    first: int = 0,
    most: int | None = None,
) -> None:
    """Begin `act` so often a second, with numbers from `first`, at most `most` times."""
    started = perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(min(round(rate * seconds), most or sys.maxsize)):
            await asyncio.sleep(max(started + number / rate - perf_counter(), 0.0))
            group.create_task(act(first + number))


async def _together(all_of_it: Iterable[Awaitable[None]]) -> None:
    """Wait for them, 16 at a time."""
    left = iter(all_of_it)

    async def work() -> None:
        for one in left:
            await one

    async with asyncio.TaskGroup() as group:
        for _ in range(16):
            group.create_task(work())


async def _holder(client: KubeClient) -> tuple[str, int]:
    spec = (await client.get(LEASE))["spec"]
    return spec["holderIdentity"], spec.get("leaseTransitions", 0)


async def _forgotten(pid: int, before: float) -> tuple[float | None, float]:
    """After how long (s) memory was back, or None after a minute; and the memory (MiB) then."""
    began = perf_counter()
    while True:
        after, took = resident_mib(pid), perf_counter() - began
        if after <= before * _MORE + _MORE_MIB:
            return round(took, 1), after
        if took > _FORGETS_S:
            return None, after
        await asyncio.sleep(0.5)


async def measure(chosen: argparse.Namespace, folder: Path) -> AsyncIterator[Figures]:
    """Run every kind on clusters of every size."""
    async with cluster(folder) as found:
        for namespace in (NAMESPACE, VICTIM):
            await found.client.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
            path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
            await found.client.create(path, {"metadata": {"name": "default"}})
        for name, value in ((LOW, -10), (HIGH, 10)):
            body = {"metadata": {"name": name}, "value": value}
            await found.client.create("/apis/scheduling.k8s.io/v1/priorityclasses", body)
        for nodes in chosen.nodes:
            await found.register(nodes)
            for kind in FLOODS:
                if kind.name in chosen.kinds:
                    yield await flooded(found, kind, nodes, chosen.seconds)
            await found.unregister(nodes)


async def report(chosen: argparse.Namespace) -> None:
    """Print each figure when it is known."""
    with tempfile.TemporaryDirectory(prefix="kubeshare-floods-") as folder:
        async for figures in measure(chosen, Path(folder)):
            row = asdict(figures)
            if chosen.output == "json":
                print(json.dumps(row), flush=True)
            else:
                print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = [kind.name for kind in FLOODS]
    parser.add_argument("--nodes", nargs="+", type=int, default=[400, 5000], metavar="N")
    parser.add_argument("--seconds", type=float, default=20.0, metavar="S", help="of each flood")
    parser.add_argument("--kinds", nargs="+", choices=kinds, default=kinds)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    uvloop.run(report(parser.parse_args(arguments)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
