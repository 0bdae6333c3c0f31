"""The controllers that a simulated cluster needs, as plain clients of the API.

Jobs, ReplicaSets, Deployments, StatefulSets, disruption budgets, volumes, device claims and garbage
collection. They share one watch per kind.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

import msgspec

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeError, KubeFailure
from kubeshare_py.embedded_cluster.controllers.budgets import BudgetCache
from kubeshare_py.embedded_cluster.controllers.controller import (
    Change,
    ControllerCache,
    ControllerEvent,
    ControllerWork,
    Creation,
    Deletion,
)
from kubeshare_py.embedded_cluster.controllers.deployments import DeploymentCache
from kubeshare_py.embedded_cluster.controllers.garbage import (
    DeleteObject,
    Garbage,
    GarbageWork,
    LookForOwner,
    PatchObject,
)
from kubeshare_py.embedded_cluster.controllers.jobs import JobCache
from kubeshare_py.embedded_cluster.controllers.pod_claims import (
    EphemeralVolumeCache,
    PodClaimCache,
    ReservationCache,
)
from kubeshare_py.embedded_cluster.controllers.provisioning import ProvisionerCache, ReclaimCache
from kubeshare_py.embedded_cluster.controllers.replica_sets import ReplicaSetCache
from kubeshare_py.embedded_cluster.controllers.stateful_sets import StatefulSetCache
from kubeshare_py.embedded_cluster.controllers.unstructured import (
    CLAIMS,
    DEFINITIONS,
    DEPLOYMENTS,
    DEVICE_CLAIMS,
    JOBS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Json,
    ObjectKind,
    UnstructuredObject,
    defined_by,
)
from kubeshare_py.embedded_cluster.controllers.volume_binding import ClaimCache, VolumeCache
from kubeshare_py.embedded_cluster.protocol.times import timestamp
from kubeshare_py.embedded_cluster.serving.api_access import Listener, listen, persist
from kubeshare_py.manifests.watch import ListResult

# Performs the work of a simulated controller by the API.


_log = logging.getLogger(__name__)

_NANOSECONDS = 1_000_000_000
#: Gone already, replaced, or changed meanwhile: the watch will show it.
_OVERTAKEN = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)


class ControllerWorker:
    """One controller. After its `cache` is updated, `news` must be called."""

    def __init__(
        self, client: KubeClient, cache: ControllerCache, retry_s: float, clock: Callable[[], float]
    ) -> None:
        """Refused work is repeated after `retry_s`. `clock` gives Unix time (s)."""
        self.cache = cache
        self._client = client
        self._retry_s = retry_s
        self._clock = clock
        self._news = asyncio.Event()
        self._last_event = 0
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def news(self) -> None:
        """The cache may have work."""
        self._news.set()

    async def run(self) -> None:
        """Perform work, one round after the other, so that nothing is created twice."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self.cache.has_work():
                async with asyncio.TaskGroup() as group:
                    for owner, work in self.cache.work(self._clock()):
                        group.create_task(self._sync(owner, work))

    async def _sync(self, owner: UnstructuredObject, work: ControllerWork) -> None:
        if work.look_at is not None:
            self._look_later(owner.uid, work.look_at - self._clock())
        try:
            await self._write(owner, work)
            if work.status is not None:
                await self._write_status(owner, work.status)
            for event in work.events:
                await self._record(owner, event)
        except* KubeFailure as failures:
            for error in failures.exceptions:
                _log.warning("%s %s: %s", self.cache.role.owner.kind, owner.key, error)
            self.cache.refused(owner.uid, str(failures.exceptions[0]))
            loop = asyncio.get_running_loop()
            loop.call_later(self._retry_s, self._try_again, owner.uid)
        else:
            self.cache.settled(owner.uid)

    async def _write(self, owner: UnstructuredObject, work: ControllerWork) -> None:
        """Create, delete and change objects; what dependents need is there before them."""
        async with asyncio.TaskGroup() as group:
            for new in work.create:
                if new.kind is not None:
                    group.create_task(self._create(owner, new))
        async with asyncio.TaskGroup() as group:
            for new in work.create:
                if new.kind is None:
                    group.create_task(self._create(owner, new))
            for gone in work.delete:
                group.create_task(self._delete(owner, gone))
            for changed in work.change:
                group.create_task(self._change(owner, changed))

    def _look_later(self, uid: str, delay_s: float) -> None:
        """Look again once, at the last requested time."""
        if uid in self._timers:
            self._timers[uid].cancel()
        loop = asyncio.get_running_loop()
        self._timers[uid] = loop.call_later(max(delay_s, 0), self._look_again, uid)

    def _look_again(self, uid: str) -> None:
        del self._timers[uid]
        self.cache.look_again(uid)
        self.news()

    def _try_again(self, uid: str) -> None:
        self.cache.try_again(uid)
        self.news()

    async def _create(self, owner: UnstructuredObject, new: Creation) -> None:
        kind = new.kind or self.cache.role.dependents
        path = kind.collection(owner.metadata.namespace)
        try:
            # Not repeated: an object whose answer was lost is found by the watch.
            made = await self._client.create(path, new.body)
        except KubeError as error:
            if error.status == HTTPStatus.CONFLICT and "name" in new.body["metadata"]:
                return
            await self._record(owner, new.refused, error=error.message)
            raise
        found = msgspec.convert(made, UnstructuredObject)
        if kind == self.cache.role.dependents:
            self.cache.created(found, asyncio.get_running_loop().time())
        await self._record(owner, new.made, name=found.metadata.name)

    async def _delete(self, owner: UnstructuredObject, gone: Deletion) -> None:
        metadata = gone.object.metadata
        path = self.cache.role.dependents.object_path(metadata.namespace, metadata.name)
        try:
            await persist(partial(self._client.delete, path, uid=metadata.uid))
        except KubeError as error:
            if error.status not in _OVERTAKEN:
                raise
            return
        self.cache.deleted(metadata.uid)
        await self._record(owner, gone.done, name=metadata.name)

    async def _change(self, owner: UnstructuredObject, changed: Change) -> None:
        metadata, kind = changed.object.metadata, changed.kind or self.cache.role.dependents
        path = kind.object_path(metadata.namespace, metadata.name)
        path = f"{path}/{changed.part}" if changed.part else path
        seen = {"uid": metadata.uid, "resourceVersion": metadata.resourceVersion}
        body = {**changed.body, "metadata": {**changed.body.get("metadata", {}), **seen}}
        if await self._patched(path, body):
            await self._record(owner, changed.done, name=metadata.name)

    async def _write_status(self, owner: UnstructuredObject, status: Json) -> None:
        metadata = owner.metadata
        path = self.cache.role.owner.object_path(metadata.namespace, metadata.name)
        seen = {**status.get("metadata", {}), "uid": owner.uid}
        await self._patched(f"{path}/status", {**status, "metadata": seen})

    async def _patched(self, path: str, body: Json) -> bool:
        """Patch; whether it was done: not after a concurrent change, which the watch will show."""
        try:
            await persist(partial(self._client.merge_patch, path, body))
        except KubeError as error:
            if error.status not in _OVERTAKEN:
                raise
            return False
        return True

    async def _record(
        self,
        owner: UnstructuredObject,
        event: ControllerEvent | None,
        *,
        name: str = "",
        error: str = "",
    ) -> None:
        """Write an event; a failure does not stop the work."""
        if event is None:
            return
        body = self._event(owner, event.about(name=name, error=error))
        namespace = body["metadata"]["namespace"]
        try:
            await self._client.create(f"/api/v1/namespaces/{namespace}/events", body)
        except KubeFailure as failure:
            _log.warning("event %s of %s: %s", event.reason, owner.key, failure)

    def _event(self, owner: UnstructuredObject, event: ControllerEvent) -> Json:
        now, metadata, role = self._clock(), owner.metadata, self.cache.role
        # kubectl sorts events of one second by name.
        self._last_event = max(self._last_event + 1, int(now * _NANOSECONDS))
        name = f"{metadata.name}.{self._last_event:x}"
        return {
            "apiVersion": "v1",
            "kind": "Event",
            # Events about objects without a namespace are in `default`.
            "metadata": {"name": name, "namespace": metadata.namespace or "default"},
            "involvedObject": {
                "apiVersion": role.owner.api_version,
                "kind": role.owner.kind,
                "namespace": metadata.namespace,
                "name": metadata.name,
                "uid": metadata.uid,
                "resourceVersion": metadata.resourceVersion,
            },
            "type": event.type,
            "reason": event.reason,
            "message": event.message,
            "source": {"component": role.component},
            "reportingComponent": role.component,
            "firstTimestamp": timestamp(now),
            "lastTimestamp": timestamp(now),
            "count": 1,
        }


# The simulated garbage collector: deletes objects without owners.
#
# `embedded_cluster.controllers.garbage` decides, this class performs.


class GarbageCollector:
    """After its `garbage` is updated with objects of all `kinds`, `news` must be called."""

    def __init__(self, client: KubeClient, kinds: Iterable[ObjectKind], retry_s: float) -> None:
        """Failed work is repeated after `retry_s`."""
        self.garbage = Garbage(kinds)
        self._client = client
        self._retry_s = retry_s
        self._news = asyncio.Event()

    def news(self) -> None:
        """Look for work."""
        self._news.set()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._news.wait()
                self._news.clear()
                for work in self.garbage.work():
                    group.create_task(self._do(work))

    async def _do(self, work: GarbageWork) -> None:
        try:
            match work:
                case DeleteObject(path, uid):
                    await persist(partial(self._delete, path, uid))
                case PatchObject(path, _, body):
                    await persist(partial(self._client.merge_patch, path, body))
                case LookForOwner(path, uid):
                    await self._look(path, uid)
        except KubeError as error:
            # Gone already, replaced, or changed meanwhile: the watch will show it.
            if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
                _log.warning("%s: %s", work.path, error)
                asyncio.get_running_loop().call_later(self._retry_s, self._look_again, work.uid)

    async def _delete(self, path: str, uid: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            # Without it, Jobs would leave their pods behind.
            "propagationPolicy": "Background",
        }
        await self._client.request("DELETE", path, body=body)

    async def _look(self, path: str, uid: str) -> None:
        try:
            found = await persist(partial(self._client.get, path))
        except KubeError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            found = {}
        if found.get("metadata", {}).get("uid") != uid:
            self.garbage.owner_absent(uid)
            self.news()

    def _look_again(self, uid: str) -> None:
        self.garbage.look_again(uid)
        self.news()


# Garbage collection of custom objects: a watch for each kind of a definition.


@dataclass(frozen=True, slots=True)
class _Watched:
    """A definition's kinds, one per version, the first of which is watched."""

    kinds: list[ObjectKind]
    task: asyncio.Task[None]


class CustomCollection:
    """Feeds `garbage` with custom objects; `news` is called afterwards."""

    def __init__(self, client: KubeClient, garbage: Garbage, news: Callable[[], None]) -> None:
        self._client = client
        self._garbage = garbage
        self._news = news
        self._watched: dict[str, _Watched] = {}

    async def run(self) -> None:
        """Follow definitions, and the objects of each, until cancelled."""
        async with asyncio.TaskGroup() as group:
            listener = Listener(
                listed=partial(self._listed, group),
                seen=partial(self._seen, group),
                gone=self._gone,
                news=self._news,
            )
            await listen(self._client, DEFINITIONS.path, listener)

    def _listed(self, group: asyncio.TaskGroup, found: ListResult[UnstructuredObject]) -> None:
        present = {definition.uid for definition in found.items}
        for uid in self._watched.keys() - present:
            self._gone(uid)
        for definition in found.items:
            self._seen(group, definition)

    def _seen(self, group: asyncio.TaskGroup, definition: UnstructuredObject) -> None:
        kinds = defined_by(definition)
        held = self._watched.get(definition.uid)
        if kinds == (held.kinds if held is not None else []):
            return
        self._gone(definition.uid)
        if not kinds:
            return
        watched, *others = kinds
        self._garbage.watch(watched, others)
        task = group.create_task(listen(self._client, watched.path, self._listener(watched)))
        self._watched[definition.uid] = _Watched(kinds, task)

    def _gone(self, uid: str) -> None:
        held = self._watched.pop(uid, None)
        if held is not None:
            held.task.cancel()
            self._garbage.unwatch(held.kinds[0])

    def _listener(self, kind: ObjectKind) -> Listener:
        return Listener(
            listed=lambda found: self._garbage.listed(kind, found.items),
            seen=partial(self._garbage.seen, kind),
            gone=self._garbage.gone,
            news=self._news,
        )


#: Seconds until failed work is repeated.
RETRY_S = 2.0

#: Those of kube-controller-manager.
CONTROLLERS: tuple[type[ControllerCache], ...] = (
    JobCache,
    ReplicaSetCache,
    DeploymentCache,
    StatefulSetCache,
    BudgetCache,
    ClaimCache,
    VolumeCache,
    EphemeralVolumeCache,
    PodClaimCache,
    ReservationCache,
)
#: A storage driver's, which no control plane brings along.
DRIVERS: tuple[type[ControllerCache], ...] = (ProvisionerCache, ReclaimCache)
#: Kinds that may own objects, or be owned.
_COLLECTED = (PODS, JOBS, REPLICA_SETS, DEPLOYMENTS, STATEFUL_SETS, CLAIMS, DEVICE_CLAIMS)


class SimulatedControllers:
    """The part of kube-controller-manager that a cluster like this one needs, and its drivers."""

    def __init__(
        self,
        client: KubeClient,
        *,
        retry_s: float = RETRY_S,
        clock: Callable[[], float] = time.time,
        drivers_only: bool = False,
    ) -> None:
        """Refused work is repeated after `retry_s`. `clock` gives Unix time (s).

        With `drivers_only`, others do the work of kube-controller-manager.
        """
        self._client = client
        caches = DRIVERS if drivers_only else (*CONTROLLERS, *DRIVERS)
        self._collected = () if drivers_only else _COLLECTED
        self._workers = [ControllerWorker(client, cache(), retry_s, clock) for cache in caches]
        self._collector = GarbageCollector(client, self._collected, retry_s)
        self._custom = CustomCollection(client, self._collector.garbage, self._collector.news)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind in self._watched():
                listener = Listener(
                    listed=partial(self._listed, kind),
                    seen=partial(self._seen, kind),
                    gone=partial(self._gone, kind),
                    news=self._news,
                )
                group.create_task(listen(self._client, kind.path, listener))
            if self._collected:
                group.create_task(self._collector.run())
                group.create_task(self._custom.run())
            for worker in self._workers:
                group.create_task(worker.run())

    def _watched(self) -> list[ObjectKind]:
        """Each kind that a worker or the garbage collector follows, once."""
        roles = (worker.cache.role for worker in self._workers)
        watched = (kind for role in roles for kind in role.watched)
        return [*dict.fromkeys((*self._collected, *watched))]

    def _listed(self, kind: ObjectKind, found: ListResult[UnstructuredObject]) -> None:
        if kind in self._collected:
            self._collector.garbage.listed(kind, found.items)
        for worker in self._workers_for(kind):
            worker.cache.listed(kind, found.items, found.asked_at)

    def _seen(self, kind: ObjectKind, found: UnstructuredObject) -> None:
        if kind in self._collected:
            self._collector.garbage.seen(kind, found)
        for worker in self._workers_for(kind):
            worker.cache.seen(kind, found)

    def _gone(self, kind: ObjectKind, uid: str) -> None:
        if kind in self._collected:
            self._collector.garbage.gone(uid)
        for worker in self._workers_for(kind):
            worker.cache.gone(kind, uid)

    def _news(self) -> None:
        self._collector.news()
        for worker in self._workers:
            worker.news()

    def _workers_for(self, kind: ObjectKind) -> list[ControllerWorker]:
        return [worker for worker in self._workers if kind in worker.cache.role.watched]
