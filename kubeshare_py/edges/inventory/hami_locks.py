"""Locks of nodes whose device plugins give devices to one pod at a time, as HAMi's do.

Those that the plugins do not free any more are freed: see `lock_ages`.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus

import msgspec

from kubeshare_py.dialects.cambricon.node_locks import DSMLU_LOCK, dsmlu_locks
from kubeshare_py.dialects.hami.keys import SYSTEMS
from kubeshare_py.dialects.hami.node_locks import node_locks
from kubeshare_py.domain.identity import NodeName, PodKey
from kubeshare_py.domain.node import Node, NodeLock
from kubeshare_py.edges.inventory.node_book import take_update
from kubeshare_py.edges.kube.client import JSON_PATCH, KubeClient
from kubeshare_py.edges.kube.errors import KubeError, KubeFailure
from kubeshare_py.edges.process import decision_log
from kubeshare_py.inventory.hami.lock_ages import KnownLock, LockAges, LockOwner
from kubeshare_py.manifests.api_paths import node_path, pod_path
from kubeshare_py.manifests.devices.node_locks import unlock_patch
from kubeshare_py.manifests.node import NodeFields, ReadLocks
from kubeshare_py.manifests.undecodable import UNDECODABLE
from kubeshare_py.manifests.watch import Changes, ListResult

TIMEOUT_S = 6.0
#: Seconds between looks while this process does not lead, or no lock is held.
IDLE_S = 5.0
LOCKS = (*(system.lock for system in SYSTEMS.values()), DSMLU_LOCK)
_PHASES = tuple(system.bind_phase for system in SYSTEMS.values())


class _OwnerMetadata(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _OwnerSpec(msgspec.Struct):
    nodeName: str = ""


class _OwnerStatus(msgspec.Struct):
    phase: str = ""


class _OwnerPod(msgspec.Struct):
    metadata: _OwnerMetadata = msgspec.field(default_factory=_OwnerMetadata)
    spec: _OwnerSpec = msgspec.field(default_factory=_OwnerSpec)
    status: _OwnerStatus = msgspec.field(default_factory=_OwnerStatus)


_decoder = msgspec.json.Decoder(_OwnerPod)


def locks_of(resource: str) -> ReadLocks:
    """Reads the locks of nodes; `resource` is what HAMi's plugin for NVIDIA advertises."""

    def read(annotations: Mapping[str, str], offered: Collection[str]) -> tuple[NodeLock, ...]:
        return node_locks(annotations, resource) + dsmlu_locks(annotations, offered)

    return read


@dataclass(slots=True)
class HamiLocks:
    """Follows the locks by the watch of nodes. `now_s` is Unix time."""

    now_s: Callable[[], float] = time.time
    ages: LockAges = field(default_factory=LockAges)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def seen(self, node: NodeFields) -> None:
        """Take a node, from a list or a change."""
        annotations = node.metadata.annotations or {}
        for key in LOCKS:
            if self.ages.take(
                NodeName(node.metadata.name), key, annotations.get(key, ""), self.now_s()
            ):
                self._news.set()

    def gone(self, name: NodeName) -> None:
        """Forget a node."""
        self.ages.gone(name)

    def only(self, names: Iterable[NodeName]) -> None:
        """Forget all nodes but these."""
        self.ages.only(names)

    def changed(self, update: ListResult[Node] | Changes[NodeFields]) -> None:
        """Take a list, whose nodes were all seen, or changes: see `take_update`."""
        take_update(self, update)

    async def keep(self, client: KubeClient, leads: Callable[[], bool]) -> None:
        """Free locks for ever, while this process leads."""
        while True:
            self._news.clear()
            if leads():
                for lock in self.ages.due(self.now_s()):
                    await self.look(client, lock)
            pause_s = self.ages.next_at - self.now_s() if leads() else IDLE_S
            with suppress(TimeoutError):
                async with asyncio.timeout(min(max(pause_s, 0.0), IDLE_S)):
                    await self._news.wait()

    async def look(self, client: KubeClient, lock: KnownLock) -> None:
        """Free a lock if its pod does not need it; never raises for errors of the server."""
        owner = lock.held.owner if lock.held is not None else None
        try:
            found = await _owner(client, owner) if owner is not None else None
            if self.ages.judge(lock, found, self.now_s()):
                decision_log.warn("unlock", node=lock.node, annotation=lock.key, text=lock.text)
                await client.request(
                    "PATCH",
                    node_path(lock.node),
                    body=unlock_patch(lock.key, lock.text),
                    content_type=JSON_PATCH,
                    timeout_s=TIMEOUT_S,
                    patient=False,
                )
        except (KubeError, KubeFailure) as error:
            decision_log.warn("unlock", node=lock.node, annotation=lock.key, message=str(error))


async def _owner(client: KubeClient, key: PodKey) -> LockOwner | None:
    """The pod that a lock names; None if it does not exist."""
    path = pod_path(key)
    try:
        answer = await client.request("GET", path, timeout_s=TIMEOUT_S, patient=False)
    except KubeError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return None
        raise
    try:
        pod = _decoder.decode(answer.body)
    except UNDECODABLE:
        return LockOwner()
    annotations = pod.metadata.annotations or {}
    return LockOwner(
        node=pod.spec.nodeName,
        phase=next((annotations[key] for key in _PHASES if annotations.get(key)), ""),
        is_over=pod.status.phase in ("Succeeded", "Failed"),
    )
