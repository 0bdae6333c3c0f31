"""The controllers that a simulated cluster needs: Jobs and garbage collection.

Plain clients of the API: `simulation.job_book` and `simulation.garbage` decide, this file hears
and does. Each runs until it is cancelled.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from functools import partial
from http import HTTPStatus

import msgspec

from kubeshare_py.edges.kube_client import KubeClient
from kubeshare_py.edges.kube_errors import KubeError, KubeFailure
from kubeshare_py.edges.kube_persistence import persist
from kubeshare_py.edges.loose_watch import Listener, listen
from kubeshare_py.simulation.api_times import timestamp
from kubeshare_py.simulation.garbage import Garbage
from kubeshare_py.simulation.garbage_work import (
    JOBS,
    PODS,
    DeleteObject,
    GarbageWork,
    Kind,
    LookForOwner,
    PatchObject,
)
from kubeshare_py.simulation.job_book import JobBook
from kubeshare_py.simulation.jobs import JobEvent, JobWork
from kubeshare_py.simulation.loose_objects import Json, LooseObject

#: What failed is tried again after this long (s).
RETRY_S = 2.0

_log = logging.getLogger(__name__)


class JobController:
    """Creates the pods of Jobs and writes the Jobs' status."""

    def __init__(
        self,
        client: KubeClient,
        *,
        retry_s: float = RETRY_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """What was refused is tried again after `retry_s`. `clock` gives Unix time in seconds."""
        self._client = client
        self._retry_s = retry_s
        self._clock = clock
        self._book = JobBook()
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(listen(self._client, JOBS.path, self._jobs()))
            group.create_task(listen(self._client, PODS.path, self._pods()))
            group.create_task(self._work())

    def _jobs(self) -> Listener:
        return Listener(
            listed=lambda found: self._book.jobs_listed(found.items),
            seen=self._book.job_seen,
            gone=self._book.job_gone,
            news=self._news.set,
        )

    def _pods(self) -> Listener:
        return Listener(
            listed=lambda found: self._book.pods_listed(found.items, found.asked_at),
            seen=self._book.pod_seen,
            gone=self._book.pod_gone,
            news=self._news.set,
        )

    async def _work(self) -> None:
        """Do what is needed, one round after the other, so that no pod is created twice."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._book.has_work():
                async with asyncio.TaskGroup() as group:
                    for job, work in self._book.work(self._clock()):
                        group.create_task(self._sync(job, work))

    async def _sync(self, job: LooseObject, work: JobWork) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for pod in work.create:
                    group.create_task(self._create(job, pod))
                for gone in work.delete:
                    group.create_task(self._delete(gone))
            if work.status is not None:
                path = f"{JOBS.object_path(job.metadata.namespace, job.metadata.name)}/status"
                body = {"metadata": {"uid": job.uid}, **work.status}
                await persist(partial(self._client.merge_patch, path, body))
            for event in work.events:
                await self._record(job, event)
        except* KubeFailure as failures:
            for error in failures.exceptions:
                _log.warning("job %s: %s", job.key, error)
            asyncio.get_running_loop().call_later(self._retry_s, self._look_again, job.uid)

    def _look_again(self, uid: str) -> None:
        self._book.look_again(uid)
        self._news.set()

    async def _create(self, job: LooseObject, pod: Json) -> None:
        path = PODS.object_path(job.metadata.namespace, "").rstrip("/")
        try:
            # Not repeated: a pod whose answer was lost is found by the watch.
            made = await self._client.create(path, pod)
        except KubeError as error:
            message = f"Error creating: {error.message}"
            await self._record(job, JobEvent("Warning", "FailedCreate", message))
            raise
        found = msgspec.convert(made, LooseObject)
        self._book.pod_created(found, asyncio.get_running_loop().time())
        event = JobEvent("Normal", "SuccessfulCreate", f"Created pod: {found.metadata.name}")
        await self._record(job, event)

    async def _delete(self, pod: LooseObject) -> None:
        path = PODS.object_path(pod.metadata.namespace, pod.metadata.name)
        try:
            await persist(partial(self._client.delete, path, uid=pod.uid))
        except KubeError as error:
            if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
                raise

    async def _record(self, job: LooseObject, event: JobEvent) -> None:
        """Write an event; without it the Job goes on all the same."""
        now, metadata = self._clock(), job.metadata
        involved = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "namespace": metadata.namespace,
            "name": metadata.name,
            "uid": metadata.uid,
        }
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{metadata.name}.", "namespace": metadata.namespace},
            "involvedObject": involved,
            "type": event.type,
            "reason": event.reason,
            "message": event.message,
            "source": {"component": "job-controller"},
            "firstTimestamp": timestamp(now),
            "lastTimestamp": timestamp(now),
            "count": 1,
        }
        try:
            await self._client.create(f"/api/v1/namespaces/{metadata.namespace}/events", body)
        except KubeFailure as error:
            _log.warning("event %s of job %s: %s", event.reason, job.key, error)


class GarbageCollector:
    """Deletes what no longer has an owner."""

    def __init__(
        self,
        client: KubeClient,
        kinds: Iterable[Kind] = (PODS, JOBS),
        *,
        retry_s: float = RETRY_S,
    ) -> None:
        """Only objects of these kinds are watched, as owners and as what is owned."""
        self._client = client
        self._retry_s = retry_s
        self._kinds = tuple(kinds)
        self._garbage = Garbage(self._kinds)
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind in self._kinds:
                group.create_task(listen(self._client, kind.path, self._listener(kind)))
            group.create_task(self._work(group))

    def _listener(self, kind: Kind) -> Listener:
        return Listener(
            listed=lambda found: self._garbage.listed(kind, found.items),
            seen=partial(self._garbage.seen, kind),
            gone=self._garbage.gone,
            news=self._news.set,
        )

    async def _work(self, group: asyncio.TaskGroup) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            for work in self._garbage.work():
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
            # Gone already, another object by now, or changed meanwhile: the watch will tell.
            if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
                _log.warning("%s: %s", work.path, error)
                asyncio.get_running_loop().call_later(self._retry_s, self._look_again, work.uid)

    async def _delete(self, path: str, uid: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            # Jobs would leave their pods behind if it were not said.
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
            self._garbage.owner_absent(uid)
            self._news.set()

    def _look_again(self, uid: str) -> None:
        self._garbage.look_again(uid)
        self._news.set()
