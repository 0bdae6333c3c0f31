"""A cluster, the proxy in front of it, schedulers behind the proxy, and the books."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypedDict, Unpack

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from kubeshare_py.configuration.inventory import Inventory
from kubeshare_py.configuration.leader_election import LeaderElection
from kubeshare_py.configuration.scheduler import SchedulerConfiguration, Server, read
from kubeshare_py.edges.kube.certificates import Certificates
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import SimulatedNode, read_cluster
from kubeshare_py.embedded_cluster.serving.api_access import persist
from kubeshare_py.embedded_cluster.serving.server import ADMIN, SCHEDULER
from tests.controlplane.running import ControlPlane
from tests.faults.api_servers import ControlledApiServer, embedded_api_server, real_api_server
from tests.faults.cards_file import CardsFile
from tests.faults.durations import FAST_TIME, REAL_TIME, Durations
from tests.faults.history import follow
from tests.faults.proxy import FaultProxy
from tests.faults.reference_model import Card, ReferenceModel
from tests.faults.schedulers import Processes, Schedulers, Tasks
from tests.making import NO_PREEMPTION

#: The folder of the schedulers' event logs, in fast time.
EVENT_LOG = "events"
PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
#: By name: the value, and whether such pods evict others.
CLASSES = {
    "low": (1, "PreemptLowerPriority"),
    "middle": (50, "PreemptLowerPriority"),
    "high": (1000, "PreemptLowerPriority"),
    "polite": (1000, "Never"),
}


Json = Mapping[str, object]


@dataclass(slots=True)
class ChaosCluster:
    """Everything of one run."""

    api_server: ControlledApiServer
    proxy: FaultProxy
    reference: ReferenceModel
    cards: CardsFile
    nodes: Sequence[SimulatedNode]
    schedulers: Schedulers
    durations: Durations
    group: asyncio.TaskGroup
    session: aiohttp.ClientSession

    @asynccontextmanager
    async def keeping(self, reference: ReferenceModel) -> AsyncIterator[ReferenceModel]:
        """Keep these books, from a list of now on."""
        started = asyncio.Event()
        following = self.group.create_task(
            follow(reference, self.session, self.api_server.url, started)
        )
        await started.wait()
        try:
            yield reference
        finally:
            following.cancel()

    async def create(self, body: Mapping[str, object]) -> None:
        """Create a pod, however long a busy machine takes for it."""
        try:
            await persist(partial(self.api_server.client.create, PODS, body))
        except KubeError as error:
            # Made by an earlier try.
            if error.status != HTTPStatus.CONFLICT:
                raise

    async def delete(self, name: str, grace_period_s: int | None = 0) -> None:
        """Delete a pod, if it is still there."""
        delete = partial(self.api_server.client.delete, grace_period_s=grace_period_s)
        try:
            await persist(partial(delete, f"{PODS}/{name}"))
        except KubeError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise

    async def release(self, name: str) -> None:
        """Take away a pod's finalizers, if it is still there."""
        patch = partial(self.api_server.client.merge_patch, f"{PODS}/{name}")
        try:
            await persist(partial(patch, {"metadata": {"finalizers": None}}))
        except KubeError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise

    async def protect(self, selector: Json, least: Json) -> None:
        """Replace the disruption budget."""
        client, spec = self.api_server.client, {"selector": selector, **least}
        try:
            await persist(partial(client.merge_patch, f"{BUDGETS}/kept", {"spec": spec}))
        except KubeError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": spec}
            await persist(partial(client.create, BUDGETS, {**body, "metadata": {"name": "kept"}}))

    async def events(self) -> list[dict[str, Any]]:
        """All events there are."""
        return await self.api_server.client.list_all("/apis/events.k8s.io/v1/events")

    async def metrics(self) -> dict[str, float]:
        """What the scheduler that started last says about itself, without labels."""
        async with self.session.get(f"{self.schedulers.url()}/metrics") as answer:
            assert answer.status == 200, await answer.text()
            families = text_string_to_metric_families(await answer.text())
            samples = (one for family in families for one in family.samples)
            return {one.name: one.value for one in samples if not one.labels}


class Options(TypedDict, total=False):
    """With `elect` schedulers agree on a leader, and the proxy delivers what a dead one sent. They
    are `processes` on a real control plane, and on request. With `preempts` pods evict others, and
    there are classes of priority.
    """

    elect: bool
    processes: bool
    preempts: bool


@asynccontextmanager
async def chaos_cluster(
    folder: Path, text: str, plane: ControlPlane | None = None, **options: Unpack[Options]
) -> AsyncIterator[ChaosCluster]:
    """A cluster of this cluster file; no scheduler and no fault yet."""
    elect, preempts = options.get("elect", False), options.get("preempts", False)
    nodes, durations = read_cluster(text), durations_of(plane, **options)
    reference = ReferenceModel(_cards(nodes), preempts=preempts)
    cards = CardsFile(folder / "cards.yaml", nodes)
    cards.write()
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        api_server = await enter(
            embedded_api_server(folder, nodes) if plane is None else real_api_server(plane, nodes)
        )
        trust = api_server.certificates.client_context()
        proxy = await enter(
            FaultProxy(api_server.url, trust, folder / "proxy", late=elect, durations=durations)
        )
        session = await enter(
            aiohttp.ClientSession(
                headers={"Authorization": f"Bearer {api_server.tokens[ADMIN]}"},
                connector=aiohttp.TCPConnector(ssl=trust),
            )
        )
        group = await enter(asyncio.TaskGroup())
        election = durations.election if elect else LeaderElection(leader_elect=False)
        configuration = _configuration(cards.path, api_server.certificates, election, preempts)
        kubeconfig = proxy.write_kubeconfig(
            folder / "of-scheduler", SCHEDULER, api_server.tokens[SCHEDULER]
        )
        schedulers: Schedulers
        if durations is REAL_TIME:
            schedulers = Processes(group, configuration, kubeconfig, folder)
        else:
            schedulers = tasks = Tasks(group, configuration, kubeconfig, folder / EVENT_LOG)
            stack.enter_context(tasks.listening())
        for name, (value, policy) in CLASSES.items() if preempts else ():
            await api_server.client.create(PRIORITY_CLASSES, _priority_class(name, value, policy))
        found = ChaosCluster(
            api_server, proxy, reference, cards, nodes, schedulers, durations, group, session
        )
        try:
            async with found.keeping(reference):
                yield found
        finally:
            await schedulers.end()


def durations_of(plane: ControlPlane | None, **options: Unpack[Options]) -> Durations:
    """Whether time can be made faster."""
    return FAST_TIME if plane is None and not options.get("processes") else REAL_TIME


def _cards(nodes: Iterable[SimulatedNode]) -> dict[str, Card]:
    return {
        card.uuid: Card(node=node.name, memory=card.memory_bytes)
        for node in nodes
        for card in node.cards
    }


def _configuration(
    cards: Path, certificates: Certificates, election: LeaderElection, preempts: bool
) -> SchedulerConfiguration:
    return SchedulerConfiguration(
        profiles=read({} if preempts else NO_PREEMPTION).profiles,
        leader_election=election,
        # A card may lie idle for a pod that starves, and the books do not know for whom.
        reservation_seconds=0.0 if preempts else SchedulerConfiguration().reservation_seconds,
        # Pods of these tests are deleted by force. The books count what is there.
        forced_delete_hold_seconds=1.0,
        inventory=Inventory(source="file", path=str(cards), interval_seconds=1.0),
        server=Server(
            bind_address="127.0.0.1",
            port=0,
            certificate_file=str(certificates.certificate_file),
            key_file=str(certificates.key_file),
        ),
    )


def _priority_class(name: str, value: int, policy: str) -> dict[str, object]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "preemptionPolicy": policy,
    }


def pod(
    name: str,
    labels: dict[str, str],
    annotations: dict[str, str] | None = None,
    finalizers: Sequence[str] = (),
    **spec: object,
) -> dict[str, object]:
    """A pod for our scheduler that ends for good when it ends."""
    metadata = {"name": name, "labels": labels, "annotations": annotations or {}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "finalizers": [*finalizers]},
        "spec": {
            "schedulerName": "kubeshare-scheduler",
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "busybox"}],
            **spec,
        },
    }


def share(asked: str, **more: str) -> dict[str, str]:
    """Labels of a pod that asks for so much of a card."""
    labels = {"gpu_request": asked, "gpu_limit": asked if float(asked) > 1 else "1.0", **more}
    return {f"sharedgpu/{name}": value for name, value in labels.items()}
