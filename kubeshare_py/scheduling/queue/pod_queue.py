"""The queue of pods. Pods of one shape wait in one line.

Whether a pod fits depends on its shape alone. So if the first of a line fits nowhere, neither do
the pods behind it: the line is *blocked* (kube-scheduler's unschedulable queue) until a row
improves that may fit its shape. Fifty thousand pods waiting in twenty shapes cost no more than
twenty.

What is kept for preemptors makes exceptions, and these pods have other lines: pods that never
preempt may take less of it than others, and a preemptor whose plan is carried out may take what
pods before it may not.
"""

import math
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush

from kubeshare_py.domain.diagnosis import Diagnosis
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.remembered import weight_of
from kubeshare_py.scheduling.queue.fair_share import SHARED, FairHeap, Shares

#: The QueueSort plugin's key, then the pod's arrival; for a gang's members first that of its first
#: one. () if it is not computed yet.
SortKey = tuple[tuple[int | str, ...] | int, ...]

#: For pods that must share a topology domain with their gang: its namespace and name, and the
#: label.
PlaceOf = tuple[str, str, str]

#: The most lines; beyond, empty ones are dropped.
LINES_KEPT = 4096
#: The most namespaces of a line with a share of its own; all other lines have one together, so that
#: a user of two namespaces cannot spend the share of other users' pods.
MOST_OWNERS = 3
#: The most bytes of an empty line's key for the line to be kept.
HEAVY = 4096


@dataclass(frozen=True, slots=True)
class LineKey:
    """What the pods of one line share.

    The profile, the shape, the domain if they are tied to one, and whether they preempt. `alone` is
    the only pod of a line of its own.
    """

    profile: str
    shape: Shape
    place_of: PlaceOf | None = None
    preempts: bool = True
    alone: PodUid | None = None


@dataclass(slots=True, eq=False)
class Line:
    """Pods that are tried together, in queue order."""

    key: LineKey
    number: int
    heavy: bool = False
    heap: list[tuple[SortKey, PodUid]] = field(default_factory=list)
    waiting: dict[PodUid, SortKey] = field(default_factory=dict)
    #: The number of pods by namespace, and the owner whose share their attempts count toward.
    of_namespace: dict[str, int] = field(default_factory=dict)
    owner: str = SHARED
    blocked: bool = False
    #: Why the line is blocked, as last computed, when, and the bits behind it.
    diagnosis: Diagnosis | None = None
    diagnosed_at: float = 0.0
    diagnosed_from: int = -1
    look_again_at: float = math.inf
    reason_set: int = 0
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
        """The first waiting pod, which stays in the line."""
        heap = self.heap
        while heap:
            key, uid = heap[0]
            if self.waiting.get(uid) == key:
                return heap[0]
            heappop(heap)
        return None

    def compact(self) -> None:
        """Drop entries of pods that left from the middle, once they are the larger part."""
        if len(self.heap) > 2 * len(self.waiting) + 64:
            self.heap = [(key, uid) for uid, key in self.waiting.items()]
            heapify(self.heap)


class PodQueue:
    """Lines of waiting pods; active ones in queue order of their first pods."""

    def __init__(
        self,
        shares: Shares | None = None,
        forget: Callable[[str, Shape], None] = lambda profile, shape: None,
    ) -> None:
        """`forget` is called when no pod waits any more with a shape that is not worth keeping.

        Those are too large shapes, and shapes whose last pod left without a place.
        """
        self.shares = shares or Shares()
        self._forget = forget
        self._lines: dict[LineKey, Line] = {}
        self._numbered: dict[int, Line] = {}
        self._line_of: dict[PodUid, Line] = {}
        self._namespace_of: dict[PodUid, str] = {}
        #: By number, because an empty line may be dropped at once.
        self._active: FairHeap[int] = FairHeap(
            self.shares, self._is_first, lambda: len(self._numbered)
        )
        #: Blocked lines by owner, then by number.
        self._blocked: dict[str, dict[int, Line]] = {}
        self._next_number = 0
        #: Blocked lines whose owner changed since they were last looked at.
        self.moved: dict[Line, None] = {}
        #: Blocked lines that pods joined since they were last looked at.
        self.newcomers: dict[Line, None] = {}

    def __len__(self) -> int:
        return len(self._line_of)

    def add(self, uid: PodUid, key: SortKey, line_key: LineKey, namespace: str = "") -> Line:
        """Add a waiting pod of this namespace to this line."""
        line = self._lines.get(line_key)
        if line is None:
            self._next_number += 1
            line = self._lines[line_key] = Line(
                line_key, self._next_number, heavy=weight_of(line_key, HEAVY) >= HEAVY
            )
            self._numbered[line.number] = line
        line.waiting[uid] = key
        heappush(line.heap, (key, uid))
        line.unreported[uid] = None
        self._line_of[uid] = line
        self._namespace_of[uid] = namespace
        count = line.of_namespace.get(namespace, 0)
        line.of_namespace[namespace] = count + 1
        is_new = not count and self._changes_owner(line)
        if line.blocked:
            self.newcomers[line] = None
        elif is_new or line.heap[0][1] == uid:
            self._active.push(line.owner, line.heap[0][0], line.number)
        return line

    def remove(self, uid: PodUid) -> None:
        """Remove a pod, which may be unknown."""
        line = self._line_of.pop(uid, None)
        if line is None:
            return
        del line.waiting[uid]
        namespace = self._namespace_of.pop(uid)
        line.of_namespace[namespace] -= 1
        if not line.of_namespace[namespace]:
            del line.of_namespace[namespace]
        line.unreported.pop(uid, None)
        if line.waiting:
            was_first = line.heap[0][1] == uid
            line.compact()
            if self._changes_owner(line) or was_first:
                self._push(line)
            return
        # An empty line is kept, with what is known of its shape, but is not maintained.
        line.heap.clear()
        if line.blocked:
            self._unblock(line)
        if line.place_of is not None or line.key.alone is not None or line.heavy:
            del self._lines[line.key]
            del self._numbered[line.number]
            if line.heavy:
                self._forget(line.profile, line.shape)
        elif len(self._lines) > LINES_KEPT:
            self._forget_empty_lines()

    def unplaced(self, profile: str, shape: Shape, *, preempts: bool) -> None:
        """A pod of this shape left without ever having had a place.

        Its shape is kept only for other pods: a shape that fits is worth keeping for the next ones,
        one that does not is not.
        """
        key = LineKey(profile, shape, None, preempts, None)
        line = self._lines.get(key)
        if line is not None:
            if line.waiting:
                return
            del self._lines[key]
            del self._numbered[line.number]
        self._forget(profile, shape)

    def move(self, uid: PodUid, *, alone: bool) -> None:
        """Move a pod to a line of its own, or back to the line of its shape.

        A new line is blocked if the former one is, because the pod was tried, or not, in the same
        way.
        """
        line = self._line_of.get(uid)
        if line is None or alone == (line.key.alone is not None):
            return
        target = replace(line.key, alone=uid if alone else None)
        is_new = target not in self._lines or not self._lines[target].waiting
        was_blocked, is_told = line.blocked, uid not in line.unreported
        key, namespace = line.waiting[uid], self._namespace_of[uid]
        self.remove(uid)
        other = self.add(uid, key, target, namespace)
        if is_told:
            del other.unreported[uid]
        if is_new and was_blocked:
            other.diagnosis, other.reason_set = line.diagnosis, line.reason_set
            other.diagnosed_at, other.diagnosed_from = line.diagnosed_at, line.diagnosed_from
            self.block(other)

    def clear(self) -> None:
        """Remove all pods, and all knowledge of shapes."""
        for line in self.blocked():
            line.blocked = False
        for index in (self._lines, self._numbered, self._line_of, self._namespace_of):
            index.clear()
        self.newcomers.clear()
        self.moved.clear()
        self._blocked.clear()
        self._active.clear()

    def line_of(self, uid: PodUid) -> Line | None:
        """The line in which the pod waits, or None."""
        return self._line_of.get(uid)

    def numbered(self, number: int) -> Line | None:
        """The line of this number, unless it was dropped."""
        return self._numbered.get(number)

    @property
    def has_more(self) -> bool:
        """Whether a line is to be tried, now or when its namespace's turn comes."""
        return self._active.first() is not None or self._active.waits

    def next_line(self) -> Line | None:
        """The active line with the first pod, among namespaces that need not wait."""
        number = self._active.first()
        return None if number is None else self._numbered[number]

    def let_on(self) -> None:
        """Look again at namespaces that need not wait any more."""
        self._active.let_on()

    def block(self, line: Line) -> None:
        """Block this line until it is woken."""
        line.blocked = True
        self._blocked.setdefault(line.owner, {})[line.number] = line

    def wake(self, line: Line) -> None:
        """Activate the line."""
        if line.blocked:
            self._unblock(line)
            self._push(line)

    def blocked(self) -> list[Line]:
        """Blocked lines, the oldest first within one owner."""
        return [line for lines in self._blocked.values() for line in lines.values()]

    def blocked_by_owner(self, without: Container[str]) -> list[tuple[str, list[Line]]]:
        """Blocked lines by owner, without those of some owners."""
        blocked = self._blocked.items()
        return [(owner, list(lines.values())) for owner, lines in blocked if owner not in without]

    def lines(self) -> Iterator[Line]:
        """All lines."""
        yield from self._lines.values()

    def _forget_empty_lines(self) -> None:
        for key, line in [(key, line) for key, line in self._lines.items() if not line.waiting]:
            del self._lines[key]
            del self._numbered[line.number]

    def _changes_owner(self, line: Line) -> bool:
        """Set a line's owner: the namespace of its pods, or the few that they are of."""
        is_of_few = len(line.of_namespace) <= MOST_OWNERS
        owner = " ".join(sorted(line.of_namespace)) if is_of_few else SHARED
        if owner == line.owner:
            return False
        was_blocked = line.blocked
        if was_blocked:
            self._unblock(line)
        line.owner = owner
        if was_blocked:
            self.block(line)
            self.moved[line] = None
        return True

    def _unblock(self, line: Line) -> None:
        line.blocked = False
        lines = self._blocked[line.owner]
        del lines[line.number]
        if not lines:
            del self._blocked[line.owner]

    def _push(self, line: Line) -> None:
        head = line.head()  # also for a blocked line: its next push is compared with that
        if head is not None and not line.blocked:
            self._active.push(line.owner, head[0], line.number)

    def _is_first(self, number: int, owner: str, key: SortKey) -> bool:
        """Whether the line is active with this key of its first pod and this owner."""
        line = self._numbered.get(number)
        if line is None or line.blocked or line.owner != owner:
            return False
        head = line.head()
        return head is not None and head[0] == key
