"""The queue of pods. Pods of one shape wait in one shape queue.

Whether a pod fits depends on its shape alone. So if the first of a shape queue fits nowhere,
neither do the pods behind it: the shape queue is *unschedulable* (kube-scheduler's unschedulable
queue) until a row improves that may fit its shape. Fifty thousand pods waiting in twenty shapes
cost no more than twenty.

What is kept for preemptors makes exceptions, and these pods have other shape queues: pods that
never preempt may take less of it than others, and a preemptor whose plan is carried out may take
what pods before it may not.
"""

import math
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush

from kubeshare_py.domain.diagnosis import Diagnosis
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.remembered import HEAVY, MAX_BYTES, weight_of
from kubeshare_py.scheduling.queue.fair_share import SHARED, FairHeap, Shares

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


@dataclass(frozen=True, slots=True)
class ShapeQueueKey:
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
    #: By priority: the last report on evictions that its pods got. `told_at`: when (s) one changed.
    told: dict[int, str] = field(default_factory=dict)
    told_at: float = 0.0
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
        self._active: FairHeap[int] = FairHeap(
            self.shares, self._is_first, lambda: len(self._numbered)
        )
        #: Unschedulable queues by owner, then by number.
        self._unschedulable: dict[str, dict[int, ShapeQueue]] = {}
        #: No unschedulable queue was tried before (s).
        self.unschedulable_from = math.inf
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
        count = shape_queue.of_namespace.get(namespace, 0)
        shape_queue.of_namespace[namespace] = count + 1
        is_new = not count and self._changes_owner(shape_queue)
        if shape_queue.unschedulable:
            self.newcomers[shape_queue] = None
        elif is_new or shape_queue.heap[0][1] == uid:
            self._active.push(shape_queue.owner, shape_queue.heap[0][0], shape_queue.number)
        return shape_queue

    def remove(self, uid: PodUid) -> None:
        """Remove a pod, which may be unknown."""
        shape_queue = self._queue_of.pop(uid, None)
        if shape_queue is None:
            return
        del shape_queue.waiting[uid]
        namespace = self._namespace_of.pop(uid)
        shape_queue.of_namespace[namespace] -= 1
        if not shape_queue.of_namespace[namespace]:
            del shape_queue.of_namespace[namespace]
        shape_queue.unreported.pop(uid, None)
        if shape_queue.waiting:
            was_first = shape_queue.heap[0][1] == uid
            shape_queue.drop_stale_entries()
            if self._changes_owner(shape_queue) or was_first:
                self._push(shape_queue)
            return
        # An empty shape queue is kept, with what is known of its shape, but is not maintained: of
        # most shapes, one pod after the other comes into an empty queue.
        shape_queue.heap.clear()
        shape_queue.flushed = False
        if shape_queue.unschedulable:
            self._unmark(shape_queue)
        is_heavy = shape_queue.weight > HEAVY
        if shape_queue.place_of is not None or shape_queue.key.alone is not None or is_heavy:
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
        target = replace(shape_queue.key, alone=uid if alone else None)
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
        self._unschedulable.clear()
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
        self._active.let_on()

    def mark_unschedulable(self, shape_queue: ShapeQueue, now: float) -> None:
        """Block this shape queue, whose first pod fits nowhere, until it is woken."""
        shape_queue.unschedulable_since, shape_queue.flushed = now, False
        self.unschedulable_from = min(self.unschedulable_from, now)
        self._mark(shape_queue)

    def _mark(self, shape_queue: ShapeQueue) -> None:
        shape_queue.unschedulable = True
        self._unschedulable.setdefault(shape_queue.owner, {})[shape_queue.number] = shape_queue

    def activate(self, shape_queue: ShapeQueue) -> None:
        """Activate the shape queue."""
        if shape_queue.unschedulable:
            self._unmark(shape_queue)
            self._push(shape_queue)

    def unschedulable(self) -> list[ShapeQueue]:
        """Unschedulable queues, the oldest first within one owner."""
        return [
            shape_queue
            for shape_queues in self._unschedulable.values()
            for shape_queue in shape_queues.values()
        ]

    def unschedulable_by_owner(self, without: Container[str]) -> list[tuple[str, list[ShapeQueue]]]:
        """Unschedulable queues by owner, without those of some owners."""
        return [
            (owner, list(shape_queues.values()))
            for owner, shape_queues in self._unschedulable.items()
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
        shape_queues = self._unschedulable[shape_queue.owner]
        del shape_queues[shape_queue.number]
        if not shape_queues:
            del self._unschedulable[shape_queue.owner]

    def _push(self, shape_queue: ShapeQueue) -> None:
        head = shape_queue.head()
        if head is not None and not shape_queue.unschedulable:
            self._active.push(shape_queue.owner, head[0], shape_queue.number)

    def _is_first(self, number: int, owner: str, key: SortKey) -> bool:
        """Whether the shape queue is active with this key of its first pod and this owner."""
        shape_queue = self._numbered.get(number)
        if shape_queue is None or shape_queue.unschedulable or shape_queue.owner != owner:
            return False
        head = shape_queue.head()
        return head is not None and head[0] == key
