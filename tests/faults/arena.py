"""A cluster, the proxy in front of it, schedulers behind the proxy, and the books."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from kubeshare_py.edges.api_server import ADMIN, SCHEDULER
from kubeshare_py.edges.certificates import Certificates
from kubeshare_py.edges.kube_errors import KubeError
from kubeshare_py.edges.kube_persistence import persist
from kubeshare_py.edges.leader_lease import leases_path
from kubeshare_py.framework.configuration import SchedulerConfiguration, Server, read
from kubeshare_py.framework.inventory_settings import Inventory
from kubeshare_py.framework.leader_election import LeaderElection
from kubeshare_py.manifests.lease import STATE_SERVICE
from kubeshare_py.simulation.cluster_file import SimulatedNode, read_cluster
from tests.builders import NO_PREEMPTION
from tests.controlplane.running import ControlPlane
from tests.faults.books import Books, Card
from tests.faults.cards_file import CardsFile
from tests.faults.ground import Ground, embedded_ground, real_ground
from tests.faults.history import follow
from tests.faults.pace import FAST, TRUE, Pace
from tests.faults.proxy import FaultProxy
from tests.faults.schedulers import Processes, Schedulers, Tasks

PODS = "/api/v1/namespaces/default/pods"


@dataclass(slots=True)
class Arena:
    """Everything of one run."""

    ground: Ground
    proxy: FaultProxy
    books: Books
    cards: CardsFile
    nodes: Sequence[SimulatedNode]
    schedulers: Schedulers
    pace: Pace
    group: asyncio.TaskGroup
    session: aiohttp.ClientSession

    @asynccontextmanager
    async def keeping(self, books: Books) -> AsyncIterator[Books]:
        """Keep these books, from a list of now on."""
        started = asyncio.Event()
        following = self.group.create_task(follow(books, self.session, self.ground.url, started))
        await started.wait()
        try:
            yield books
        finally:
            following.cancel()

    async def create(self, body: Mapping[str, object]) -> None:
        """Create a pod, however long a busy machine takes for it."""
        try:
            await persist(partial(self.ground.client.create, PODS, body))
        except KubeError as error:
            # Made by an earlier try.
            if error.status != HTTPStatus.CONFLICT:
                raise

    async def delete(self, name: str, grace_period_s: int | None = 0) -> None:
        """Delete a pod, if it is still there."""
        delete = partial(self.ground.client.delete, grace_period_s=grace_period_s)
        try:
            await persist(partial(delete, f"{PODS}/{name}"))
        except KubeError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise

    async def metrics(self) -> dict[str, float]:
        """What the leader says about itself, without labels."""
        lease = await self.ground.client.get(f"{leases_path('kube-system')}/kubeshare-scheduler")
        port = lease["metadata"]["annotations"][STATE_SERVICE].rpartition(":")[2]
        async with self.session.get(f"https://127.0.0.1:{port}/metrics") as answer:
            assert answer.status == 200, await answer.text()
            families = text_string_to_metric_families(await answer.text())
            samples = (one for family in families for one in family.samples)
            return {one.name: one.value for one in samples if not one.labels}


@asynccontextmanager
async def arena(
    folder: Path,
    text: str,
    plane: ControlPlane | None = None,
    *,
    elect: bool = False,
    processes: bool = False,
) -> AsyncIterator[Arena]:
    """A cluster of this cluster file; no scheduler yet and good weather.

    With `elect` schedulers agree on a leader, and the proxy delivers what a dead one sent. They are
    processes on a real control plane, and on request.
    """
    nodes, pace = read_cluster(text), pace_of(plane, processes=processes)
    books = Books(
        {
            card.uuid: Card(node=node.name, memory=card.memory_bytes)
            for node in nodes
            for card in node.cards
        }
    )
    cards = CardsFile(folder / "cards.yaml", nodes)
    cards.write()
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        ground = await enter(
            embedded_ground(folder, nodes) if plane is None else real_ground(plane, nodes)
        )
        trust = ground.certificates.client_context()
        proxy = await enter(FaultProxy(ground.url, trust, folder / "proxy", late=elect, pace=pace))
        session = await enter(
            aiohttp.ClientSession(
                headers={"Authorization": f"Bearer {ground.tokens[ADMIN]}"},
                connector=aiohttp.TCPConnector(ssl=trust),
            )
        )
        group = await enter(asyncio.TaskGroup())
        election = pace.election if elect else LeaderElection(leader_elect=False)
        configuration = _configuration(cards.path, ground.certificates, election)
        kubeconfig = proxy.write_kubeconfig(
            folder / "of-scheduler", SCHEDULER, ground.tokens[SCHEDULER]
        )
        schedulers: Schedulers
        if pace is TRUE:
            schedulers = Processes(group, configuration, kubeconfig, folder)
        else:
            schedulers = tasks = Tasks(group, configuration, kubeconfig)
            stack.enter_context(tasks.listening())
        found = Arena(ground, proxy, books, cards, nodes, schedulers, pace, group, session)
        try:
            async with found.keeping(books):
                yield found
        finally:
            await schedulers.kill()


def pace_of(plane: ControlPlane | None, *, processes: bool = False) -> Pace:
    """Whether time can be made faster."""
    return FAST if plane is None and not processes else TRUE


def _configuration(
    cards: Path, certificates: Certificates, election: LeaderElection
) -> SchedulerConfiguration:
    return SchedulerConfiguration(
        profiles=read(NO_PREEMPTION).profiles,
        leader_election=election,
        inventory=Inventory(source="file", path=str(cards), interval_seconds=1.0),
        server=Server(
            bind_address="127.0.0.1",
            port=0,
            certificate_file=str(certificates.certificate_file),
            key_file=str(certificates.key_file),
        ),
    )


def pod(
    name: str, labels: dict[str, str], annotations: dict[str, str] | None = None
) -> dict[str, object]:
    """A pod for our scheduler that ends for good when it ends."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels, "annotations": annotations or {}},
        "spec": {
            "schedulerName": "kubeshare-scheduler",
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "busybox"}],
        },
    }


def share(asked: str, **more: str) -> dict[str, str]:
    """Labels of a pod that asks for so much of a card."""
    labels = {"gpu_request": asked, "gpu_limit": asked if float(asked) > 1 else "1.0", **more}
    return {f"sharedgpu/{name}": value for name, value in labels.items()}
