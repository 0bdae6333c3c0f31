"""HAMi's device plugin and the kubelets that ask it, played over the API for many nodes.

A kubelet sees a pod bound to its node and asks the plugin for the devices of each of its
containers. It does not say for which pod: the plugin takes the one that the node's lock names, one
call at a time on each node, and gives what the pod's annotation says.
"""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from kubeshare_py.dialects.hami.annotations import (
    ALLOCATING,
    FAILED,
    HAMI,
    NVIDIA_KEYS,
    SUCCESS,
    SYSTEMS,
    Slots,
    decode,
    encode,
    read_lock,
)
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.edges.kube.watch import follow
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject
from kubeshare_py.manifests.watch import DELETED, Codec, ListResult

GPU = "nvidia.com/gpu"
SYSTEM, KEYS = SYSTEMS[HAMI], NVIDIA_KEYS[HAMI]
_RELEASE_PAUSE_S = 0.1
_TRIES = 5

Json = dict[str, Any]


class NoDevices(Exception):
    """The plugin refuses a call; the kubelet then gives the pod up (UnexpectedAdmissionError)."""


def asked_by(pod: Json) -> list[int]:
    """How many devices each container asks for that asks, init containers first."""
    spec = pod["spec"]
    containers = [*spec.get("initContainers", ()), *spec["containers"]]
    counts = (one.get("resources", {}).get("limits", {}).get(GPU, "0") for one in containers)
    return [int(count) for count in counts if int(count)]


@dataclass(slots=True)
class StandInPlugin:
    """All nodes' plugins; a call takes about `answers_in_s`, its requests included.

    `given` has the devices of each pod that got them, by namespace/name; `wrong` says what went
    wrong; plugins of the nodes in `mute` answer once that is set.
    """

    client: KubeClient
    answers_in_s: float = 0.05
    mute: dict[str, asyncio.Event] = field(default_factory=dict)
    given: dict[str, Slots] = field(default_factory=dict)
    #: How long (s) each call took.
    took_s: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    #: How long (s) the last call took to tell the API server: the next one leaves time for that.
    _told_in_s: float = 0.0
    _calls: dict[str, asyncio.Lock] = field(default_factory=dict)
    _asked: set[str] = field(default_factory=set)
    _gone: set[str] = field(default_factory=set)

    async def run(self) -> None:
        """Be the kubelets: follow all pods for ever, and have devices given to bound ones."""
        codec: Codec[UnstructuredObject] = Codec(UnstructuredObject)
        stream = follow(self.client, "/api/v1/pods", codec)
        async with asyncio.TaskGroup() as group, aclosing(stream) as updates:
            async for update in updates:
                if isinstance(update, ListResult):
                    found = [*update.items]
                else:
                    seen = [(line.type, line.item) for line in update.changed if line.item]
                    self._gone.update(pod.uid for change, pod in seen if change == DELETED)
                    found = [pod for change, pod in seen if change != DELETED]
                for pod in found:
                    if pod.uid not in self._asked and pod.spec.get("nodeName"):
                        self._asked.add(pod.uid)
                        group.create_task(self._admit(pod))

    async def _admit(self, pod: UnstructuredObject) -> None:
        """The kubelet admits a pod: it asks for the devices of its containers, one by one."""
        node = pod.spec["nodeName"]
        asked = asked_by({"spec": pod.spec})
        if not asked:
            return
        async with self._calls.setdefault(node, asyncio.Lock()):
            if node in self.mute:
                await self.mute[node].wait()
            for count in () if pod.uid in self._gone else asked:
                try:
                    await self._allocate(node, count, str(pod.key))
                except (NoDevices, KubeError) as problem:  # a pod may be deleted meanwhile
                    self.wrong.append(f"{pod.key}: {problem}")
                    return

    async def _allocate(self, node: str, count: int, wanted: str) -> None:
        """Allocate of the plugin; `wanted` is for whom the kubelet asks, which it does not know."""
        clock = asyncio.get_running_loop().time
        began = clock()
        pod = await self._pending_pod(node)
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        if name != wanted:
            self.wrong.append(f"{wanted} gets the devices of {name}")
        slots = decode(pod["metadata"]["annotations"].get(KEYS.to_allocate, ""))
        place = next((at for at, slot in enumerate(slots) if slot), None)
        if isinstance(slots, str) or place is None or len(slots[place]) != count:
            await self._finish(node, pod, FAILED)
            raise NoDevices("device number not matched")
        left = tuple(() if at == place else slot for at, slot in enumerate(slots[:-1]))
        await asyncio.sleep(max(0.0, self.answers_in_s - self._told_in_s - (clock() - began)))
        telling = clock()
        await self._annotate(pod, {KEYS.to_allocate: encode(left)})
        self.given[name] = (*self.given.get(name, ()), slots[place])
        if not any(left):
            await self._finish(node, pod, SUCCESS)
        self._told_in_s = clock() - telling
        self.took_s.append(clock() - began)

    async def _pending_pod(self, node: str) -> Json:
        """The pod that the lock names; without a lock the first that may be meant."""
        text = (await self._annotations(node)).get(SYSTEM.lock, "")
        held = read_lock(text) if text else None
        if text and held is None:
            raise NoDevices("malformed lock annotation")
        if held is not None and held.owner is not None:
            path = f"/api/v1/namespaces/{held.owner.namespace}/pods/{held.owner.name}"
            try:
                found: Json = await self.client.get(path)
            except KubeError as error:
                raise NoDevices(str(error)) from error
            return found
        for pod in await self.client.list_all("/api/v1/pods"):
            annotations = pod["metadata"].get("annotations", {})
            is_pending = pod.get("status", {}).get("phase", "Pending") == "Pending"
            phase = annotations.get(SYSTEM.bind_phase)
            is_bound = pod["spec"].get("nodeName") == annotations.get(SYSTEM.node) == node
            if is_pending and is_bound and phase in (ALLOCATING, SUCCESS):
                return pod
        raise NoDevices(f"no binding pod found on node {node}")

    async def _finish(self, node: str, pod: Json, phase: str) -> None:
        """Say how it ended, and remove the lock if it is still this pod's."""
        await self._annotate(pod, {SYSTEM.bind_phase: phase})
        meta = pod["metadata"]
        for _ in range(_TRIES):
            found: Json = await self.client.get(f"/api/v1/nodes/{node}")
            text = found["metadata"].get("annotations", {}).get(SYSTEM.lock, "")
            if "," in text and not text.endswith(f",{meta['namespace']},{meta['name']}"):
                return
            if not text:
                return
            version = found["metadata"]["resourceVersion"]
            body = {"metadata": {"annotations": {SYSTEM.lock: None}, "resourceVersion": version}}
            try:
                await self.client.merge_patch(f"/api/v1/nodes/{node}", body)
            except KubeError as error:
                if error.status != HTTPStatus.CONFLICT:
                    raise
                await asyncio.sleep(_RELEASE_PAUSE_S)
                continue
            return

    async def _annotate(self, pod: Json, annotations: Mapping[str, str]) -> None:
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        await self.client.merge_patch(path, {"metadata": {"annotations": dict(annotations)}})

    async def _annotations(self, node: str) -> dict[str, str]:
        found: Json = await self.client.get(f"/api/v1/nodes/{node}")
        texts: dict[str, str] = found["metadata"].get("annotations", {})
        return texts


def devices_of(slots: Slots) -> list[str]:
    """The uuids in slots."""
    return [record.uuid for slot in slots for record in slot]
