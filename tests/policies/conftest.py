"""The policies in force on a real API server; the embedded one has no admission policies."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.embedded_cluster.serving.server import SCHEDULER
from tests.controlplane.build import TESTED, build
from tests.controlplane.cleaning import clean
from tests.controlplane.running import ControlPlane
from tests.controlplane.shipped import (
    MUTATING,
    POLICIES,
    RUNTIME_CLASS,
    limits_token,
    parts_only_in,
    shipped,
    write,
)
from tests.patience import PATIENCE_S
from tests.policies.environment import has_policies, installed

PODS = "/api/v1/namespaces/default/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"

T = TypeVar("T")
Json = dict[str, Any]


def pod(name: str, **metadata: Any) -> Json:
    containers = [{"name": "main", "image": "busybox"}]
    spec = {"schedulerName": "kubeshare-scheduler", "containers": containers}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def binding(name: str, **annotations: str) -> Json:
    """A Binding with these results, by their names without the prefix."""
    results = {f"sharedgpu/{key}": value for key, value in annotations.items()}
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "annotations": results},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }


async def refused(asked: Awaitable[Json]) -> str:
    """The message of a refusal by a policy."""
    with pytest.raises(KubeError) as error:
        await asked
    assert (error.value.status, error.value.reason) == (403, "Forbidden")
    return error.value.message


async def expect_accepted(asked: Awaitable[T]) -> T:
    """The API server's answer to a request that no policy refuses."""
    try:
        return await asked
    except KubeError as error:
        raise AssertionError(f"it was refused: {error}") from error


async def expect_refused(ask: Callable[[], Awaitable[Json]]) -> str:
    """Ask (for a dry run) again and again, until it is refused: servers notice changes late.

    What the server says then.
    """
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await ask()
            except KubeError as error:
                if error.status == 403:
                    return error.message
                raise
            await asyncio.sleep(0.05)


async def expect_let_through(ask: Callable[[], Awaitable[Json]]) -> Json:
    """The same until it is not refused any more; the answer."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await ask()
            except KubeError as error:
                if error.status != 403:
                    raise
            await asyncio.sleep(0.05)


@dataclass(frozen=True)
class Cluster:
    """An administrator's client, and the scheduler's."""

    admin: KubeClient
    scheduler: KubeClient

    async def lead(self, holder: str, transitions: int) -> None:
        """Write who leads."""
        spec = {"holderIdentity": holder, "leaseTransitions": transitions}
        path = f"{LEASES}/kubeshare-scheduler"
        await self.admin.merge_patch(path, {"spec": spec})


def policies(plane: ControlPlane) -> list[Json]:
    """Those that are shipped; without the guard of environments where none can be put into pods.

    Those that limit the scheduler's account are there with it.
    """
    others = [one for one in shipped(*POLICIES) if not limits_token(one)]
    if has_policies(plane):
        return [RUNTIME_CLASS, *others, *shipped(*MUTATING)]
    return [
        parts_only_in(one, (), "containers", "settled")
        for one in others
        if one["metadata"]["name"] != "kubeshare-ephemeral"
    ]


@pytest.fixture(scope="module")
def installed_plane(
    plane: ControlPlane | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """What is told to containers: policies and webhook on the real API server."""
    assert plane is not None
    build(TESTED)
    with installed(plane, tmp_path_factory.mktemp("admission")) as found:
        yield found


@pytest.fixture(scope="module")
def guarded(
    plane: ControlPlane | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """A control plane with the policies."""
    if plane is None:
        pytest.skip("admission policies need a real API server: make e2e")
    file = write(policies(plane), tmp_path_factory.mktemp("policies") / "policies.yaml")
    plane.start_server_again()
    plane.create(file)
    yield plane
    plane.delete(file)


@pytest.fixture
async def cluster(guarded: ControlPlane, tmp_path: Path) -> AsyncIterator[Cluster]:
    """Nobody's pods, a Lease that `me` holds for the third time, and policies in force."""
    own = guarded.secrets.write_kubeconfig(tmp_path / "scheduler", guarded.url, SCHEDULER)
    async with (
        KubeClient(load(str(guarded.kubeconfig))) as admin,
        KubeClient(load(str(own))) as scheduler,
    ):
        await clean(admin)
        for lease in await admin.list_all(LEASES):
            if lease["metadata"]["name"] == "kubeshare-scheduler":
                await admin.delete(f"{LEASES}/kubeshare-scheduler")
        lease = {"metadata": {"name": "kubeshare-scheduler"}}
        kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        await admin.create(LEASES, kind | lease)
        found = Cluster(admin, scheduler)
        await found.lead("me", 3)
        dry = {"dryRun": "All"}
        # The guard of environments may be in force before the policy that makes them.
        await expect_let_through(lambda: admin.create(PODS, pod("probe")))
        bad = pod("other", annotations={"sharedgpu/gpu_uuid": "GPU-1"})
        await expect_refused(lambda: admin.create(PODS, bad, dry))
        late = binding("probe", allocation="{}", fence="me/2")
        await expect_refused(lambda: scheduler.create(f"{PODS}/probe/binding", late, dry))
        yield found
