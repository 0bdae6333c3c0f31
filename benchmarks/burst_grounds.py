"""Where bursts are measured: nodes with cards, a scheduler, kubelets; embedded or on a server."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

import yaml

from benchmarks.contest.cluster import cluster
from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.inventory import Inventory
from kubeshare_py.configuration.leader_election import LeaderElection
from kubeshare_py.configuration.scheduler import SchedulerConfiguration
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import SimulatedNode, read_cluster
from kubeshare_py.embedded_cluster.programs.demo_cluster import running_scheduler
from kubeshare_py.embedded_cluster.serving.cluster import embedded_cluster
from kubeshare_py.embedded_cluster.serving.server import SCHEDULER
from kubeshare_py.embedded_cluster.serving.simulated_kubelets import SimulatedKubelets
from tests.controlplane.processes import process
from tests.controlplane.running import ControlPlane

MODEL, MEMORY = "A100", "40GiB"

#: So many nodes with so many cards each, and what it needs of files in a folder of its own; yields
#: an administrator's client.
Ground = Callable[[Path, int, int], AbstractAsyncContextManager[KubeClient]]


@asynccontextmanager
async def embedded(folder: Path) -> AsyncIterator[Ground]:
    """Everything in this process."""
    yield _embedded


@asynccontextmanager
async def real(folder: Path) -> AsyncIterator[Ground]:
    """A real control plane, and the scheduler as a process of its own."""
    async with cluster(_made(folder / "control-plane")) as found:
        yield partial(_real, found.plane)


CONTROL_PLANES = {"embedded": embedded, "real": real}


@asynccontextmanager
async def _embedded(folder: Path, nodes: int, cards: int) -> AsyncIterator[KubeClient]:
    configuration = SchedulerConfiguration(
        inventory=Inventory(source="file", path=str(_cards(folder, cards))),
        leader_election=LeaderElection(leader_elect=False),
        forced_delete_hold_seconds=0.0,  # bursts are deleted by force
    )
    async with (
        embedded_cluster(folder, _nodes(nodes, cards)) as found,
        running_scheduler(found, folder, configuration, IN_TREE),
    ):
        yield found.client


@asynccontextmanager
async def _real(
    plane: ControlPlane, folder: Path, nodes: int, cards: int
) -> AsyncIterator[KubeClient]:
    config = _settings(folder, cards)
    own = plane.secrets.write_kubeconfig(folder / "of-scheduler", plane.url, SCHEDULER)
    command: list[str | Path] = [
        sys.executable, "-m", "kubeshare_cmd.scheduler", "--config", config, "--kubeconfig", own,
    ]  # fmt: skip
    simulated = _nodes(nodes, cards)
    async with (
        KubeClient(load(str(plane.kubeconfig))) as workers,
        KubeClient(load(str(plane.kubeconfig))) as client,
        asyncio.TaskGroup() as group,
    ):
        kubelets = SimulatedKubelets(workers, simulated, heartbeat_s=None)
        running = group.create_task(kubelets.run())
        await kubelets.registered.wait()
        with process(command, folder / "scheduler.log"):
            yield client
        running.cancel()
        for node in simulated:
            await client.delete(f"/api/v1/nodes/{node.name}")


def _nodes(nodes: int, cards: int) -> tuple[SimulatedNode, ...]:
    gpus = [{"model": MODEL, "count": cards, "memory": MEMORY}]
    group = {"name": "n{n}", "count": nodes, "gpus": gpus}
    return read_cluster(yaml.safe_dump({"nodes": [group]}))


def _settings(folder: Path, cards: int) -> Path:
    """A configuration file for a process."""
    settings = {
        "inventory": {"source": "file", "path": str(_cards(folder, cards))},
        "server": {"bindAddress": "127.0.0.1", "port": 0},
        "forcedDeleteHoldSeconds": 0,
    }
    path = folder / "scheduler.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def _cards(folder: Path, cards: int) -> Path:
    """The inventory: as many cards in each node."""
    path = _made(folder) / "cards.yaml"
    listed = [{"model": MODEL, "count": cards, "memory": MEMORY}]
    path.write_text(yaml.safe_dump({"nodes": [{"names": ["n*"], "cards": listed}]}))
    return path
