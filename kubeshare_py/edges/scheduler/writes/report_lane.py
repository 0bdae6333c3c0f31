"""The low-priority lane: conditions and events, written behind the binds."""

import asyncio
import contextlib
import datetime
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from http import HTTPStatus

from kubeshare_py.domain.effects import (
    Evict,
    Preempt,
    ReportCardChange,
    ReportOvercommit,
    ReportPodWarning,
    ReportScheduled,
    ReportWaiting,
)
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeError, KubeFailure
from kubeshare_py.edges.scheduler.writes.failed_writes import FailedWrites, Write
from kubeshare_py.edges.scheduler.writes.report_requests import (
    ConditionQueue,
    EventKey,
    EventSeries,
    RepeatedEvent,
    message_of,
    patch_condition,
    read_condition,
    send_event,
)
from kubeshare_py.manifests.reports import (
    FAILED_SCHEDULING,
    OVERUSE_ENDED,
    PREEMPTING,
    SCHEDULED,
    Regarding,
    ReportedEvent,
    card_note,
    held_card_note,
    preempting_note,
    regarding_part,
    regarding_pod,
    scheduled_note,
)

WORKERS = 4
#: The most waiting events of bound pods; about 200 bytes each.
MAX_SCHEDULED = 100_000
#: While binds are in flight, each worker still does one thing per this time (s).
PATIENCE_S = 1.0
#: From how many bytes of JSON on a pod is long. To write one line on a pod of 600 KB takes the API
#: server .2 s of CPU; such pods are written one after the other, with a pause as long as each took.
LONG_BYTES = 64 << 10
TICK_S = 60.0
RETRY_FIRST_S, RETRY_LONGEST_S = 1.0, 60.0


def _utc_now() -> datetime.datetime:
    return datetime.datetime.now(tz=datetime.UTC)


class ReportLane:
    """Reports to owners and operators what happens to their pods and cards.

    Reports are handed over without waiting; `run` writes them. Binds are sent within `hold_back`,
    by which the lane knows when to pause.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        instance: str,
        workers: int = WORKERS,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], datetime.datetime] = _utc_now,
    ) -> None:
        """`instance` names this process in events; `clock` gives UTC."""
        self._client = client
        #: Of all writes of this process.
        self.failures = FailedWrites(client.contact)
        self._instance = instance
        self._workers = workers
        self._patience_s = patience_s
        self._clock = clock
        self._conditions = ConditionQueue()
        self._events = EventSeries()
        #: Bound pods with their times; their events are made when nothing else is to be done.
        self._scheduled: deque[tuple[ReportScheduled, datetime.datetime]] = deque()
        self._dropped = 0
        self._binding: set[PodUid] = set()
        self._patching: dict[PodUid, asyncio.Event] = {}
        self._long: asyncio.Queue[ReportWaiting] = asyncio.Queue()
        self._no_binds = asyncio.Event()
        self._no_binds.set()
        self._wakeup = asyncio.Event()
        self._failures = 0

    @property
    def dropped(self) -> int:
        """Events given up so far, because too many waited or the server refused them."""
        return self._events.dropped + self._dropped

    @property
    def queued(self) -> int:
        """Conditions and events that wait to be written."""
        return len(self._conditions.queue) + len(self._events.queue) + len(self._scheduled)

    def waiting(self, report: ReportWaiting) -> None:
        """Take a report that a pod waits; a newer one replaces it until it is written."""
        now = self._now()
        self._conditions.report(report, now)
        note = message_of(report.diagnosis)
        self._occurred(regarding_pod(report.uid, report.key), FAILED_SCHEDULING, note, now)

    def condition(self, report: ReportWaiting) -> None:
        """Take a report for the condition alone, which another scheduler has written meanwhile."""
        self._conditions.withdraw(report.uid)
        self._conditions.report(report, self._now())
        self._wakeup.set()

    def scheduled(self, report: ReportScheduled) -> None:
        """Take a report that a pod was bound; it replaces those of its waiting."""
        self._conditions.withdraw(report.uid)
        self._events.withdraw(regarding_pod(report.uid, report.key), FAILED_SCHEDULING)
        self._scheduled.append((report, self._clock()))
        if len(self._scheduled) > MAX_SCHEDULED:
            self._scheduled.popleft()
            self._dropped += 1
        self._wakeup.set()

    def warning(self, report: ReportPodWarning) -> None:
        """Take a report of a bound pod's problem."""
        about = regarding_pod(report.uid, report.key)
        self._occurred(about, report.warning, report.note, self._now())

    def evicted(self, effect: Evict) -> None:
        """Take a report that a pod is evicted."""
        about = regarding_pod(effect.uid, effect.key)
        self._occurred(about, effect.event, effect.note or effect.message, self._now())

    def preempting(self, effect: Preempt) -> None:
        """Take a report that a pod, or the first pod of a gang, gets the place of others."""
        if effect.plan.victims:
            about = regarding_pod(effect.uid, effect.key)
            self._occurred(about, PREEMPTING, preempting_note(effect.plan), self._now())

    def overcommit(self, report: ReportOvercommit) -> None:
        """Take a report that pods overuse a part of a node, or no longer do."""
        reason = report.kind if report.is_over else OVERUSE_ENDED[report.kind]
        about = regarding_part(report.node, report.uuid, report.port)
        self._occurred(about, reason, report.note, self._now())

    def card_changed(self, report: ReportCardChange) -> None:
        """Take a report that a card failed, came back or vanished."""
        now = self._now()
        about = regarding_part(report.node, report.uuid)
        self._occurred(about, report.change, card_note(report), now)
        for key, uid in report.pods:
            # A pod may hold several cards: each of them is an event of its own.
            pod = replace(regarding_pod(uid, key), part=report.uuid)
            self._occurred(pod, report.change, held_card_note(report), now)

    @contextlib.asynccontextmanager
    async def hold_back(self, uid: PodUid) -> AsyncIterator[None]:
        """Hold back reports that the pod waits, and pause, while its bind is in flight.

        A condition written from now on would overwrite the one that the API server sets when it
        binds. One that is being written is waited for: the caller goes on once it is answered.
        """
        self._conditions.withdraw(uid)
        self._binding.add(uid)
        self._no_binds.clear()
        try:
            patch = self._patching.get(uid)
            if patch is not None:
                await patch.wait()
            yield
        finally:
            self._binding.discard(uid)
            if not self._binding:
                self._no_binds.set()

    async def run(self) -> None:
        """Write reports, for ever."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(self._work())
            group.create_task(self._work_on_long_pods())
            group.create_task(self._tick())

    async def _work(self) -> None:
        while True:
            await self._stand_back()
            self._wakeup.clear()
            now = self._now()
            condition = self._conditions.queue.take(now)
            if condition is not None:
                await self._report_condition(condition[1])
                continue
            event = self._events.queue.take(now) or self._take_scheduled(now)
            if event is not None:
                await self._write(*event)
                continue
            await self._wait(now)

    async def _stand_back(self) -> None:
        if self._binding:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._patience_s):
                    await self._no_binds.wait()

    async def _wait(self, now: float) -> None:
        dues = (self._conditions.queue.next_due(), self._events.queue.next_due())
        due = min((due for due in dues if due is not None), default=None)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if due is None else max(due - now, 0.0)):
                await self._wakeup.wait()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self._conditions.tick(self._now())
            self._events.tick(self._now())
            self._wakeup.set()

    async def _work_on_long_pods(self) -> None:
        while True:
            report = await self._long.get()
            await self._stand_back()
            began = self._now()
            await self._settle(report, self._read_and_patch(report, has_turn=True), is_long=True)
            await asyncio.sleep(self._now() - began)

    async def _report_condition(self, report: ReportWaiting) -> None:
        """Write one condition, if the pod does not show it already; on a long pod later."""
        await self._settle(report, self._patch_condition(report))

    async def _settle(
        self, report: ReportWaiting, writing: Awaitable[bool | None], *, is_long: bool = False
    ) -> None:
        """Await a write, and take in its outcome; nothing if it goes on elsewhere (None)."""
        try:
            written = await writing
        except KubeFailure as error:
            is_definite = isinstance(error, KubeError) and _is_definite(error)
            if not (isinstance(error, KubeError) and is_definite and error.is_gone):
                about = {"pod": str(report.key), "uid": report.uid}
                self.failures.failed(Write.CONDITION, error, **about)
            if is_definite:
                self._conditions.gone(report.uid)
            else:
                self._conditions.failed(report, self._now(), self._delay_s(error))
            return
        self._failures = 0
        if written:
            self._conditions.reported(report, self._now(), is_long=is_long)
        elif written is not None:
            self._conditions.gone(report.uid)

    async def _patch_condition(self, report: ReportWaiting) -> bool | None:
        """Write the condition; False if it is not needed any more, None if the pod is long."""
        if not self._conditions.is_known(report.uid):
            return await self._read_and_patch(report)
        if self._conditions.is_long(report.uid):
            self._long.put_nowait(report)
            return None
        return await self._patch(report)

    async def _read_and_patch(
        self, report: ReportWaiting, *, has_turn: bool = False
    ) -> bool | None:
        """The same by what the pod shows now.

        The time of the last transition must survive a restart of the scheduler, and a long pod may
        have been bound while it waited for its turn.
        """
        published = await read_condition(self._client, report)
        if published is None:
            return False
        if published.shows(message_of(report.diagnosis), report.diagnosis.reason):
            return True
        if not has_turn and published.pod_bytes >= LONG_BYTES:
            self._long.put_nowait(report)
            return None
        changed = None if published.status_is_false else self._clock()
        return await self._patch(report, changed, published.version)

    async def _patch(
        self, report: ReportWaiting, changed: datetime.datetime | None = None, version: str = ""
    ) -> bool:
        """Patch the pod; False if it is being bound."""
        if report.uid in self._binding:
            return False
        done = self._patching[report.uid] = asyncio.Event()
        try:
            await patch_condition(self._client, report, changed, version)
        finally:
            del self._patching[report.uid]
            done.set()
        return True

    async def _write(self, key: EventKey, series: RepeatedEvent) -> None:
        """Create one event, or write its count."""
        count = series.count
        try:
            await send_event(self._client, series, count, self._instance)
        except KubeFailure as error:
            about = series.event.regarding
            fields = {"kind": about.kind, "name": about.name, "namespace": about.namespace}
            self.failures.failed(Write.EVENT, error, **fields)
            if error.may_pass:
                self._events.failed(key, series, self._now(), self._delay_s(error))
            else:
                self._events.refused(key, series)
            return
        self._failures = 0
        self._events.written(key, series, count, self._now())

    def _occurred(self, about: Regarding, reason: str, note: str, now: float) -> None:
        event = ReportedEvent(regarding=about, reason=reason, note=note, at=self._clock())
        self._events.occurred(event, now)
        self._wakeup.set()

    def _take_scheduled(self, now: float) -> tuple[EventKey, RepeatedEvent] | None:
        """Make the event of the pod that was bound first."""
        while self._scheduled:
            report, at = self._scheduled.popleft()
            about = regarding_pod(report.uid, report.key)
            note = scheduled_note(report)
            event = ReportedEvent(regarding=about, reason=SCHEDULED, note=note, at=at)
            self._events.occurred(event, now)
            if (found := self._events.queue.take(now)) is not None:
                return found
        return None

    def _delay_s(self, error: KubeFailure) -> float:
        """Seconds until a failed write is repeated; longer while all fail."""
        asked_s = error.retry_after_s if isinstance(error, KubeError) else None
        self._failures += 1
        if isinstance(error, KubeError) and error.status == HTTPStatus.FORBIDDEN:
            return RETRY_LONGEST_S
        growing_s = RETRY_FIRST_S * 2.0 ** min(self._failures // self._workers, 10)
        return max(min(growing_s, RETRY_LONGEST_S), asked_s or 0.0)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def _is_definite(error: KubeError) -> bool:
    """Whether the same condition would be refused for ever.

    A missing right may be granted yet, and of conflicts only that of the uid lasts: the server
    answers a patch with 409 when others write the pod at the same time.
    """
    if error.status == HTTPStatus.CONFLICT:
        return "uid" in error.message.lower()
    return not error.may_pass and error.status != HTTPStatus.FORBIDDEN
