"""API servers with simulated nodes that tests stop, start and compact: embedded or real."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from kubeshare_py.edges.kube.certificates import Certificates
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import SimulatedNode
from kubeshare_py.embedded_cluster.serving.cluster import EmbeddedCluster, embedded_cluster
from kubeshare_py.embedded_cluster.serving.simulated_kubelets import SimulatedKubelets
from tests.controlplane.cleaning import clean, ship_lease
from tests.controlplane.running import ControlPlane
from tests.faults.fast_time import clock_of_the_loop


class ControlledApiServer(Protocol):
    """One API server; `client` is an administrator's and leads through no proxy."""

    @property
    def url(self) -> str:
        """Where it listens, also after a `start`."""

    @property
    def certificates(self) -> Certificates:
        """The authority that its clients must trust."""

    @property
    def tokens(self) -> Mapping[str, str]:
        """Of its users."""

    @property
    def client(self) -> KubeClient:
        """The administrator's."""

    async def stop(self) -> None:
        """End the API server: at once, where it is a process."""

    async def start(self) -> None:
        """Let it come back with the same objects; returns when it is ready."""

    async def compact(self) -> None:
        """Forget the past."""


class EmbeddedApiServer:
    """The embedded cluster."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.server = cluster.server
        self.client = cluster.client

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def certificates(self) -> Certificates:
        return self.server.certificates

    @property
    def tokens(self) -> Mapping[str, str]:
        return self.server.tokens

    async def stop(self) -> None:
        await self.server.stop()

    async def start(self) -> None:
        await self.server.start()

    async def compact(self) -> None:
        self.server.compact()


class RealApiServer:
    """A control plane, whose API server is killed rather than stopped."""

    def __init__(self, plane: ControlPlane, client: KubeClient) -> None:
        self.client = client
        self.url = plane.url
        self.certificates = plane.secrets.certificates
        self.tokens = plane.secrets.tokens
        self._plane = plane

    async def stop(self) -> None:
        self._plane.server.kill()

    async def start(self) -> None:
        self._plane.server.start_again()
        await asyncio.to_thread(self._plane.wait_until_ready)

    async def compact(self) -> None:
        await asyncio.to_thread(self._plane.compact)


@asynccontextmanager
async def embedded_api_server(
    folder: Path, nodes: Sequence[SimulatedNode]
) -> AsyncIterator[ControlledApiServer]:
    """A new cluster, on the loop's clock."""
    async with embedded_cluster(folder, nodes, clock=clock_of_the_loop()) as cluster:
        yield EmbeddedApiServer(cluster)


@asynccontextmanager
async def real_api_server(
    plane: ControlPlane, nodes: Sequence[SimulatedNode]
) -> AsyncIterator[ControlledApiServer]:
    """The control plane of all tests, made as new."""
    credentials = load(str(plane.kubeconfig))
    async with (
        KubeClient(credentials) as admin,
        KubeClient(credentials) as workers,
        asyncio.TaskGroup() as group,
    ):
        await clean(admin)
        await ship_lease(admin)
        kubelets = SimulatedKubelets(workers, nodes)
        running = group.create_task(kubelets.run())
        try:
            await kubelets.registered.wait()
            yield RealApiServer(plane, admin)
        finally:
            running.cancel()
