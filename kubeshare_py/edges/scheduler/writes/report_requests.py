"""What is to be reported of pods: conditions and events, as they wait, and as requests."""

import datetime
import heapq
import itertools
from dataclasses import dataclass
from http import HTTPStatus
from typing import Generic, TypeVar

from kubeshare_py.domain.diagnosis import Diagnosis, WaitingReason
from kubeshare_py.domain.effects import ReportWaiting
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.printable import printable
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.edges.kube.client import MERGE_PATCH, STRATEGIC_PATCH, KubeClient
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.edges.kube.transport import JSON
from kubeshare_py.manifests.api_paths import collection_path, object_path, pod_path
from kubeshare_py.manifests.reports import (
    SCHEDULED,
    PublishedCondition,
    Regarding,
    ReportedEvent,
    event_body,
    read_published,
    series_patch,
    waiting_patch,
)

# A queue of values with due times; a new value of a key replaces the old one.


K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class _DueEntry(Generic[V]):
    value: V
    due: float
    number: int


class DueQueue(Generic[K, V]):
    """Values by key, in the order of their due times; a key in work is not taken.

    Times are seconds of the caller's `now`.
    """

    def __init__(self) -> None:
        self._queued: dict[K, _DueEntry[V]] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._taken: set[K] = set()
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._queued)

    def __contains__(self, key: K) -> bool:
        return key in self._queued

    def peek(self, key: K) -> V | None:
        """The queued value of a key, or None."""
        entry = self._queued.get(key)
        return None if entry is None else entry.value

    def put(self, key: K, value: V, due: float) -> None:
        """Queue a value, in place of an earlier one of this key; the earlier due time counts."""
        entry = self._queued.get(key)
        if entry is not None and entry.due <= due:
            entry.value = value
            return
        number = next(self._numbers)
        self._queued[key] = _DueEntry(value, due, number)
        heapq.heappush(self._heap, (due, number, key))

    def discard(self, key: K) -> None:
        """Drop a key's queued value; work on it goes on."""
        self._queued.pop(key, None)

    def drop_oldest(self) -> K | None:
        """Remove the key that was queued first."""
        key = next(iter(self._queued), None)
        if key is not None:
            del self._queued[key]
        return key

    def take(self, now: float) -> tuple[K, V] | None:
        """A value that is due and not in work; `done` must follow."""
        due = self.next_due()
        if due is None or due > now:
            return None
        _, _, key = heapq.heappop(self._heap)
        self._taken.add(key)
        return key, self._queued.pop(key).value

    def is_taken(self, key: K) -> bool:
        """Whether this key is in work."""
        return key in self._taken

    def done(self, key: K) -> None:
        """The work on this key is done."""
        self._taken.discard(key)
        entry = self._queued.get(key)
        if entry is not None:
            heapq.heappush(self._heap, (entry.due, entry.number, key))

    def next_due(self) -> float | None:
        """When `take` may next return something; in the past if something is due."""
        while self._heap:
            due, number, key = self._heap[0]
            entry = self._queued.get(key)
            if entry is not None and entry.number == number and key not in self._taken:
                return due
            # Replaced, dropped, or queued again by `done`.
            heapq.heappop(self._heap)
        return None


# What is to be reported of pods: conditions and events, as they wait, and as requests.


# Which pods' conditions to write, and when: the newest text, not too often, never twice.


#: A new text of the same set of reasons is written at most this often (s).
SPACING_S = 10.0
#: Seconds without a report after which a pod's known condition is dropped; it is read again when
#: needed.
FORGET_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _LastCondition:
    reasons: frozenset[str]
    message: str
    reason: WaitingReason
    at: float
    is_long: bool

    def shows(self, diagnosis: Diagnosis) -> bool:
        return self.message == message_of(diagnosis) and self.reason is diagnosis.reason


@remembered(1024)
def message_of(diagnosis: Diagnosis) -> str:
    """The text of a diagnosis; thousands of pods with equal diagnoses share one string."""
    return printable(diagnosis.message)


class ConditionQueue:
    """Pods whose waiting is to be reported, and their last written conditions."""

    def __init__(self) -> None:
        self.queue: DueQueue[PodUid, ReportWaiting] = DueQueue()
        self._published: dict[PodUid, _LastCondition] = {}

    def report(self, report: ReportWaiting, now: float) -> None:
        """Queue a report in place of an earlier one, unless the pod shows it already."""
        published = self._published.get(report.uid)
        due = now
        if published is not None and not self.queue.is_taken(report.uid):
            if published.shows(report.diagnosis):
                self.queue.discard(report.uid)
                return
            same = published.reason is report.diagnosis.reason
            if same and published.reasons == report.diagnosis.reasons:
                due = max(now, published.at + SPACING_S)
        self.queue.put(report.uid, report, due)

    def is_known(self, uid: PodUid) -> bool:
        """Whether this process wrote or read the pod's condition lately: it is False."""
        return uid in self._published

    def is_long(self, uid: PodUid) -> bool:
        """Whether the pod is known to be a long one."""
        published = self._published.get(uid)
        return published is not None and published.is_long

    def reported(self, report: ReportWaiting, now: float, *, is_long: bool = False) -> None:
        """The condition was written, on a pod that is long or not."""
        self._published[report.uid] = _LastCondition(
            reasons=report.diagnosis.reasons,
            message=message_of(report.diagnosis),
            reason=report.diagnosis.reason,
            at=now,
            is_long=is_long,
        )
        self._finish(report.uid, now)

    def failed(self, report: ReportWaiting, now: float, delay_s: float) -> None:
        """Try a report that was not written again after `delay_s`, unless a newer one came."""
        self.queue.done(report.uid)
        if report.uid not in self.queue:
            self.queue.put(report.uid, report, now + delay_s)

    def gone(self, uid: PodUid) -> None:
        """The pod does not wait any more."""
        self.queue.done(uid)
        self.withdraw(uid)

    def withdraw(self, uid: PodUid) -> None:
        """Drop the queued report: the pod is being bound."""
        self.queue.discard(uid)
        self._published.pop(uid, None)

    def tick(self, now: float) -> None:
        """Drop pods without a recent report; about once a minute."""
        old = [uid for uid, published in self._published.items() if now - published.at >= FORGET_S]
        for uid in old:
            if uid not in self.queue:
                del self._published[uid]

    def _finish(self, uid: PodUid, now: float) -> None:
        """Reschedule a newer report, whose time depends on what was just written."""
        self.queue.done(uid)
        newer = self.queue.peek(uid)
        if newer is not None:
            self.queue.discard(uid)
            self.report(newer, now)


# Which events to write, and when: repeated ones become a series, as in client-go's recorder.
#
# The first occurrence is created, the second makes it a series, and later ones are only counted and
# written at intervals; the text is not part of an event's identity (client-go
# tools/events/event_broadcaster.go).


#: Seconds between writes of a continuing series, and until an idle one is closed.
REFRESH_S, CLOSE_S = 1800.0, 360.0
MAX_QUEUED = 10_000
ATTEMPTS = 12

#: The event's object, and its reason.
EventKey = tuple[Regarding, str]


@dataclass(slots=True, kw_only=True)
class RepeatedEvent:
    """One event and its count. `created` and `written` (a count) are the server's state."""

    event: ReportedEvent
    count: int = 1
    last: datetime.datetime
    last_now: float
    created: bool = False
    written: int = 0
    written_now: float = 0.0
    attempts: int = 0
    closing: bool = False


class EventSeries:
    """All events of the last minutes; `queue` has the keys of those to be written.

    `dropped` counts events that were given up: the queue was full, or the server refused them.
    """

    def __init__(self, *, most_queued: int = MAX_QUEUED) -> None:
        self.queue: DueQueue[EventKey, RepeatedEvent] = DueQueue()
        self.dropped = 0
        self._most_queued = most_queued
        self._series: dict[EventKey, RepeatedEvent] = {}

    def __len__(self) -> int:
        return len(self._series)

    def occurred(self, event: ReportedEvent, now: float) -> None:
        """Count an occurrence, and queue what must be written."""
        key = (event.regarding, event.reason)
        series = self._series.get(key)
        if series is None or series.closing:
            series = RepeatedEvent(event=event, last=event.at, last_now=now)
            self._series[key] = series
            self._put(key, series, now)
            return
        series.count += 1
        series.last, series.last_now = event.at, now
        if series.created and series.written == 1 and not self.queue.is_taken(key):
            self._put(key, series, now)

    def withdraw(self, about: Regarding, reason: str) -> None:
        """Do not create an event that is only queued, because a newer one says more."""
        series = self._series.get((about, reason))
        if series is not None and not series.created:
            self.queue.discard((about, reason))
            del self._series[about, reason]

    def tick(self, now: float) -> None:
        """Queue the counts of continuing series, and close idle ones; about once a minute."""
        for key, series in list(self._series.items()):
            if key in self.queue or self.queue.is_taken(key):
                continue
            stale = series.written != series.count
            if now - series.last_now >= CLOSE_S:
                if stale:
                    series.closing = True
                    self._put(key, series, now)
                else:
                    del self._series[key]
            elif stale and now - series.written_now >= REFRESH_S:
                self._put(key, series, now)

    def written(self, key: EventKey, series: RepeatedEvent, count: int, now: float) -> None:
        """The server has the event, with `count` occurrences."""
        self.queue.done(key)
        series.created, series.written, series.written_now, series.attempts = True, count, now, 0
        if series.event.reason == SCHEDULED or series.closing:
            # A pod is bound once: there is no second occurrence to count.
            self._forget(key, series)
        elif count == 1 < series.count:
            self._put(key, series, now)

    def failed(self, key: EventKey, series: RepeatedEvent, now: float, delay_s: float) -> None:
        """Try an event that was not written again after `delay_s`, a few times."""
        self.queue.done(key)
        series.attempts += 1
        if series.attempts >= ATTEMPTS:
            self._give_up(key, series)
        elif self._series.get(key) is series:
            self.queue.put(key, series, now + delay_s)

    def refused(self, key: EventKey, series: RepeatedEvent) -> None:
        """The server will never accept it."""
        self.queue.done(key)
        self._give_up(key, series)

    def _put(self, key: EventKey, series: RepeatedEvent, now: float) -> None:
        self.queue.put(key, series, now)
        if len(self.queue) > self._most_queued:
            oldest = self.queue.drop_oldest()
            if oldest is not None:
                self.dropped += 1
                self._series.pop(oldest, None)

    def _give_up(self, key: EventKey, series: RepeatedEvent) -> None:
        self.dropped += 1
        self._forget(key, series)

    def _forget(self, key: EventKey, series: RepeatedEvent) -> None:
        if self._series.get(key) is series:
            del self._series[key]


# The requests of the report lane: a pod's condition read and patched, an event written.


#: Short, because a bind of the pod waits for a patch under way.
TIMEOUT_S = 5.0
EVENTS = "/apis/events.k8s.io/v1"


async def read_condition(client: KubeClient, report: ReportWaiting) -> PublishedCondition | None:
    """Read the pod's condition; None if it does not wait (any more)."""
    path = pod_path(report.key)
    answer = await client.request("GET", path, timeout_s=TIMEOUT_S, patient=False)
    return read_published(answer.body, report.uid)


async def patch_condition(
    client: KubeClient,
    report: ReportWaiting,
    changed: datetime.datetime | None,
    version: str = "",
) -> None:
    """Write the condition; `changed` is when its status changed, None if it did not.

    With a `version`, only to that version of the pod (else 409).
    """
    await client.request(
        "PATCH",
        f"{pod_path(report.key)}/status",
        body=waiting_patch(
            report.uid, message_of(report.diagnosis), changed, report.diagnosis.reason, version
        ),
        content_type=STRATEGIC_PATCH,
        timeout_s=TIMEOUT_S,
        patient=False,
    )


async def send_event(client: KubeClient, series: RepeatedEvent, count: int, instance: str) -> None:
    """Create an event, or write the count of one that exists."""
    event = series.event
    if series.created:
        patch = series_patch(count, series.last)
        try:
            path = object_path(EVENTS, "events", event.name, event.namespace)
            await _send(client, "PATCH", path, patch, MERGE_PATCH)
            return
        except KubeError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
        # Its time to live has ended: it is created again, with the count.
    path = collection_path(EVENTS, "events", event.namespace)
    try:
        await _send(client, "POST", path, event_body(event, instance, count, series.last), JSON)
    except KubeError as error:
        # An earlier try may have succeeded although its answer was lost.
        if error.reason != "AlreadyExists":
            raise


async def _send(
    client: KubeClient, method: str, path: str, body: object, content_type: str
) -> None:
    await client.request(
        method, path, body=body, content_type=content_type, timeout_s=TIMEOUT_S, patient=False
    )
