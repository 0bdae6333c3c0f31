"""Performs the scheduler's effects in Kubernetes: Bindings at once, other writes in lanes."""

import asyncio
import datetime
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import assert_never

from kubeshare_py.dialects.dialects import SHAREDGPU_ALONE, Dialects
from kubeshare_py.dialects.hami.annotations import write_lock
from kubeshare_py.domain.effects import (
    Bind,
    Evict,
    Nominate,
    Preempt,
    ReportCardChange,
    ReportEffect,
    ReportOvercommit,
    ReportPodWarning,
    ReportScheduled,
    ReportWaiting,
    WriteObject,
)
from kubeshare_py.domain.events import (
    OF_ONE_TRY,
    BindAnswered,
    BindOutcome,
    BindRefused,
    BindUnknown,
    Bound,
    EvictionFailed,
    ObjectWritten,
    Refusal,
    WriteOutcome,
)
from kubeshare_py.domain.identity import PodKey, PodUid
from kubeshare_py.domain.storage import LockNode, ObjectWrite, ReserveDevices
from kubeshare_py.edges.kube.client import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, KubeClient
from kubeshare_py.edges.kube.errors import KubeError, KubeFailure
from kubeshare_py.edges.scheduler.writes.failed_writes import FailedWrites, Write
from kubeshare_py.edges.scheduler.writes.report_lane import ReportLane
from kubeshare_py.manifests.api_paths import node_path, pod_path
from kubeshare_py.manifests.binding import (
    Doubt,
    annotation_problem,
    binding_annotations,
    binding_body,
    read_outcome,
    read_refusal,
)
from kubeshare_py.manifests.node import TEST_FAILED, lock_patch
from kubeshare_py.manifests.reports import disruption_patch, nomination_patch
from kubeshare_py.manifests.resource_claims import claim_patches, claim_path, version_in
from kubeshare_py.manifests.volumes import read_write_error, write_patch, write_path

# Writes to objects before pods are bound, a few at once: the pods' namespaces take turns.
#
# A namespace may have a hundred such writes, and Bindings that are decided next should not be
# behind them.


# A semaphore on which namespaces take turns: one namespace's queue hardly delays another's.


class FairSemaphore:
    """At most `at_once` turns at a time; those of one namespace begin in the order of requests."""

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        #: Waiting turns by namespace, the next namespace first; no queue is empty.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def slot(self, namespace: str) -> AsyncIterator[None]:
        """Wait for a turn of this namespace, which lasts while entered."""
        if self._free:
            self._free -= 1
        else:
            called = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(namespace, deque()).append(called)
            try:
                await called
            except asyncio.CancelledError:
                if not called.cancelled():
                    self._call_next()
                raise
        try:
            yield
        finally:
            self._call_next()

    def _call_next(self) -> None:
        """Give a turn that ended to the next namespace."""
        while self._waiting:
            namespace = next(iter(self._waiting))
            line = self._waiting.pop(namespace)
            called = line.popleft()
            if line:
                self._waiting[namespace] = line
            if not called.done():
                called.set_result(None)
                return
        self._free += 1


#: The most writes at the same time.
OBJECTS_AT_ONCE = 8
OBJECT_TIMEOUT_S = 6.0


class ObjectLane:
    """Sends writes, each once; the caller repeats those of unknown outcome."""

    def __init__(
        self, client: KubeClient, failures: FailedWrites, *, at_once: int = OBJECTS_AT_ONCE
    ) -> None:
        """At most `at_once` writes are sent at the same time."""
        self._client, self._failures = client, failures
        self._turns = FairSemaphore(at_once)

    async def write(self, effect: WriteObject) -> ObjectWritten:
        """Write when the turn comes, and return the outcome.

        Never raises for errors of the server.
        """
        async with self._turns.slot(effect.key.namespace):
            return await self._send(effect)

    async def _send(self, effect: WriteObject) -> ObjectWritten:
        uid, token, write = effect.uid, effect.token, effect.write
        try:
            if isinstance(write, ReserveDevices):
                await self._reserve(write)
            elif isinstance(write, LockNode):
                await self._lock(write)
            else:
                await self._patch(write_path(write), write_patch(write), MERGE_PATCH)
        except KubeFailure as error:
            about = {"pod": str(effect.key), "uid": uid, "object": _path(write)}
            self._failures.failed(Write.OBJECT, error, **about)
            return _not_written(effect, error)
        return ObjectWritten(uid, token, write, WriteOutcome.DONE)

    async def _reserve(self, write: ReserveDevices) -> None:
        """Write to a ResourceClaim and its status, each time to the version that is known."""
        version = write.version
        for patch in claim_patches(write):
            body = patch.body(write.uid, version)
            version = version_in(await self._patch(patch.path, body, STRATEGIC_PATCH))

    async def _lock(self, write: LockNode) -> None:
        """Take the lock of a node, since now."""
        owner = PodKey(write.namespace, write.pod) if write.names_owner else None
        body = lock_patch(write.key, write_lock(time.time(), owner))
        await self._patch(node_path(write.node), body, JSON_PATCH)

    async def _patch(self, path: str, body: bytes, content_type: str) -> bytes:
        answer = await self._client.request(
            "PATCH",
            path,
            body=body,
            content_type=content_type,
            timeout_s=OBJECT_TIMEOUT_S,
            patient=False,
        )
        return answer.body


def _not_written(effect: WriteObject, error: KubeFailure) -> ObjectWritten:
    uid, token, write = effect.uid, effect.token, effect.write
    if not isinstance(error, KubeError):
        return ObjectWritten(uid, token, write, WriteOutcome.UNKNOWN, str(error))
    outcome, pause_s = read_write_error(error.status), error.retry_after_s or 0.0
    if isinstance(write, LockNode) and error.status == TEST_FAILED:
        outcome = WriteOutcome.STALE
    return ObjectWritten(uid, token, write, outcome, error.message, pause_s)


def _path(write: ObjectWrite) -> str:
    if isinstance(write, LockNode):
        return node_path(write.node)
    return claim_path(write) if isinstance(write, ReserveDevices) else write_path(write)


# Sends evictions and nominations beside the Bindings, a few at once.
#
# One plan may evict hundreds of pods, with two writes each. All at once they would be in flight
# before the Bindings that are decided next.


# Evicts a bound pod, with the reason in its condition; and nominates pods.


EVICTION_TIMEOUT_S = 5.0


async def evict(client: KubeClient, effect: Evict, failures: FailedWrites) -> str:
    """Evict once; returns why that failed, "" if it did not.

    Never raises for errors of the server. Callers repeat it if the pod stays.
    """
    path = pod_path(effect.key)
    now = datetime.datetime.now(tz=datetime.UTC)
    try:
        await client.request(
            "PATCH",
            f"{path}/status",
            body=disruption_patch(effect.uid, effect.reason, effect.message, now),
            content_type=STRATEGIC_PATCH,
            timeout_s=EVICTION_TIMEOUT_S,
            patient=False,
        )
        await client.delete(path, uid=effect.uid)
    except KubeFailure as error:
        failures.failed(Write.EVICTION, error, pod=str(effect.key), uid=effect.uid)
        return str(error)
    return ""


async def nominate(client: KubeClient, effect: Nominate, failures: FailedWrites) -> None:
    """Nominate once; never raises for errors of the server. The place is kept in any case."""
    path = pod_path(effect.key)
    try:
        await client.request(
            "PATCH",
            f"{path}/status",
            body=nomination_patch(effect.uid, effect.node, effect.cards),
            content_type=MERGE_PATCH,
            timeout_s=EVICTION_TIMEOUT_S,
            patient=False,
        )
    except KubeFailure as error:
        failures.failed(Write.NOMINATION, error, pod=str(effect.key), uid=effect.uid)


#: The most pods that are written to at the same time.
EVICTIONS_AT_ONCE = 4


class EvictionLane:
    """The preemptors' namespaces take turns, so that none waits long for another."""

    def __init__(
        self, client: KubeClient, failures: FailedWrites, *, at_once: int = EVICTIONS_AT_ONCE
    ) -> None:
        """At most `at_once` pods are written to at the same time."""
        self._client, self._failures = client, failures
        self._turns = FairSemaphore(at_once)
        self._evicting: set[PodUid] = set()

    async def evict(self, effect: Evict, is_wanted: Callable[[], bool]) -> str:
        """Evict the pod, if that is still wanted when its turn comes.

        Returns why that failed, "" if it did not. Does nothing while an eviction of the same pod
        waits or is sent.
        """
        if effect.uid in self._evicting:
            return ""
        self._evicting.add(effect.uid)
        try:
            async with self._turns.slot(effect.on_behalf_of):
                return await evict(self._client, effect, self._failures) if is_wanted() else ""
        finally:
            self._evicting.discard(effect.uid)

    async def nominate(self, effect: Nominate) -> None:
        """Nominate the pod, or clear its nomination."""
        async with self._turns.slot(effect.key.namespace):
            await nominate(self._client, effect, self._failures)


# Performs the scheduler's effects in Kubernetes: binds at once, reports behind them.


#: The server gives up after this long (s), so that a late write cannot surprise a new leader.
SERVER_TIMEOUT_S = 5
CLIENT_TIMEOUT_S = 6.0
#: Seconds after a leader's last moment after which none of its Bindings is stored any more.
HAND_OVER_S = SERVER_TIMEOUT_S + 1.0


class KubeApi:
    """Performs effects against one API server."""

    def __init__(
        self,
        client: KubeClient,
        reports: ReportLane,
        *,
        fence: Callable[[], str] = lambda: "",
        dialects: Dialects = SHAREDGPU_ALONE,
    ) -> None:
        """`fence` gives this process's term of leadership for each Binding, "" for none."""
        self._dialects = dialects
        self._client = client
        self._reports = reports
        #: Of all writes.
        self.failures = reports.failures
        self._evictions = EvictionLane(client, self.failures)
        self._objects = ObjectLane(client, self.failures)
        self._fence = fence
        #: Unix time less the machine's time, which is the loop's: read once, so that a Binding that
        #: is sent again is the same one.
        self._unix_offset_s: float | None = None

    async def bind(self, bind: Bind) -> BindAnswered:
        """Send one Binding, once, and return its outcome; never raises for errors of the server.

        The caller resolves an unknown outcome by the same Bind again. A condition of this pod that
        is being written is waited for, and no further one is begun until the Binding is answered:
        `PodScheduled` must end as the API server sets it, True.
        """
        if self._unix_offset_s is None:
            self._unix_offset_s = time.time() - asyncio.get_running_loop().time()
        of_dialect = self._dialects.results(bind.allocation, bind.decided, self._unix_offset_s)
        if isinstance(of_dialect, str):
            return _answered(bind, await self._refused(bind, Refusal.INVALID, of_dialect))
        annotations = binding_annotations(bind, self._fence(), of_dialect)
        labels = self._dialects.labels(bind.allocation, of_dialect)
        problem = annotation_problem(annotations)
        if problem:
            outcome = await self._refused(bind, Refusal.INVALID, problem)
        else:
            async with self._reports.hold_back(bind.uid):
                outcome = await self._send(bind, binding_body(bind, annotations, labels))
        return _answered(bind, outcome)

    async def evict(self, effect: Evict, is_wanted: Callable[[], bool]) -> EvictionFailed | None:
        """Report and delete the pod, if the server allows it; else return that it failed.

        Never raises for errors of the server.

        `is_wanted` is called when its turn comes.
        """
        self._reports.evicted(effect)
        answer = await self._evictions.evict(effect, is_wanted)
        return EvictionFailed(effect.uid, answer) if answer else None

    async def nominate(self, effect: Nominate) -> None:
        """Nominate the pod; never raises for errors of the server."""
        await self._evictions.nominate(effect)

    async def write(self, effect: WriteObject) -> ObjectWritten:
        """Write to an object, once, and return the outcome; never raises for errors of the server.

        The caller resolves an unknown outcome by the same write again.
        """
        return await self._objects.write(effect)

    def preempting(self, effect: Preempt) -> None:
        """Hand a plan that begins to the low-priority lane; returns at once."""
        self._reports.preempting(effect)

    def report(self, effect: ReportEffect) -> None:
        """Hand a report to the low-priority lane; returns at once."""
        match effect:
            case ReportWaiting():
                self._reports.waiting(effect)
            case ReportScheduled():
                self._reports.scheduled(effect)
            case ReportPodWarning():
                self._reports.warning(effect)
            case ReportOvercommit():
                self._reports.overcommit(effect)
            case ReportCardChange():
                self._reports.card_changed(effect)
            case _:
                assert_never(effect)

    def write_condition_only(self, report: ReportWaiting) -> None:
        """Write a condition alone, so that the scheduler that has the pod sees an update of it."""
        self._reports.condition(report)

    async def _send(self, bind: Bind, body: bytes) -> BindOutcome:
        try:
            await self._client.request(
                "POST",
                f"{pod_path(bind.key)}/binding?timeout={SERVER_TIMEOUT_S}s",
                body=body,
                timeout_s=CLIENT_TIMEOUT_S,
            )
        except KubeFailure as error:
            outcome = await self._judge(bind, error)
            self._note(bind, outcome, error)
            return outcome
        return Bound()

    async def _judge(self, bind: Bind, error: KubeFailure) -> BindOutcome:
        if not isinstance(error, KubeError):
            return BindUnknown(str(error))
        kind, is_status = error.details_kind, error.is_status
        found = read_refusal(error.status, error.reason, kind, error.message, is_status=is_status)
        if isinstance(found, Refusal):
            return await self._refused(bind, found, str(error))
        if found is Doubt.AGAIN:
            return BindUnknown(str(error), error.retry_after_s or 0.0)
        refused = Refusal.DELETING if found is Doubt.LEAVES else None
        return await self._look(bind, str(error), refused)

    async def _refused(self, bind: Bind, refusal: Refusal, answer: str) -> BindOutcome:
        """What follows from the refusal of this try, given that it may not have been the first.

        The server may still store an earlier one for as long as it works on a Binding at most.
        """
        if bind.in_doubt_since is None or refusal not in OF_ONE_TRY:
            return BindRefused(refusal, answer)
        left_s = bind.in_doubt_since + HAND_OVER_S - asyncio.get_running_loop().time()
        found = await self._look(bind, answer, None if left_s > 0 else refusal)
        is_open = isinstance(found, BindUnknown) and left_s > 0
        return BindUnknown(answer, HAND_OVER_S) if is_open else found

    async def _look(self, bind: Bind, answer: str, refused: Refusal | None = None) -> BindOutcome:
        """Read the pod, consistently, to see whose placement it has; see `read_outcome`."""
        try:
            pod = await self._client.request(
                "GET", pod_path(bind.key), timeout_s=CLIENT_TIMEOUT_S, patient=False
            )
        except KubeError as failure:
            if failure.status == HTTPStatus.NOT_FOUND and failure.details_kind == "pods":
                return BindRefused(Refusal.GONE, failure.message)
            return BindUnknown(f"{answer}; reading the pod: {failure}")
        except KubeFailure as failure:
            return BindUnknown(f"{answer}; reading the pod: {failure}")
        return read_outcome(pod.body, bind, answer, refused)

    def _note(self, bind: Bind, outcome: BindOutcome, error: KubeFailure) -> None:
        """Log and count the failure, unless the pod turns out to be bound, or is about to go."""
        if isinstance(outcome, BindRefused):
            if outcome.refusal in (Refusal.GONE, Refusal.DELETING):
                return
            word: str = outcome.refusal
        elif isinstance(outcome, BindUnknown):
            word = "unknown"
        else:
            return
        about = {"pod": str(bind.key), "uid": bind.uid, "node": bind.node, "outcome": word}
        self.failures.failed(Write.BINDING, error, **about)


def _answered(bind: Bind, outcome: BindOutcome) -> BindAnswered:
    return BindAnswered(bind.uid, bind.allocation.token, outcome)
