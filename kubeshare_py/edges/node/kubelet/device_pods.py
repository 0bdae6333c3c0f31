"""Pods of the node as the API server has them now, with what they hold."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from kubeshare_py.dialects.dialect import Dialect, PodAsk
from kubeshare_py.dialects.dialect_table import DialectTable
from kubeshare_py.dialects.dialects import IN_TREE
from kubeshare_py.dialects.predecessors import held_by_predecessor
from kubeshare_py.dialects.read_back import ReadBack, read_back
from kubeshare_py.dialects.results import ALLOCATION
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.request import ContainerRef, GpuRequest
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeError, KubeFailure
from kubeshare_py.edges.node.kubelet.plugin_server import DevicesRefused
from kubeshare_py.manifests.metadata import ObjectMeta
from kubeshare_py.manifests.pods.container_amounts import container_amounts
from kubeshare_py.manifests.pods.pod_fields import ContainerResources
from kubeshare_py.node_agent.device_plugin.container_cards import ContainerSpec, DevicePod

_PODS = "/api/v1/pods"


class NamedValue(msgspec.Struct, frozen=True, gc=False):
    """A variable; its value is "" where it refers to something."""

    name: str = ""
    value: str = ""


class NamedContainer(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A container and what it asks for; a sidecar restarts always."""

    name: str = ""
    env: tuple[NamedValue, ...] | None = None
    resources: ContainerResources | None = None
    restart_policy: str | None = None


class DevicePodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Its containers."""

    containers: tuple[NamedContainer, ...] = ()
    init_containers: tuple[NamedContainer, ...] | None = None


class DevicePodStatus(msgspec.Struct, frozen=True, gc=False):
    """Its phase."""

    phase: str = ""


class StoredDevicePod(msgspec.Struct, frozen=True, gc=False):
    """A v1 Pod in the fields that are read here."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DevicePodSpec = DevicePodSpec()
    status: DevicePodStatus = DevicePodStatus()


class DevicePods:
    """Asks the API server for one pod at a time.

    While it does not answer, pods stay as they were when they were last asked for.
    """

    def __init__(self, client: KubeClient, node: NodeName) -> None:
        self._client = client
        self._node = node
        every = [one for make in IN_TREE.values() if isinstance(one := make(), Dialect)]
        self._table = DialectTable(every)
        self._last: dict[PodKey, DevicePod] = {}

    async def pod(self, key: PodKey) -> DevicePod:
        """The pod of this name now. Raises DevicesRefused."""
        path = f"/api/v1/namespaces/{key.namespace}/pods/{key.name}"
        try:
            found = self._read(await self._client.get(path))
        except KubeError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                raise DevicesRefused(f"pod {key} is gone") from error
            return self._known(key, error)
        except (KubeFailure, msgspec.ValidationError) as error:
            return self._known(key, error)
        self._last[key] = found
        return found

    async def on_node(self) -> list[DevicePod]:
        """All pods of the node that have not ended, as they are now. Raises DevicesRefused."""
        query = {"fieldSelector": f"spec.nodeName={self._node}"}
        try:
            found = await self._client.list_all(_PODS, query)
            return [self._read(one) for one in found if not _has_ended(one)]
        except (KubeFailure, msgspec.ValidationError) as error:
            raise DevicesRefused(f"the node's pods cannot be read now: {error}") from error

    def forget(self, listed: Mapping[PodKey, object]) -> None:
        """Keep only the pods of these names."""
        self._last = {key: pod for key, pod in self._last.items() if key in listed}

    def _known(self, key: PodKey, error: Exception) -> DevicePod:
        if key not in self._last:
            raise DevicesRefused(f"pod {key} cannot be read now: {error}") from error
        return self._last[key]

    def _read(self, stored: Mapping[str, Any]) -> DevicePod:
        pod = msgspec.convert(stored, StoredDevicePod)
        containers = [
            (ContainerRef(init, at), one)
            for init, each in ((True, pod.spec.init_containers), (False, pod.spec.containers))
            for at, one in enumerate(each or ())
        ]
        annotations = pod.metadata.annotations or {}
        held = read_back(annotations)
        if ALLOCATION not in annotations:
            held = self._by_predecessor(pod)
            if held.problem:
                # Its cards are charged wholly, which is a guess: no container gets them for it.
                held = ReadBack(None, held.problem)
        return DevicePod(
            key=PodKey(pod.metadata.namespace, pod.metadata.name),
            uid=PodUid(pod.metadata.uid),
            containers={one.name: ref for ref, one in containers},
            annotations=annotations,
            specs={one.name: _spec(one) for _, one in containers},
            allocation=held.allocation,
            problem=held.problem,
        )

    def _by_predecessor(self, pod: StoredDevicePod) -> ReadBack:
        spec, about = pod.spec, pod.metadata
        names = self._table.resources
        amounts = container_amounts(spec.init_containers, spec.containers, names)
        ask = PodAsk(about.labels or {}, about.annotations or {}, amounts)
        asked = self._table.read(ask)
        request = asked if isinstance(asked, GpuRequest) else None
        return held_by_predecessor(self._table, ask, request)


def _spec(container: NamedContainer) -> ContainerSpec:
    asked = container.resources or ContainerResources()
    return ContainerSpec(
        {one.name: one.value for one in container.env or ()},
        {
            name: str(one)
            for name, one in {**(asked.requests or {}), **(asked.limits or {})}.items()
        },
    )


def _has_ended(stored: Mapping[str, Any]) -> bool:
    return msgspec.convert(stored, StoredDevicePod).status.phase in ("Succeeded", "Failed")
