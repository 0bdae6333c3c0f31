"""Due times: what the parts of the machine wait for, and values with times, in seconds."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

T = TypeVar("T")

#: How many entries of the heap there may be for each alarm before those that are over are dropped.
_MOST_ENTRIES = 8


class Alarms:
    """One heap of (when, alarm): `next_at` is the first time at which any part has work.

    Alarms are set often and are seldom due, so that an entry of an alarm that was set anew stays
    until it is the first one; it is over, and counts no more.
    """

    __slots__ = ("_alarms", "_heap", "next_at")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int]] = []
        self._alarms: list[Alarm] = []
        #: When (s) the first alarm is due; infinity if none is set.
        self.next_at = math.inf

    def add(self) -> "Alarm":
        """A further alarm, which is not set."""
        alarm = Alarm(self, len(self._alarms))
        self._alarms.append(alarm)
        return alarm

    def was_set(self, alarm: "Alarm") -> None:
        """Take in an alarm's new time; called by the alarm alone."""
        heap, alarms = self._heap, self._alarms
        if alarm.at != math.inf:
            heappush(heap, (alarm.at, alarm.number))
        if len(heap) > _MOST_ENTRIES * len(alarms):
            heap[:] = [(one.at, one.number) for one in alarms if one.at != math.inf]
            heapify(heap)
        while heap and alarms[heap[0][1]].at != heap[0][0]:
            heappop(heap)
        self.next_at = heap[0][0] if heap else math.inf


class Alarm:
    """When (s) one part has something to do by time alone; infinity if it waits for nothing."""

    __slots__ = ("_alarms", "at", "number")

    def __init__(self, alarms: Alarms, number: int) -> None:
        self._alarms = alarms
        self.number = number
        self.at = math.inf

    def set(self, when: float) -> None:
        """The part waits for this time now, and for no other; infinity: for none."""
        if when != self.at:
            self.at = when
            self._alarms.was_set(self)


class Timers(Generic[T]):
    """Values with due times. An entry cannot be cancelled: its reader knows whether it counts.

    The time of the first one is an alarm among `alarms`.
    """

    __slots__ = ("_count", "_heap", "alarm")

    def __init__(self, alarms: Alarms) -> None:
        self._heap: list[tuple[float, int, T]] = []
        self._count = 0
        #: When the next one is due; to be read.
        self.alarm = alarms.add()

    def add(self, when: float, what: T) -> None:
        """Add a value that `due` returns from `when` (s) on."""
        self._count += 1
        heappush(self._heap, (when, self._count, what))
        if when < self.alarm.at:
            self.alarm.set(when)

    def due(self, now: float) -> list[T]:
        """Remove and return all due values, the earliest first."""
        found: list[T] = []
        if self.alarm.at > now:
            return found
        while self._heap and self._heap[0][0] <= now:
            found.append(heappop(self._heap)[2])
        self.alarm.set(self._heap[0][0] if self._heap else math.inf)
        return found

    def each_due(self, now: float) -> Iterator[T]:
        """Yield due values one by one; the rest stays if the caller stops."""
        while self.alarm.at <= now:
            _, _, what = heappop(self._heap)
            self.alarm.set(self._heap[0][0] if self._heap else math.inf)
            yield what


@dataclass(frozen=True, slots=True)
class QueueBackoff:
    """Pauses that double, in seconds; kube-scheduler's defaults."""

    initial_s: float = 1.0
    longest_s: float = 10.0

    def after(self, tries: int) -> float:
        """Seconds to wait after the tries-th failure."""
        return min(self.longest_s, self.initial_s * (1 << min(max(tries - 1, 0), 32)))


#: kube-scheduler's.
BACKOFF = QueueBackoff()


def backoff_s(tries: int) -> float:
    """Seconds to wait after the tries-th failure: 1 doubling to 10, as kube-scheduler."""
    return BACKOFF.after(tries)
