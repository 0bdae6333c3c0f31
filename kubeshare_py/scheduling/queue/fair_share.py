"""Fair shares of scheduling work, so that no namespace keeps all others waiting.

The cost of an attempt counts toward the namespace of its pods; if it finds a place, only what it
costs above a pod of a known shape. A namespace that has used its share of a round lets all others
pass; a round ends when only such namespaces have anything to try. Within a namespace, and while no
share is used up, the order of the queue holds. A namespace that is alone is not delayed.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Generic, TypeVar

T = TypeVar("T")
#: As `pod_queue.SortKey`.
_Key = tuple[tuple[int | str, ...] | int, ...]

#: The cost that one namespace may use in a round, and the cost of a successful attempt that is not
#: counted: in rows of about 0.4 µs (`framework.evaluation_cost`).
A_SHARE, A_PLACE = 25_000, 1_000
#: Invalid entries are dropped beyond twice the valid ones and this many.
SPARE_ENTRIES = 64
#: The owner of shape queues with pods of many namespaces.
SHARED = ""


class Shares:
    """What each namespace has used in this round, and which must wait.

    They are either `done` for this round, or have shape queues yet to be looked at (`unswept`).
    """

    def __init__(self) -> None:
        self._spent: dict[str, int] = {}
        self.done: set[str] = set()
        self.unswept: set[str] = set()

    def spend(self, owner: str, cost: int, *, placed: int = 0) -> None:
        """Charge an attempt: its cost in rows, less an allowance for each pod `placed`."""
        cost -= placed * A_PLACE
        if cost <= 0:
            return
        spent = self._spent[owner] = self._spent.get(owner, 0) + cost
        if spent >= A_SHARE:
            self.done.add(owner)

    def must_wait(self, owner: str) -> bool:
        """Whether other namespaces come first."""
        return owner in self.done or owner in self.unswept

    def new_round(self) -> bool:
        """Begin a new round; False if no namespace waits for one."""
        had_to_wait = bool(self.done)
        self._spent.clear()
        self.done.clear()
        return had_to_wait


class FairHeap(Generic[T]):
    """Entries by key, without those of namespaces that must wait.

    Entries are not removed: `is_valid` says whether one still counts under its owner and key (it
    changes no queue), and `most` how many can. About as many invalid entries are kept: a standby
    scheduler pushes for weeks, and never looks at the first.
    """

    def __init__(
        self,
        shares: Shares,
        is_valid: Callable[[T, str, _Key], bool],
        most: Callable[[], int],
    ) -> None:
        self._shares = shares
        self._is_valid = is_valid
        self._most = most
        self._count = self._entries = 0
        self._of: dict[str, list[tuple[_Key, int, T]]] = {}
        #: The first keys of all owners; an entry counts only while `_first` has the same key.
        self._firsts: list[tuple[_Key, str]] = []
        self._first: dict[str, _Key] = {}
        self._held_back: dict[str, None] = {}

    @property
    def has_more(self) -> bool:
        """Whether there is a first entry, or there may be some of namespaces that must wait.

        Unlike `first` it changes nothing.
        """
        if self._held_back:
            return True
        for owner in self._first:
            if self._shares.must_wait(owner):
                return True
            for key, _, entry in self._of[owner]:
                if self._is_valid(entry, owner, key):
                    return True
        return False

    def push(self, owner: str, key: _Key, entry: T) -> None:
        """Add an entry."""
        if self._entries > 2 * self._most() + SPARE_ENTRIES:
            self._compact()
        heap = self._of.setdefault(owner, [])
        self._count += 1
        self._entries += 1
        heappush(heap, (key, self._count, entry))
        if heap[0][1] == self._count and owner not in self._held_back:
            self._first[owner] = key
            heappush(self._firsts, (key, owner))

    def first(self) -> T | None:
        """The first entry among namespaces that need not wait."""
        firsts = self._firsts
        while firsts:
            key, owner = firsts[0]
            if self._first.get(owner) != key:
                heappop(firsts)
                continue
            if self._shares.must_wait(owner):
                heappop(firsts)
                del self._first[owner]
                self._held_back[owner] = None
                continue
            heap = self._of[owner]
            while heap and not self._is_valid(heap[0][2], owner, heap[0][0]):
                heappop(heap)
                self._entries -= 1
            if not heap:
                heappop(firsts)
                del self._first[owner], self._of[owner]
            elif heap[0][0] == key:
                return heap[0][2]
            else:
                self._first[owner] = heap[0][0]
                heapreplace(firsts, (heap[0][0], owner))
        return None

    def let_on(self) -> None:
        """Look again at namespaces that need not wait any more."""
        for owner in [one for one in self._held_back if not self._shares.must_wait(one)]:
            del self._held_back[owner]
            heap = self._of[owner]
            self._first[owner] = heap[0][0]
            heappush(self._firsts, (heap[0][0], owner))

    def clear(self) -> None:
        """Remove all entries."""
        for index in (self._of, self._first, self._held_back):
            index.clear()
        self._firsts.clear()
        self._entries = 0

    def _compact(self) -> None:
        """Keep each valid entry once."""
        self._entries = 0
        for owner, heap in list(self._of.items()):
            kept = {
                (key, entry): number
                for key, number, entry in sorted(heap, key=lambda one: one[:2], reverse=True)
                if self._is_valid(entry, owner, key)
            }
            heap[:] = [(key, number, entry) for (key, entry), number in kept.items()]
            heapify(heap)
            self._entries += len(heap)
            if not heap:
                del self._of[owner]
                self._held_back.pop(owner, None)
        heaps = self._of.items()
        self._first = {one: heap[0][0] for one, heap in heaps if one not in self._held_back}
        self._firsts = [(key, owner) for owner, key in self._first.items()]
        heapify(self._firsts)
