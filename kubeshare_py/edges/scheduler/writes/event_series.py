"""Which events to write, and when: repeated ones become a series, as in client-go's recorder.

The first occurrence is created, the second makes it a series, and later ones are only counted and
written at intervals; the text is not part of an event's identity (client-go
tools/events/event_broadcaster.go).
"""

import datetime
from dataclasses import dataclass

from kubeshare_py.edges.process.due_queue import DueQueue
from kubeshare_py.manifests.reports import SCHEDULED, Regarding, ReportedEvent

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
        """It was not written: try again after `delay_s`, a few times."""
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
