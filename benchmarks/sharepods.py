"""SharePods created at once, beside the same pods made by a Job, and bare: until all of them run.

    python benchmarks/sharepods.py [--pods N] [--nodes N] [-o json]

A real control plane with its controllers, kubeshare-scheduler and kubeshare-controller are
processes of their own; kubelets are simulated here. Each way starts with no pods. Bare pods and
SharePods are created by 32 creators. `running`: from the first creation until all pods run; of
SharePods `shown` too: until each SharePod says that its pod runs. A Job's pods are made by
kube-controller-manager at its default rate of 20 requests a second.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from dataclasses import asdict, dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import uvloop
import yaml

from kubeshare_py.domain.values import replace
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.edges.kube.watch import follow
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import read_cluster
from kubeshare_py.embedded_cluster.serving.server import ADMIN, SCHEDULER
from kubeshare_py.embedded_cluster.serving.simulated_collectors import SimulatedCollectors
from kubeshare_py.embedded_cluster.serving.simulated_kubelets import SimulatedKubelets
from kubeshare_py.manifests.watch import Codec, ListResult
from tests.controlplane.build import NEEDED, build
from tests.controlplane.cleaning import ship_lease
from tests.controlplane.processes import process
from tests.controlplane.running import ControlPlane, control_plane
from tests.stories.share_pods import CRD, DEFINITIONS, SHARE_PODS, amounts, share_pod

PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
CREATORS = 32
ASKED = amounts("0.5")
NODES = (
    'nodes: [{{name: "n{{n}}", count: {count}, gpus: [{{model: A100, count: 8, memory: 40GiB}}]}}]'
)

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One way: seconds until all pods ran, and until all SharePods showed it."""

    way: str
    pods: int
    running_s: float
    shown_s: float | None = None


class Count:
    """How many objects of a path are as wanted; `all_of` waits for so many."""

    def __init__(self, client: KubeClient, path: str, wanted: Callable[[Json], bool]) -> None:
        self._client = client
        self._path = path
        self._wanted = wanted
        self._found: dict[str, bool] = {}
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Watch for ever."""
        codec: Codec[UnstructuredObject] = Codec(UnstructuredObject)
        async with aclosing(follow(self._client, self._path, codec)) as stream:
            async for news in stream:
                if isinstance(news, ListResult):
                    self._found = {one.uid: self._wanted(one.status) for one in news.items}
                else:
                    for line in news.changed:
                        if line.item is not None:
                            self._take(line.type, line.item)
                self._news.set()

    async def all_of(self, count: int) -> float:
        """Wait; the loop's time (s) then."""
        while sum(self._found.values()) != count or (not count and self._found):
            self._news.clear()
            await self._news.wait()
        return asyncio.get_running_loop().time()

    def _take(self, change: str, item: UnstructuredObject) -> None:
        if change == "DELETED":
            self._found.pop(item.uid, None)
        else:
            self._found[item.uid] = self._wanted(item.status)


@dataclass(frozen=True, slots=True)
class Ground:
    """A cluster with both programs."""

    client: KubeClient
    running: Count
    shown: Count

    async def bare(self, count: int) -> Figures:
        """Pods as SharePods' are, created one by one."""
        body: Json = {"apiVersion": "v1", "kind": "Pod"} | pod()
        bodies = [
            {**body, "metadata": {**body["metadata"], "name": f"pod-{n}"}} for n in range(count)
        ]
        figures = await self._measured("bare pods", PODS, bodies, count)
        await self._delete_all(PODS)
        await self.running.all_of(0)
        return figures

    async def job(self, count: int) -> Figures:
        """The same pods by one Job."""
        spec = {"completions": count, "parallelism": count, "template": pod()}
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "all"}, "spec": spec}
        figures = await self._measured("a Job", JOBS, [body], count)
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        await self.client.request("DELETE", f"{JOBS}/all", body=options)
        await self._delete_all(PODS)
        await self.running.all_of(0)
        return figures

    async def share_pods(self, count: int) -> Figures:
        """SharePods, created one by one."""
        bodies = [share_pod(f"share-{n}", ASKED, restartPolicy="Never") for n in range(count)]
        started = asyncio.get_running_loop().time()
        figures = await self._measured("SharePods", SHARE_PODS, bodies, count)
        shown_s = await self.shown.all_of(count) - started
        await self._delete_all(SHARE_PODS)
        await self.running.all_of(0)
        return replace(figures, shown_s=shown_s)

    async def _delete_all(self, path: str) -> None:
        """One by one: the API server ends a deletion of all of them after a minute."""
        left = iter([one["metadata"]["name"] for one in await self.client.list_all(path)])

        async def delete() -> None:
            for name in left:
                try:
                    await self.client.delete(f"{path}/{name}", grace_period_s=0)
                except KubeError as error:
                    # Garbage collection was faster.
                    if error.status != HTTPStatus.NOT_FOUND:
                        raise

        async with asyncio.TaskGroup() as group:
            for _ in range(CREATORS):
                group.create_task(delete())

    async def _measured(self, way: str, path: str, bodies: Iterable[Json], count: int) -> Figures:
        left = iter(bodies)
        started = asyncio.get_running_loop().time()

        async def create() -> None:
            for body in left:
                await self.client.request("POST", path, body=body)

        async with asyncio.TaskGroup() as group:
            for _ in range(CREATORS):
                group.create_task(create())
        ended = await self.running.all_of(count)
        return Figures(way=way, pods=count, running_s=ended - started)


def pod() -> Json:
    """Metadata and spec of a pod as SharePods' are."""
    made = share_pod("x", ASKED)
    spec = {**made["spec"], "restartPolicy": "Never", "schedulerName": "kubeshare-scheduler"}
    return {"metadata": {"annotations": ASKED}, "spec": spec}


@asynccontextmanager
async def ground(plane: ControlPlane, folder: Path, nodes: int) -> AsyncIterator[Ground]:
    """All that runs around the control plane, while entered."""
    found = read_cluster(NODES.format(count=nodes))
    admin = load(str(plane.kubeconfig))
    async with (
        KubeClient(admin, concurrency=CREATORS) as client,
        KubeClient(admin) as workers,
        KubeClient(admin) as watching,
        SimulatedCollectors(found) as collectors,
        asyncio.TaskGroup() as group,
    ):
        await ship_lease(client)
        await _define(client)
        kubelets = SimulatedKubelets(workers, found)
        running = Count(watching, PODS, lambda status: status.get("phase") == "Running")
        shown = Count(
            watching,
            SHARE_PODS,
            lambda status: (status.get("PodStatus") or {}).get("phase") == "Running",
        )
        tasks = [group.create_task(one.run()) for one in (kubelets, running, shown)]
        await kubelets.registered.wait()
        with (
            process(_scheduler(plane, folder, collectors.url), folder / "scheduler.log"),
            process(_controller(plane, folder), folder / "controller.log"),
        ):
            yield Ground(client, running, shown)
        for task in tasks:
            task.cancel()


async def _define(client: KubeClient) -> None:
    """Define SharePods; return when they are served."""
    made = await client.create(DEFINITIONS, yaml.safe_load(CRD.read_text()))
    path = f"{DEFINITIONS}/{made['metadata']['name']}"
    while True:
        found = (await client.get(path)).get("status", {}).get("conditions") or []
        if any((one["type"], one["status"]) == ("Established", "True") for one in found):
            return
        await asyncio.sleep(0.1)


def _scheduler(plane: ControlPlane, folder: Path, prometheus: str) -> list[str | Path]:
    settings = {
        "server": {"bindAddress": "127.0.0.1", "port": 0},
        "inventory": {"url": prometheus, "intervalSeconds": 1},
    }
    (folder / "settings.yaml").write_text(yaml.safe_dump(settings))
    kubeconfig = plane.secrets.write_kubeconfig(folder / "of-scheduler", plane.url, SCHEDULER)
    return [
        sys.executable, "-m", "kubeshare_cmd.scheduler", "--log-level", "warning",
        "--config", folder / "settings.yaml", "--kubeconfig", kubeconfig,
    ]  # fmt: skip


def _controller(plane: ControlPlane, folder: Path) -> list[str | Path]:
    kubeconfig = plane.secrets.write_kubeconfig(folder / "of-controller", plane.url, ADMIN)
    return [
        sys.executable, "-m", "kubeshare_cmd.controller", "--log-level", "warning",
        "--kubeconfig", kubeconfig, "--address", "127.0.0.1", "--port", "0",
        "--leader-elect", "false",
    ]  # fmt: skip


async def measure(pods: int, nodes: int, folder: Path) -> AsyncIterator[Figures]:
    """Each way once, and bare pods once more: how much the machine changed meanwhile."""
    with control_plane(build(NEEDED), folder) as plane:
        async with ground(plane, folder, nodes) as found:
            await found.bare(min(pods, 50))  # the programs know nodes and cards then
            for way in (found.bare, found.share_pods, found.job, found.bare):
                yield await way(pods)


async def report(pods: int, nodes: int, output: str) -> None:
    """Print what was measured."""
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        async for one in measure(pods, nodes, Path(folder)):
            figures.append(one)
            if output != "json":
                shown = f", shown after {one.shown_s:.1f} s" if one.shown_s is not None else ""
                print(f"{one.way}: {one.pods} run after {one.running_s:.1f} s{shown}", flush=True)
    if output == "json":
        print(json.dumps([asdict(one) for one in figures]))


def main() -> None:
    """Parse arguments and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    given = parser.parse_args()
    uvloop.run(report(given.pods, given.nodes, given.output))


if __name__ == "__main__":
    main()
