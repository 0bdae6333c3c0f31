"""A cluster, the proxy in front of it, a scheduler behind the proxy, and the books."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import yaml

from kubeshare_plugins import IN_TREE
from kubeshare_py.edges.api_server import ADMIN, SCHEDULER
from kubeshare_py.edges.embedded_cluster import EmbeddedCluster, embedded_cluster
from kubeshare_py.edges.kube_config import load
from kubeshare_py.edges.leader_lease import LeadershipLost
from kubeshare_py.edges.leadership import connected
from kubeshare_py.framework.configuration import (
    Inventory,
    SchedulerConfiguration,
    Server,
)
from kubeshare_py.framework.leader_election import LeaderElection
from kubeshare_py.programs import scheduler
from kubeshare_py.simulation.cluster_file import SimulatedNode, read_cluster
from tests.faults.books import Books, Card
from tests.faults.fast_time import clock_of_the_loop
from tests.faults.proxy import FaultProxy

PODS = "/api/v1/namespaces/default/pods"
#: Turns of the loop in which a cancelled scheduler gets to the answers that it waits for.
TURNS = 20
#: The Lease's clock is not the loop's: these are true seconds, but for the pauses.
ELECTION = LeaderElection(lease_duration="4s", renew_deadline="3s", retry_period="1s")


@dataclass(slots=True)
class Arena:
    """Everything of one run. The administrator's client `cluster.client` avoids the proxy."""

    cluster: EmbeddedCluster
    proxy: FaultProxy
    books: Books
    nodes: Sequence[SimulatedNode]
    folder: Path
    group: asyncio.TaskGroup
    session: aiohttp.ClientSession
    elect: bool = False
    lost: set[str] = field(default_factory=set)
    #: How often a scheduler ended because it lost the Lease.
    resigned: int = 0
    _running: list[asyncio.Task[None]] = field(default_factory=list)

    def configuration(self) -> SchedulerConfiguration:
        """Cards from a file, so that a restart is cheap and losing a card is one write."""
        certificates = self.cluster.server.certificates
        return SchedulerConfiguration(
            leader_election=ELECTION if self.elect else LeaderElection(leader_elect=False),
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

    @asynccontextmanager
    async def keeping(self, books: Books) -> AsyncIterator[Books]:
        """Keep these books, from a list of now on."""
        started = asyncio.Event()
        url = self.cluster.server.url
        following = self.group.create_task(books.follow(self.session, url, started))
        await started.wait()
        try:
            yield books
        finally:
            following.cancel()

    def start(self) -> None:
        """Start a scheduler."""
        self._running.append(self.group.create_task(self._schedule()))

    async def kill(self, number: int | None = None) -> None:
        """End one scheduler, or all, without letting them finish anything."""
        ended = self._running if number is None else [self._running[number]]
        self._running = [task for task in self._running if task not in ended]
        for task in ended:
            task.cancel()
        for _ in range(TURNS):
            await asyncio.sleep(0)
        for task in ended:
            task.cancel()
        if ended:
            await asyncio.wait(ended)

    async def _schedule(self) -> None:
        """Be a container that is started again whenever its process ends."""
        with suppress(asyncio.CancelledError):
            while True:
                try:
                    await self._process()
                except* LeadershipLost:
                    self.resigned += 1

    async def _process(self) -> None:
        configuration = self.configuration()
        machine = scheduler.machine(configuration, IN_TREE)
        credentials = load(str(self.kubeconfig()))
        clock = asyncio.get_running_loop().time
        async with connected(configuration, credentials, machine.name, clock=clock) as (
            client,
            leadership,
        ):
            await scheduler.run(configuration, client, machine, leadership)


@asynccontextmanager
async def arena(folder: Path, text: str, *, elect: bool = False) -> AsyncIterator[Arena]:
    """A cluster of this cluster file; no scheduler yet and good weather.

    With `elect` schedulers agree on a leader, and the proxy delivers what a dead one sent.
    """
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
            FaultProxy(server.url, trust, folder / "proxy", late=elect) as proxy,
            aiohttp.ClientSession(
                headers=bearer, connector=aiohttp.TCPConnector(ssl=trust)
            ) as session,
            asyncio.TaskGroup() as group,
        ):
            found = Arena(cluster, proxy, books, nodes, folder, group, session, elect)
            try:
                async with found.keeping(books):
                    yield found
            finally:
                await found.kill()


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
