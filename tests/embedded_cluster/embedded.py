"""The embedded API server with a client of ours, for tests of the Kubernetes edges."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.embedded_cluster.serving.server import ApiServer

PODS = "/api/v1/namespaces/default/pods"


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[tuple[ApiServer, KubeClient]]:
    """A server and a client that found it through a kubeconfig file."""
    async with ApiServer(directory=folder) as server:
        kubeconfig = server.write_kubeconfig(folder / "kubeconfig")
        async with KubeClient(load(str(kubeconfig))) as client:
            yield server, client


async def create_pod(client: KubeClient, name: str, **spec: object) -> dict[str, Any]:
    """A pod for our scheduler, as the server stored it."""
    containers = [{"name": "main", "image": "busybox"}]
    return await client.create(
        PODS,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"schedulerName": "kubeshare-scheduler", "containers": containers} | spec,
        },
    )


def scheduled_condition(pod: dict[str, Any]) -> dict[str, Any]:
    """The PodScheduled condition, {} if there is none."""
    conditions: list[dict[str, Any]] = pod.get("status", {}).get("conditions", [])
    return next((one for one in conditions if one["type"] == "PodScheduled"), {})
