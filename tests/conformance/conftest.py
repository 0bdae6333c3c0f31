"""The server that the facts are asked of: `pytest --control-plane real` asks a real one."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import read_cluster
from kubeshare_py.embedded_cluster.serving.server import ApiServer
from tests.conformance.kubectl import Kubectl
from tests.conformance.real_api import RealApi
from tests.conftest import NewCluster
from tests.controlplane.cleaning import clean
from tests.controlplane.front import front
from tests.controlplane.running import ControlPlane
from tests.embedded_cluster.api_client import Api
from tests.embedded_cluster.simulated import TWO_NODES, Simulated


@pytest.fixture
def api(plane: ControlPlane | None) -> Iterator[Api]:
    """A client of a server with the namespace fs and nothing of earlier tests in it."""
    if plane is None:
        yield Api()
        return
    asyncio.run(_clean(plane.kubeconfig))
    with RealApi(plane) as real:
        real.make_namespace()
        yield real


@pytest.fixture
async def world(tmp_path: Path, new_cluster: NewCluster) -> AsyncIterator[Simulated]:
    """A cluster with nodes, kubelets and controllers, simulated or real ones; no scheduler."""
    async with new_cluster(tmp_path, read_cluster(TWO_NODES)) as cluster:
        yield Simulated(cluster.server, cluster.client, cluster.kubelets)


async def _clean(kubeconfig: Path) -> None:
    async with KubeClient(load(str(kubeconfig))) as client:
        await clean(client)


@pytest.fixture
async def server(plane: ControlPlane | None, tmp_path: Path) -> AsyncIterator[ApiServer]:
    if plane is None:
        async with ApiServer(directory=tmp_path / "pki") as server:
            yield server
        return
    async with KubeClient(load(str(plane.kubeconfig))) as client:
        await clean(client)
    async with front(plane, tmp_path / "pki") as server:
        yield server


@pytest.fixture
def kubectl(server: ApiServer, tmp_path: Path) -> Kubectl:
    return Kubectl(tmp_path, server.write_kubeconfig(tmp_path / "kubeconfig"))
