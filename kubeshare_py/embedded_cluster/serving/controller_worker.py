"""Performs the work of a simulated controller by the API."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from http import HTTPStatus

import msgspec

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeError, KubeFailure
from kubeshare_py.embedded_cluster.controllers.controller_cache import ControllerCache
from kubeshare_py.embedded_cluster.controllers.controller_work import (
    Change,
    ControllerEvent,
    ControllerWork,
    Creation,
    Deletion,
)
from kubeshare_py.embedded_cluster.controllers.unstructured import Json, UnstructuredObject
from kubeshare_py.embedded_cluster.protocol.times import timestamp
from kubeshare_py.embedded_cluster.serving.persistence import persist

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
