"""A queue of values with due times; a new value of a key replaces the old one."""

import heapq
import itertools
from dataclasses import dataclass
from typing import Generic, TypeVar

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
