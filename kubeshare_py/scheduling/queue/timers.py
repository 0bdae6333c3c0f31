"""Values with due times: a heap of (when, what), in seconds."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Generic, TypeVar

T = TypeVar("T")


class Timers(Generic[T]):
    """Due values. None can be cancelled: the reader knows whether an entry still counts."""

    __slots__ = ("_count", "_heap", "next_at")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, T]] = []
        self._count = 0
        #: When (s) the next one is due; infinity if there is none.
        self.next_at = math.inf

    def add(self, when: float, what: T) -> None:
        """Return `what` from `due` at `when` (s)."""
        self._count += 1
        heappush(self._heap, (when, self._count, what))
        self.next_at = self._heap[0][0]

    def due(self, now: float) -> list[T]:
        """Remove and return all due values, the earliest first."""
        return list(self.each_due(now))

    def each_due(self, now: float) -> Iterator[T]:
        """Yield due values one by one; the rest stays if the caller stops."""
        while self.next_at <= now:
            _, _, what = heappop(self._heap)
            self.next_at = self._heap[0][0] if self._heap else math.inf
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
