"""Where bursts of HAMi's pods are measured: nodes that its plugin registered, a scheduler."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml

from benchmarks.contest.cluster import IN_FORCE, Cluster
from kubeshare_py.dialects.hami.annotations import HAMI, NVIDIA_KEYS, RegisteredCard, write_json
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.embedded_cluster.serving.server import SCHEDULER
from tests.controlplane.processes import process
from tests.controlplane.shipped import ABOUT_BINDINGS
from tests.stories.hami_plugin import allow_node_patches

SPLIT, CARD_MIB = 10, 40_960
NODES = "/api/v1/nodes"
_READY = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "no kubelet"}


async def allow_annotations(plane: Cluster) -> None:
    """Let Bindings with HAMi's annotations pass, as the chart does with `hami` in a profile.

    The plain manifests know the default dialects alone.
    """
    await plane.client.delete(f"{IN_FORCE}/{ABOUT_BINDINGS}")


@asynccontextmanager
async def ground(
    plane: Cluster, folder: Path, nodes: int, cards: int, *, locks: bool
) -> AsyncIterator[KubeClient]:
    """So many nodes with so many cards each, and the scheduler as a process; a client."""
    config = _written(folder, locks=locks)
    own = plane.plane.secrets.write_kubeconfig(folder / "own", plane.plane.url, SCHEDULER)
    command: list[str | Path] = [
        sys.executable, "-m", "kubeshare_cmd.scheduler", "--config", config, "--kubeconfig", own,
    ]  # fmt: skip
    async with KubeClient(load(str(plane.plane.kubeconfig))) as client:
        await allow_node_patches(client)
        names = [f"n{number}" for number in range(nodes)]
        await asyncio.gather(*(_register(client, name, cards) for name in names))
        with process(command, folder / "scheduler.log"):
            yield client
        await asyncio.gather(*(client.delete(f"{NODES}/{name}") for name in names))


def _written(folder: Path, *, locks: bool) -> Path:
    """A configuration file in a folder that is made for it."""
    folder.mkdir()
    path = folder / "scheduler.yaml"
    path.write_text(yaml.safe_dump(_settings(locks=locks)))
    return path


def _settings(*, locks: bool) -> dict[str, object]:
    return {
        "inventory": {"source": "hami", "nodeLock": locks},
        "profiles": [{"dialects": [{"name": "hami"}]}],
        "server": {"bindAddress": "127.0.0.1", "port": 0},
        "forcedDeleteHoldSeconds": 0,
    }


async def _register(client: KubeClient, name: str, cards: int) -> None:
    """Create a node as a kubelet does it, with what HAMi's plugin adds."""
    listed = [
        RegisteredCard(
            uuid=f"GPU-{name}-{index}", index=index, count=SPLIT, memory_mib=CARD_MIB, cores=100,
            type="NVIDIA A100", mode="hami-core", health=True,
        )
        for index in range(cards)
    ]  # fmt: skip
    offered = {
        "cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": str(SPLIT * cards),
    }  # fmt: skip
    annotations = {NVIDIA_KEYS[HAMI].register: write_json(listed)}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, "gpu": "on"}}
    status = {"capacity": offered, "allocatable": offered, "conditions": [_READY]}
    body = {"apiVersion": "v1", "kind": "Node", "status": status}
    await client.create(NODES, {**body, "metadata": {**metadata, "annotations": annotations}})
