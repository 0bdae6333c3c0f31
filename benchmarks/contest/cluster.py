"""The cluster of a contest: a real control plane, nodes without kubelets, pods by the thousand."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec

from kubeshare_py.edges.kube.client import KubeAnswer, KubeClient
from kubeshare_py.edges.kube.credentials import load
from tests.controlplane.build import NEEDED, build
from tests.controlplane.cleaning import ship_lease
from tests.controlplane.running import ControlPlane, control_plane
from tests.controlplane.shipped import (
    MUTATING,
    POLICIES,
    RUNTIME_CLASS,
    TOKEN_PARTS,
    limits_token,
    shipped,
    write,
)

T = TypeVar("T")

#: What puts policies in force.
IN_FORCE = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
PODS = "/api/v1/namespaces/default/pods"
CARDS = 8
IN_FLIGHT = 32
MODEL, CARD_MEMORY = "A100", "40GiB"
#: A node of the measurements that peers were compared with.
_ALLOCATABLE = {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": str(CARDS)}
_READY = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "no kubelet"}
_REQUESTS = re.compile(rb"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
#: API servers notice new policies after about a second, and compile them then.
_IN_FORCE_S = 5.0
_LABEL = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A kind of pod: who schedules it, and how it asks for a card."""

    scheduler: str
    labels: dict[str, str] = field(default_factory=dict)
    limits: dict[str, str] = field(default_factory=dict)

    def manifest(self, name: str) -> bytes:
        """Write such a pod, as JSON."""
        resources = {
            "requests": {"cpu": "1", "memory": "4Gi"} | self.limits, "limits": self.limits,
        }  # fmt: skip
        container = {"name": "main", "image": "busybox", "resources": resources}
        return msgspec.json.encode(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "labels": self.labels},
                "spec": {"schedulerName": self.scheduler, "containers": [container]},
            }
        )


@dataclass(frozen=True, slots=True)
class Cluster:
    """What runs, and an administrator's client with 32 requests in flight."""

    plane: ControlPlane
    client: KubeClient
    folder: Path

    def kubeconfig_of(self, user: str) -> Path:
        """Write the credentials of one of the control plane's users."""
        return _kubeconfig_of(self.plane, self.folder, user)

    async def create(self, pods: Iterable[bytes]) -> float:
        """Create them all; the seconds that it took."""
        return await self._each(pods, lambda body: self.client.request("POST", PODS, body=body))

    async def delete(self, names: Iterable[str]) -> None:
        """Delete pods at once: there is no kubelet that would end them."""
        await self._each(names, self._delete)

    async def register(self, count: int) -> None:
        """Create nodes n1, n2, ... of 8 cards, with the names filled up with zeros."""
        await self._each(node_names(count), self._register)

    async def unregister(self, count: int) -> None:
        """Delete those nodes."""
        await self._each(
            node_names(count),
            lambda name: self.client.request("DELETE", f"/api/v1/nodes/{name}"),
        )

    async def requests(self) -> Counter[str]:
        """How many requests the API server has answered so far, by "VERB resource"."""
        page = await self.client.request("GET", "/metrics")
        found: Counter[str] = Counter()
        for labels, value in _REQUESTS.findall(page.body):
            told = dict(_LABEL.findall(labels.decode()))
            what = "/".join(filter(None, (told["resource"], told["subresource"])))
            found[f"{told['verb']} {what}"] += int(float(value))
        return found

    async def _register(self, name: str) -> KubeAnswer:
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {
                "capacity": _ALLOCATABLE, "allocatable": _ALLOCATABLE, "conditions": [_READY],
            },
        }  # fmt: skip
        return await self.client.request("POST", "/api/v1/nodes", body=node)

    async def _delete(self, name: str) -> KubeAnswer:
        query = {"gracePeriodSeconds": 0}
        return await self.client.request("DELETE", f"{PODS}/{name}", query=query)

    @staticmethod
    async def _each(items: Iterable[T], act: Callable[[T], Awaitable[object]]) -> float:
        left = iter(items)
        now = asyncio.get_running_loop().time
        started = now()

        async def work() -> None:
            for item in left:
                await act(item)

        async with asyncio.TaskGroup() as group:
            for _ in range(IN_FLIGHT):
                group.create_task(work())
        return now() - started


def node_names(count: int) -> list[str]:
    """The names of the cluster's nodes."""
    return [f"n{number:05}" for number in range(count)]


@asynccontextmanager
async def cluster(folder: Path, *, policies: bool = True) -> AsyncIterator[Cluster]:
    """Run a cluster without nodes and without controllers, with the chart's admission policies."""
    binaries = build([*NEEDED, "kube-scheduler"])
    with control_plane(binaries, folder, controllers=False) as plane:
        async with KubeClient(load(str(plane.kubeconfig))) as client:
            account = {"apiVersion": "v1", "kind": "ServiceAccount"}
            body = {**account, "metadata": {"name": "default"}}
            await client.create("/api/v1/namespaces/default/serviceaccounts", body)
            await ship_lease(client)
            if policies:
                about_pods = [one for one in shipped(*MUTATING, *POLICIES) if not limits_token(one)]
                plane.create(write([RUNTIME_CLASS, *about_pods], folder / "policies.yaml"))
                for name in TOKEN_PARTS:  # which these have too
                    await client.delete(f"{IN_FORCE}/{name}")
                await asyncio.sleep(_IN_FORCE_S)
            yield Cluster(plane, client, folder)


def _kubeconfig_of(plane: ControlPlane, folder: Path, user: str) -> Path:
    # A colon would end the path in a list of them.
    path = folder / f"of-{user.replace(':', '-')}"
    return plane.secrets.write_kubeconfig(path, plane.url, user)
