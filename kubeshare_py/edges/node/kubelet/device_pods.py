"""Pods of the node as the API server has them now, with what they hold."""

from collections import defaultdict
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec

from kubeshare_py.dialects.allocation import ReadBack, read_back
from kubeshare_py.dialects.dialect import Dialect, PodAsk
from kubeshare_py.dialects.dialects import IN_TREE, DialectTable
from kubeshare_py.dialects.predecessors import held_by_predecessor
from kubeshare_py.dialects.results import ALLOCATION
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.request import ContainerRef, GpuRequest
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeError, KubeFailure
from kubeshare_py.edges.node.kubelet.plugin_server import DevicesRefused, calling
from kubeshare_py.edges.node.kubelet.wire import podresources_pb2 as wire
from kubeshare_py.manifests.api_paths import pod_path
from kubeshare_py.manifests.common_definitions import ObjectMeta
from kubeshare_py.manifests.pods.effective_requests import container_amounts
from kubeshare_py.manifests.pods.pod_fields import ContainerResources
from kubeshare_py.node_agent.allocation import ContainerDevices, ContainerSpec, DevicePod

_PODS = "/api/v1/pods"
#: kubelet's uid of a static pod, whose mirror at the API server has another one:
#: https://kubernetes.io/docs/reference/labels-annotations-taints/#kubernetes-io-config-hash
_STATIC_UID = "kubernetes.io/config.hash"
#: The restart policy of an init container that keeps running.
_ALWAYS = "Always"


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

    async def pod(self, uid: PodUid, keys: Mapping[PodUid, PodKey]) -> DevicePod:
        """kubelet's pod with this uid now, by its name in `keys` if it is there.

        Raises DevicesRefused.
        """
        key = keys.get(uid) or await self._key(uid)
        found = await self._named(key)
        if not _is(found, uid):
            raise DevicesRefused(f"pod {key} is gone, and another has its name")
        return found

    async def _key(self, uid: PodUid) -> PodKey:
        """The name of a pod that the watch of the node's pods has not shown yet."""
        known = next((one.key for one in self._last.values() if _is(one, uid)), None)
        if known is not None:
            return known
        pods = [one for one in await self.on_node() if _is(one, uid)]
        # Its own uid first: any pod may have the annotation.
        pods.sort(key=lambda one: one.uid != uid)
        if not pods:
            raise DevicesRefused(f"the pod with the uid {uid} is gone")
        return pods[0].key

    async def _named(self, key: PodKey) -> DevicePod:
        path = pod_path(key)
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
            specs={one.name: _spec(ref, one) for ref, one in containers},
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


def _is(pod: DevicePod, uid: PodUid) -> bool:
    return uid in (pod.uid, pod.annotations.get(_STATIC_UID))


def _spec(ref: ContainerRef, container: NamedContainer) -> ContainerSpec:
    asked = container.resources or ContainerResources()
    return ContainerSpec(
        {one.name: one.value for one in container.env or ()},
        {
            name: str(one)
            for name, one in {**(asked.requests or {}), **(asked.limits or {})}.items()
        },
        runs_first=ref.init and container.restart_policy != _ALWAYS,
    )


def _has_ended(stored: Mapping[str, Any]) -> bool:
    return msgspec.convert(stored, StoredDevicePod).status.phase in ("Succeeded", "Failed")


# kubelet's pod-resources service, v1: which containers have which devices.
#
# https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/#monitoring-device-plugin-resources


_METHOD = "/v1.PodResourcesLister/List"
#: kubelet gives a container's start 30 s to be answered.
_LIST_S = 10.0


class PodResources:
    """The service on `socket`."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def listed(self) -> list[ContainerDevices]:
        """All containers of active pods; of their init containers the sidecars.

        Raises KubeletUnreachable.
        """
        async with calling(self._socket) as channel:
            ask: Any = channel.unary_unary(
                _METHOD,
                wire.ListPodResourcesRequest.SerializeToString,
                wire.ListPodResourcesResponse.FromString,
            )
            answer = await ask(wire.ListPodResourcesRequest(), timeout=_LIST_S)
        return [
            ContainerDevices(PodKey(pod.namespace, pod.name), one.name, _together(one))
            for pod in answer.pod_resources
            for one in pod.containers
        ]


def _together(container: wire.ContainerResources) -> dict[str, frozenset[str]]:
    """All devices of each resource; kubelet has an entry for each since 1.21."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for entry in container.devices:
        found[entry.resource_name] |= {*entry.device_ids}
    return {name: frozenset(devices) for name, devices in found.items()}
