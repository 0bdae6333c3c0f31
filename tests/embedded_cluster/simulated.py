"""An embedded cluster with simulated nodes and controllers, and ways to wait for what they do."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.watch import follow
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import read_cluster
from kubeshare_py.embedded_cluster.serving.server import ApiServer
from kubeshare_py.embedded_cluster.serving.simulated_controllers import SimulatedControllers
from kubeshare_py.embedded_cluster.serving.simulated_kubelets import SimulatedKubelets
from kubeshare_py.manifests.watch import Codec, ListResult
from tests.embedded_cluster.embedded import cluster
from tests.patience import PATIENCE_S

PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
TWO_NODES = """
nodes:
  - {name: a, labels: {SharedGPU: "true"}, gpus: [{model: T4, memory: 1GiB}]}
  - {name: b, taints: [{key: own, value: x, effect: NoSchedule}]}
"""


@dataclass(frozen=True, slots=True)
class Simulated:
    """What a test talks to."""

    server: ApiServer
    client: KubeClient
    kubelets: SimulatedKubelets

    async def bind(self, name: str, node: str, **annotations: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "annotations": annotations},
            "target": target,
        }
        await self.client.create(f"{PODS}/{name}/binding", body)

    async def bind_everything(self, node: str) -> None:
        """Bind every pod that appears, until cancelled."""
        codec: Codec[UnstructuredObject] = Codec(UnstructuredObject)
        bound: set[str] = set()
        async with aclosing(follow(self.client, PODS, codec)) as batches:
            async for batch in batches:
                if isinstance(batch, ListResult):
                    pods = batch.items
                else:
                    pods = [line.item for line in batch.changed if line.item is not None]
                for pod in pods:
                    if not pod.spec.get("nodeName") and pod.uid not in bound:
                        bound.add(pod.uid)
                        await self.bind(pod.metadata.name, node)

    async def expect_eventually(
        self, path: str, condition: Callable[[dict[str, UnstructuredObject]], bool]
    ) -> dict[str, UnstructuredObject]:
        """Watch what `path` lists, by name, until the condition holds."""
        present: dict[str, UnstructuredObject] = {}
        codec: Codec[UnstructuredObject] = Codec(UnstructuredObject)
        async with (
            asyncio.timeout(PATIENCE_S),
            aclosing(follow(self.client, path, codec)) as batches,
        ):
            async for batch in batches:
                if isinstance(batch, ListResult):
                    present = {item.metadata.name: item for item in batch.items}
                    if condition(present):
                        return present
                    continue
                for line in batch.changed:
                    assert line.item is not None
                    if line.type == "DELETED":
                        present.pop(line.item.metadata.name, None)
                    else:
                        present[line.item.metadata.name] = line.item
                    if condition(present):
                        return present
        raise AssertionError("a watch never ends")

    async def expect_phase(self, name: str, phase: str) -> UnstructuredObject:
        """Wait for a pod's phase."""
        found = await self.expect_eventually(
            PODS, lambda pods: name in pods and pods[name].status.get("phase") == phase
        )
        return found[name]


async def pods_over_time(client: KubeClient) -> AsyncGenerator[dict[str, UnstructuredObject], None]:
    """All pods by uid after each single change."""
    codec: Codec[UnstructuredObject] = Codec(UnstructuredObject)
    present: dict[str, UnstructuredObject] = {}
    async with aclosing(follow(client, PODS, codec)) as batches:
        async for batch in batches:
            if isinstance(batch, ListResult):
                present = {pod.uid: pod for pod in batch.items}
                yield present
                continue
            for line in batch.changed:
                assert line.item is not None
                if line.type == "DELETED":
                    present.pop(line.item.uid, None)
                else:
                    present[line.item.uid] = line.item
                yield present


@asynccontextmanager
async def simulated(
    folder: Path, text: str = TWO_NODES, *, controllers: bool = False, **options: Any
) -> AsyncIterator[Simulated]:
    """A cluster whose nodes are registered."""
    async with cluster(folder) as (server, client), asyncio.TaskGroup() as group:
        kubelets = SimulatedKubelets(client, read_cluster(text), **options)
        running = [group.create_task(kubelets.run())]
        if controllers:
            running.append(group.create_task(SimulatedControllers(client, retry_s=0.01).run()))
        try:
            await kubelets.registered.wait()
            yield Simulated(server, client, kubelets)
        finally:
            for task in running:
                task.cancel()
