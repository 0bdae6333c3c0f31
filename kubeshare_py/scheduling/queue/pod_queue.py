"""The queue of pods. Pods of one shape wait in one shape queue.

Namespaces have fair shares of the scheduling work.
"""

import math
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace
from typing import Generic, NamedTuple, TypeVar

from kubeshare_py.domain.diagnosis import Diagnosis
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.remembered import HEAVY, MAX_BYTES, weight_of

# Fair shares of scheduling work, so that no namespace keeps all others waiting.
#
# The cost of an attempt counts toward the namespace of its pods; if it finds a place, only what it
# costs above a pod of a known shape. A namespace that has used its share of a round lets all others
# pass; a round ends when only such namespaces have anything to try. Within a namespace, and while
# no share is used up, the order of the queue holds. A namespace that is alone is not delayed.


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
        #: What each namespace has used, in rows; to be read.
        self.spent: dict[str, int] = {}
        self.done: set[str] = set()
        self.unswept: set[str] = set()

    def spend(self, owner: str, cost: int, *, placed: int = 0) -> None:
        """Charge an attempt: its cost in rows, less an allowance for each pod `placed`."""
        cost -= placed * A_PLACE
        if cost <= 0:
            return
        spent = self.spent[owner] = self.spent.get(owner, 0) + cost
        if spent >= A_SHARE:
            self.done.add(owner)

    def must_wait(self, owner: str) -> bool:
        """Whether other namespaces come first."""
        return owner in self.done or owner in self.unswept

    def new_round(self) -> bool:
        """Begin a new round; False if no namespace waits for one."""
        had_to_wait = bool(self.done)
        self.spent.clear()
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
        #: Namespaces that were passed over, because they must wait; to be read.
        self.held_back: dict[str, None] = {}

    @property
    def has_more(self) -> bool:
        """Whether there is a first entry, or there may be some of namespaces that must wait.

        Unlike `first` it changes nothing.
        """
        if self.held_back:
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
        if owner not in self._of:
            self._of[owner] = []
        heap = self._of[owner]
        self._count += 1
        self._entries += 1
        heappush(heap, (key, self._count, entry))
        if heap[0][1] == self._count and owner not in self.held_back:
            self._first[owner] = key
            heappush(self._firsts, (key, owner))

    def first(self) -> T | None:
        """The first entry among namespaces that need not wait."""
        firsts, shares = self._firsts, self._shares
        while firsts:
            key, owner = firsts[0]
            if owner not in self._first or self._first[owner] != key:
                heappop(firsts)
                continue
            if (shares.done or shares.unswept) and shares.must_wait(owner):
                heappop(firsts)
                del self._first[owner]
                self.held_back[owner] = None
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
        for owner in [one for one in self.held_back if not self._shares.must_wait(one)]:
            del self.held_back[owner]
            heap = self._of[owner]
            self._first[owner] = heap[0][0]
            heappush(self._firsts, (heap[0][0], owner))

    def clear(self) -> None:
        """Remove all entries."""
        for index in (self._of, self._first, self.held_back):
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
                self.held_back.pop(owner, None)
        heaps = self._of.items()
        self._first = {one: heap[0][0] for one, heap in heaps if one not in self.held_back}
        self._firsts = [(key, owner) for owner, key in self._first.items()]
        heapify(self._firsts)


# The queue of pods. Pods of one shape wait in one shape queue.
#
# Whether a pod fits depends on its shape alone. So if the first of a shape queue fits nowhere,
# neither do the pods behind it: the shape queue is *unschedulable* (kube-scheduler's unschedulable
# queue) until a row improves that may fit its shape. Fifty thousand pods waiting in twenty shapes
# cost no more than twenty.
#
# What is kept for preemptors makes exceptions, and these pods have other shape queues: pods that
# never preempt may take less of it than others, and a preemptor whose plan is carried out may take
# what pods before it may not.


#: The QueueSort plugin's key, then the pod's arrival; for a gang's members first that of its first
#: one. () if it is not computed yet.
SortKey = tuple[tuple[int | str, ...] | int, ...]

#: For pods that must share a topology domain with their gang: its namespace and name, and the
#: label.
PlaceOf = tuple[str, str, str]

#: The most shape queues; beyond, empty ones are dropped, as they are beyond `MAX_BYTES` of keys.
QUEUES_KEPT = 4096
#: The most namespaces of a shape queue with a share of its own; all other shape queues have one
#: together, so that a user of two namespaces cannot spend the share of other users' pods.
MAX_OWNERS = 3


class ShapeQueueKey(NamedTuple):
    """What the pods of one shape queue share.

    The profile, the shape, the domain if they are tied to one, and whether they preempt. `alone` is
    the only pod of a shape queue of its own.
    """

    profile: str
    shape: Shape
    place_of: PlaceOf | None = None
    preempts: bool = True
    alone: PodUid | None = None


@dataclass(slots=True, eq=False)
class ShapeQueue:
    """Pods that are tried together, in queue order."""

    key: ShapeQueueKey
    number: int
    #: The size (bytes) of what users wrote into its key.
    weight: int = 0
    heap: list[tuple[SortKey, PodUid]] = field(default_factory=list)
    waiting: dict[PodUid, SortKey] = field(default_factory=dict)
    #: The number of pods by namespace, and the owner whose share their attempts count toward.
    of_namespace: dict[str, int] = field(default_factory=dict)
    owner: str = SHARED
    unschedulable: bool = False
    #: When (s) its first pod was last tried in vain, and whether the flush activated it since.
    unschedulable_since: float = 0.0
    flushed: bool = False
    #: Why the shape queue is unschedulable, as last computed, when, and the bits behind it.
    diagnosis: Diagnosis | None = None
    diagnosed_at: float = 0.0
    diagnosed_from: int = -1
    look_again_at: float = math.inf
    reason_set: int = 0
    #: By priority: the last text about evictions in its pods' reports, and when (s) one changed.
    eviction_texts: dict[int, str] = field(default_factory=dict)
    eviction_text_at: float = 0.0
    #: Pods without a report yet.
    unreported: dict[PodUid, None] = field(default_factory=dict)

    @property
    def profile(self) -> str:
        """The name of their profile."""
        return self.key.profile

    @property
    def shape(self) -> Shape:
        """The shape of each of them."""
        return self.key.shape

    @property
    def place_of(self) -> PlaceOf | None:
        """The domain that they are tied to, or None."""
        return self.key.place_of

    def head(self) -> tuple[SortKey, PodUid] | None:
        """The first waiting pod, which stays in the shape queue."""
        return self.heap[0] if self.heap else None

    def drop_stale_entries(self) -> None:
        """Let the first entry of the heap be that of a pod that waits.

        All entries of pods that left are dropped once they are the larger part.
        """
        heap, waiting = self.heap, self.waiting
        if len(heap) > 2 * len(waiting) + 64:
            self.heap = [(key, uid) for uid, key in waiting.items()]
            heapify(self.heap)
            return
        while heap and waiting.get(heap[0][1]) != heap[0][0]:
            heappop(heap)


class PodQueue:
    """Shape queues of waiting pods; active ones in queue order of their first pods."""

    def __init__(
        self,
        shares: Shares | None = None,
        forget: Callable[[str, Shape], None] = lambda profile, shape: None,
    ) -> None:
        """`forget` is called when no pod waits any more with a shape that is not worth keeping.

        Those are shapes above `remembered.HEAVY`, and shapes whose last pod left without a place.
        """
        self.shares = shares or Shares()
        self._forget = forget
        self._queues: dict[ShapeQueueKey, ShapeQueue] = {}
        self._numbered: dict[int, ShapeQueue] = {}
        #: Empty shape queues, longest empty first, and the sum of their weights.
        self._empty: dict[int, ShapeQueue] = {}
        self._empty_bytes = 0
        self._queue_of: dict[PodUid, ShapeQueue] = {}
        self._namespace_of: dict[PodUid, str] = {}
        #: By number, because an empty shape queue may be dropped at once.
        self._active: FairHeap[int] = FairHeap(self.shares, self._is_first, self._numbered.__len__)
        #: Unschedulable queues by owner, then by number; to be read.
        self.unschedulable_of: dict[str, dict[int, ShapeQueue]] = {}
        #: No unschedulable queue was tried before (s).
        self.unschedulable_from = math.inf
        #: Called when that is earlier than it was.
        self.blocked: Callable[[], None] = lambda: None
        self._next_number = 0
        #: Unschedulable queues whose owner changed since they were last looked at.
        self.moved: dict[ShapeQueue, None] = {}
        #: Unschedulable queues that pods joined since they were last looked at.
        self.newcomers: dict[ShapeQueue, None] = {}

    def __len__(self) -> int:
        return len(self._queue_of)

    def add(
        self, uid: PodUid, key: SortKey, queue_key: ShapeQueueKey, namespace: str = ""
    ) -> ShapeQueue:
        """Add a waiting pod of this namespace to this shape queue."""
        shape_queue = self._queues.get(queue_key)
        if shape_queue is None:
            self._next_number += 1
            shape_queue = self._queues[queue_key] = ShapeQueue(
                queue_key, self._next_number, weight=weight_of(queue_key)
            )
            self._numbered[shape_queue.number] = shape_queue
        elif shape_queue.number in self._empty:
            self._take_from_empty(shape_queue)
        shape_queue.waiting[uid] = key
        heappush(shape_queue.heap, (key, uid))
        shape_queue.unreported[uid] = None
        self._queue_of[uid] = shape_queue
        self._namespace_of[uid] = namespace
        of_namespace = shape_queue.of_namespace
        is_new = False
        if namespace in of_namespace:
            of_namespace[namespace] += 1
        else:
            was_of_others = bool(of_namespace) or shape_queue.owner != namespace
            of_namespace[namespace] = 1
            is_new = was_of_others and self._changes_owner(shape_queue)
        if shape_queue.unschedulable:
            self.newcomers[shape_queue] = None
        elif is_new or shape_queue.heap[0][1] == uid:
            self._active.push(shape_queue.owner, shape_queue.heap[0][0], shape_queue.number)
        return shape_queue

    def remove(self, uid: PodUid) -> None:
        """Remove a pod, which may be unknown."""
        if uid not in self._queue_of:
            return
        shape_queue, namespace = self._queue_of[uid], self._namespace_of[uid]
        del shape_queue.waiting[uid], self._queue_of[uid], self._namespace_of[uid]
        shape_queue.of_namespace[namespace] -= 1
        if not shape_queue.of_namespace[namespace]:
            del shape_queue.of_namespace[namespace]
        if uid in shape_queue.unreported:
            del shape_queue.unreported[uid]
        if shape_queue.waiting:
            was_first = shape_queue.heap[0][1] == uid
            shape_queue.drop_stale_entries()
            if self._changes_owner(shape_queue) or was_first:
                self._push(shape_queue)
            return
        # An empty shape queue is kept, with what is known of its shape, but is not maintained: of
        # most shapes, one pod after the other comes into an empty queue.
        del shape_queue.heap[:]
        shape_queue.flushed = False
        if shape_queue.unschedulable:
            self._unmark(shape_queue)
        is_heavy, key = shape_queue.weight > HEAVY, shape_queue.key
        if key.place_of is not None or key.alone is not None or is_heavy:
            self._drop(shape_queue)
            if is_heavy:
                self._forget(shape_queue.profile, shape_queue.shape)
            return
        self._empty[shape_queue.number] = shape_queue
        self._empty_bytes += shape_queue.weight
        while self._empty and (len(self._queues) > QUEUES_KEPT or self._empty_bytes > MAX_BYTES):
            self._drop(self._empty[next(iter(self._empty))])

    def unplaced(self, profile: str, shape: Shape, *, preempts: bool) -> None:
        """A pod of this shape left without ever having had a place.

        Its shape is kept only for other pods: a shape that fits is worth keeping for the next ones,
        one that does not is not.
        """
        key = ShapeQueueKey(profile, shape, None, preempts, None)
        shape_queue = self._queues.get(key)
        if shape_queue is not None:
            if shape_queue.waiting:
                return
            self._drop(shape_queue)
        self._forget(profile, shape)

    def move(self, uid: PodUid, *, alone: bool) -> None:
        """Move a pod to a shape queue of its own, or back to the shape queue of its shape.

        A new shape queue is unschedulable if the former one is, because the pod was tried, or not,
        in the same way.
        """
        shape_queue = self._queue_of.get(uid)
        if shape_queue is None or alone == (shape_queue.key.alone is not None):
            return
        target = shape_queue.key._replace(alone=uid if alone else None)
        is_new = target not in self._queues or not self._queues[target].waiting
        was_unschedulable = shape_queue.unschedulable
        is_reported = uid not in shape_queue.unreported
        key, namespace = shape_queue.waiting[uid], self._namespace_of[uid]
        self.remove(uid)
        other = self.add(uid, key, target, namespace)
        if is_reported:
            del other.unreported[uid]
        if is_new and was_unschedulable:
            other.diagnosis, other.reason_set = shape_queue.diagnosis, shape_queue.reason_set
            other.diagnosed_at, other.diagnosed_from = (
                shape_queue.diagnosed_at,
                shape_queue.diagnosed_from,
            )
            other.unschedulable_since = shape_queue.unschedulable_since
            self._mark(other)

    def clear(self) -> None:
        """Remove all pods, and all knowledge of shapes."""
        for shape_queue in self.unschedulable():
            shape_queue.unschedulable = False
        for index in (
            self._queues,
            self._numbered,
            self._empty,
            self._queue_of,
            self._namespace_of,
        ):
            index.clear()
        self._empty_bytes = 0
        self.newcomers.clear()
        self.moved.clear()
        self.unschedulable_of.clear()
        self._active.clear()

    def queue_of(self, uid: PodUid) -> ShapeQueue | None:
        """The shape queue in which the pod waits, or None."""
        return self._queue_of.get(uid)

    def numbered(self, number: int) -> ShapeQueue | None:
        """The shape queue of this number, unless it was dropped."""
        return self._numbered.get(number)

    @property
    def has_more(self) -> bool:
        """Whether a shape queue is to be tried, now or when its namespace's turn comes."""
        return self._active.has_more

    def next_queue(self) -> ShapeQueue | None:
        """The active shape queue with the first pod, among namespaces that need not wait."""
        number = self._active.first()
        return None if number is None else self._numbered[number]

    def let_on(self) -> None:
        """Look again at namespaces that need not wait any more."""
        if self._active.held_back:
            self._active.let_on()

    def mark_unschedulable(self, shape_queue: ShapeQueue, now: float) -> None:
        """Block this shape queue, whose first pod fits nowhere, until it is woken."""
        shape_queue.unschedulable_since, shape_queue.flushed = now, False
        if now < self.unschedulable_from:
            self.unschedulable_from = now
            self.blocked()
        self._mark(shape_queue)

    def _mark(self, shape_queue: ShapeQueue) -> None:
        shape_queue.unschedulable = True
        self.unschedulable_of.setdefault(shape_queue.owner, {})[shape_queue.number] = shape_queue

    def activate(self, shape_queue: ShapeQueue) -> None:
        """Activate the shape queue."""
        if shape_queue.unschedulable:
            self._unmark(shape_queue)
            self._push(shape_queue)

    def unschedulable(self) -> list[ShapeQueue]:
        """Unschedulable queues, the oldest first within one owner."""
        return [
            shape_queue
            for shape_queues in self.unschedulable_of.values()
            for shape_queue in shape_queues.values()
        ]

    def unschedulable_by_owner(self, without: Container[str]) -> list[tuple[str, list[ShapeQueue]]]:
        """Unschedulable queues by owner, without those of some owners."""
        return [
            (owner, list(shape_queues.values()))
            for owner, shape_queues in self.unschedulable_of.items()
            if owner not in without
        ]

    def queues(self) -> Iterator[ShapeQueue]:
        """All shape queues."""
        yield from self._queues.values()

    def _take_from_empty(self, shape_queue: ShapeQueue) -> None:
        del self._empty[shape_queue.number]
        self._empty_bytes -= shape_queue.weight

    def _drop(self, shape_queue: ShapeQueue) -> None:
        """Drop a shape queue in which no pod waits."""
        del self._queues[shape_queue.key]
        del self._numbered[shape_queue.number]
        if shape_queue.number in self._empty:
            self._take_from_empty(shape_queue)

    def _changes_owner(self, shape_queue: ShapeQueue) -> bool:
        """Set a shape queue's owner: the namespace of its pods, or the few that they are of."""
        is_of_few = len(shape_queue.of_namespace) <= MAX_OWNERS
        owner = " ".join(sorted(shape_queue.of_namespace)) if is_of_few else SHARED
        if owner == shape_queue.owner:
            return False
        was_unschedulable = shape_queue.unschedulable
        if was_unschedulable:
            self._unmark(shape_queue)
        shape_queue.owner = owner
        if was_unschedulable:
            self._mark(shape_queue)
            self.moved[shape_queue] = None
        return True

    def _unmark(self, shape_queue: ShapeQueue) -> None:
        shape_queue.unschedulable = False
        shape_queues = self.unschedulable_of[shape_queue.owner]
        del shape_queues[shape_queue.number]
        if not shape_queues:
            del self.unschedulable_of[shape_queue.owner]

    def _push(self, shape_queue: ShapeQueue) -> None:
        head = shape_queue.head()
        if head is not None and not shape_queue.unschedulable:
            self._active.push(shape_queue.owner, head[0], shape_queue.number)

    def _is_first(self, number: int, owner: str, key: SortKey) -> bool:
        """Whether a heap entry is current: the queue is active, and has this owner and key."""
        if number not in self._numbered:
            return False
        shape_queue = self._numbered[number]
        if shape_queue.unschedulable or shape_queue.owner != owner:
            return False
        return bool(shape_queue.heap) and shape_queue.heap[0][0] == key
