"""A cluster, the proxy in front of it, a scheduler behind the proxy, and the books."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import msgspec
import yaml

from kubeshare_plugins import IN_TREE
from kubeshare_py.edges.api_server import ADMIN, SCHEDULER
from kubeshare_py.edges.embedded_cluster import EmbeddedCluster, embedded_cluster
from kubeshare_py.edges.kube_client import KubeClient
from kubeshare_py.edges.kube_config import load
from kubeshare_py.framework.configuration import (
    Inventory,
    SchedulerConfiguration,
    Server,
)
from kubeshare_py.programs import scheduler
from kubeshare_py.simulation.cluster_file import SimulatedNode, read_cluster
from tests.faults.books import Books, Card
from tests.faults.fast_time import clock_of_the_loop
from tests.faults.proxy import FaultProxy

PODS = "/api/v1/namespaces/default/pods"
#: Turns of the loop in which a cancelled scheduler gets to the answers that it waits for.
TURNS = 20


@dataclass(slots=True)
class Arena:
    """Everything of one run. The administrator's client `cluster.client` avoids the proxy."""

    cluster: EmbeddedCluster
    proxy: FaultProxy
    books: Books
    nodes: Sequence[SimulatedNode]
    folder: Path
    group: asyncio.TaskGroup
    lost: set[str] = field(default_factory=set)
    _running: list[asyncio.Task[None]] = field(default_factory=list)
    _started: int = 0

    def configuration(self) -> SchedulerConfiguration:
        """Cards from a file, so that a restart is cheap and losing a card is one write."""
        certificates = self.cluster.server.certificates
        return SchedulerConfiguration(
            inventory=Inventory(source="file", path=str(self.cards_file()), interval_seconds=1.0),
            server=Server(
                bind_address="127.0.0.1",
                port=0,
                certificate_file=str(certificates.certificate_file),
                key_file=str(certificates.key_file),
            ),
        )

    def cards_file(self) -> Path:
        """Write the cards that are not lost."""
        document = {
            "nodes": [
                {
                    "names": [str(node.name)],
                    "cards": [
                        {"model": card.model, "memory": card.memory_bytes, "uuid": str(card.uuid)}
                        for card in node.cards
                        if card.uuid not in self.lost
                    ],
                }
                for node in self.nodes
            ]
        }
        file, new = self.folder / "cards.yaml", self.folder / "cards.new"
        new.write_text(yaml.safe_dump(document))
        new.replace(file)
        return file

    def kubeconfig(self) -> Path:
        """The scheduler's, through the proxy."""
        token = self.cluster.server.tokens[SCHEDULER]
        return self.proxy.write_kubeconfig(self.folder / "of-scheduler", SCHEDULER, token)

    def start(self) -> None:
        """Start a scheduler."""
        self._running.append(self.group.create_task(self._schedule()))

    async def kill(self) -> None:
        """End every scheduler without letting it finish anything."""
        running, self._running = self._running, []
        for task in running:
            task.cancel()
        for _ in range(TURNS):
            await asyncio.sleep(0)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    async def _schedule(self) -> None:
        configuration = self.configuration()
        with suppress(asyncio.CancelledError):
            async with KubeClient(load(str(self.kubeconfig()))) as client:
                machine = scheduler.machine(configuration, IN_TREE)
                await scheduler.run(configuration, client, machine)


@asynccontextmanager
async def arena(folder: Path, text: str) -> AsyncIterator[Arena]:
    """A cluster of this cluster file; no scheduler yet and good weather."""
    nodes = read_cluster(text)
    books = Books(
        {
            card.uuid: Card(node=node.name, memory=card.memory_bytes)
            for node in nodes
            for card in node.cards
        }
    )
    clock = clock_of_the_loop()
    async with embedded_cluster(folder, nodes, clock=clock) as cluster:
        server = cluster.server
        trust = server.certificates.client_context()
        bearer = {"Authorization": f"Bearer {server.tokens[ADMIN]}"}
        async with (
            FaultProxy(server.url, trust, folder / "proxy") as proxy,
            aiohttp.ClientSession(
                headers=bearer, connector=aiohttp.TCPConnector(ssl=trust)
            ) as session,
            asyncio.TaskGroup() as group,
        ):
            started = asyncio.Event()
            following = group.create_task(books.follow(session, server.url, started))
            await started.wait()
            found = Arena(cluster, proxy, books, nodes, folder, group)
            try:
                yield found
            finally:
                await found.kill()
                following.cancel()


def pod(name: str, labels: dict[str, str], annotations: dict[str, str]) -> dict[str, object]:
    """A pod for our scheduler that ends for good when it ends."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {
            "schedulerName": "kubeshare-scheduler",
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "busybox"}],
        },
    }


def replaced(configuration: SchedulerConfiguration, **changes: object) -> SchedulerConfiguration:
    """The same configuration but for some fields."""
    return msgspec.structs.replace(configuration, **changes)
