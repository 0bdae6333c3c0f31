"""An embedded cluster with everything around a scheduler: API server, nodes, collectors, Jobs.

The parts know each other only through the Kubernetes API and HTTP, as in a real cluster.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from kubeshare_py.configuration.scheduler import ConfigurationError
from kubeshare_py.edges.kube.certificates import API_SERVICES
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.embedded_cluster.controllers.rollouts import as_applied
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import SimulatedNode
from kubeshare_py.embedded_cluster.protocol.mutation import Mutation, unchanged
from kubeshare_py.embedded_cluster.serving.server import ADMIN, ApiServer
from kubeshare_py.embedded_cluster.serving.simulated_collectors import SimulatedCollectors
from kubeshare_py.embedded_cluster.serving.simulated_controllers import SimulatedControllers
from kubeshare_py.embedded_cluster.serving.simulated_kubelets import SimulatedKubelets
from kubeshare_py.manifests import state_group

NAMESPACE, SERVICE = "kube-system", "kubeshare-scheduler"
#: Seconds between checks of whether the state is served.
PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class EmbeddedCluster:
    """The running parts, and an administrator's client. `kubeconfig` is a file for kubectl."""

    server: ApiServer
    collectors: SimulatedCollectors
    kubelets: SimulatedKubelets
    client: KubeClient
    kubeconfig: Path

    async def apply(self, workload: dict[str, Any]) -> None:
        """Create an object as `kubectl apply` does, in `default` unless it names a namespace.

        Raises KubeFailure, such as KubeError for an unknown kind.
        """
        group_version, kind = workload["apiVersion"], workload["kind"]
        root = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
        served = (await self.client.get(root))["resources"]
        found = next(
            (one for one in served if one["kind"] == kind and "/" not in one["name"]), None
        )
        if found is None:
            raise KubeError(HTTPStatus.NOT_FOUND, "NotFound", f"no kind {kind} in {group_version}")
        if found["namespaced"]:
            namespace = workload.get("metadata", {}).get("namespace", "default")
            workload = {**workload, "metadata": {**workload["metadata"], "namespace": namespace}}
            root = f"{root}/namespaces/{namespace}"
        await self.client.create(f"{root}/{found['name']}", as_applied(workload))

    async def publish_scheduler(self, url: str) -> None:
        """Make the scheduler's state endpoint reachable as an API group.

        A later scheduler replaces an earlier one.
        """
        port = int(url.rpartition(":")[2])
        ports = [{"name": "https", "port": port}]
        # An ExternalName needs no network of Services, neither here nor before a real API server.
        service = {"type": "ExternalName", "externalName": "localhost", "ports": ports}
        behind = {"name": SERVICE, "namespace": NAMESPACE, "port": port}
        group = {
            "group": state_group.GROUP,
            "version": state_group.VERSION,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": behind,
        }
        await self._put(
            f"/api/v1/namespaces/{NAMESPACE}/services", "v1", "Service", SERVICE, service
        )
        await self._put(
            API_SERVICES, "apiregistration.k8s.io/v1", "APIService", state_group.API_SERVICE, group
        )

    async def state_served(self) -> None:
        """Return once the API server forwards requests for the scheduler's state."""
        path = f"{API_SERVICES}/{state_group.API_SERVICE}"
        while True:
            found = await self.client.get(path)
            conditions = (found.get("status") or {}).get("conditions") or []
            if any(one["type"] == "Available" and one["status"] == "True" for one in conditions):
                return
            await asyncio.sleep(PAUSE_S)

    async def _put(
        self, path: str, version: str, kind: str, name: str, spec: dict[str, Any]
    ) -> None:
        """Create an object, or change that of this name."""
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
        try:
            await self.client.create(path, body)
        except KubeError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
            await self.client.merge_patch(f"{path}/{name}", {"spec": spec})

    def admin_token(self) -> str:
        """The bearer token in `kubeconfig`."""
        return self.server.tokens[ADMIN]


@asynccontextmanager
async def embedded_cluster(
    directory: Path,
    nodes: Sequence[SimulatedNode],
    *,
    port: int = 0,
    clock: Callable[[], float] = time.time,
    mutation: Mutation = unchanged,
    tls: bool = True,
) -> AsyncIterator[EmbeddedCluster]:
    """Run it while entered; the nodes are registered on entering.

    `mutation` is the admission of new pods; without `tls` the server speaks plain HTTP. Raises
    ConfigurationError if the directory or the port cannot be used.
    """
    async with AsyncExitStack() as stack:
        try:
            server = await stack.enter_async_context(
                ApiServer(directory=directory, port=port, clock=clock, mutation=mutation, tls=tls)
            )
        except OSError as error:
            raise ConfigurationError(f"API server in {directory}: {error}") from error
        yield await stack.enter_async_context(cluster_around(server, directory, nodes, clock=clock))


@asynccontextmanager
async def cluster_around(
    server: ApiServer,
    directory: Path,
    nodes: Sequence[SimulatedNode],
    *,
    controllers: bool = True,
    clock: Callable[[], float] = time.time,
) -> AsyncIterator[EmbeddedCluster]:
    """All other parts around a running server; without `controllers`, others provide them.

    A storage driver (`controllers.provisioning`) is there in any case.

    Raises ConfigurationError if the directory cannot be used.
    """
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        try:
            kubeconfig = server.write_kubeconfig(directory / "kubeconfig")
        except OSError as error:
            raise ConfigurationError(f"API server in {directory}: {error}") from error
        collectors = await enter(SimulatedCollectors(nodes, clock=clock))
        admin = await enter(KubeClient(server.credentials()))
        # Clients of their own: the writes of nodes and controllers must not queue behind a user's
        # requests, and each client reports the breaks of its own watches.
        workers = await enter(KubeClient(server.credentials()))
        managers = await enter(KubeClient(server.credentials()))
        kubelets = SimulatedKubelets(workers, nodes, clock=clock)
        group = await enter(asyncio.TaskGroup())
        others = SimulatedControllers(managers, clock=clock, drivers_only=not controllers)
        running = [group.create_task(kubelets.run()), group.create_task(others.run())]
        if controllers:
            group.create_task(server.aggregator.keep())
        try:
            await kubelets.registered.wait()
            yield EmbeddedCluster(server, collectors, kubelets, admin, kubeconfig)
        finally:
            server.aggregator.end()
            for task in running:
                task.cancel()
