"""Who waits, and who is tried next. Pods of one shape stand in one line.

Whether a pod fits depends on its shape alone, so when the first of a line fits nowhere, nobody
behind it does: the line is *blocked* (kube-scheduler's unschedulable queue) until a row improves
that may help its shape. Fifty thousand pods waiting in twenty shapes cost no more than twenty.

What is kept for preemptors makes exceptions, so that such pods stand in other lines: pods that
never preempt may take less of it than others, and a preemptor whose plan is carried out may take
what those before it may not.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush

from kubeshare_py.domain.diagnosis import Diagnosis
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.remembered import weight_of

#: What QueueSort answered, then the arrival of the pod; of a gang's members that of its first one,
#: then their own. () where it is not worked out yet.
SortKey = tuple[tuple[int | str, ...] | int, ...]

#: Of pods that must be in one place with their gang: its namespace and name, and the label.
PlaceOf = tuple[str, str, str]

#: Lines in all, beyond which empty ones are forgotten.
LINES_KEPT = 4096
#: What the key of an empty line may weigh (bytes) for the line to be kept.
HEAVY = 4096


@dataclass(frozen=True, slots=True)
class LineKey:
    """What pods of one line have in common.

    The profile, the shape, the place if they are tied to one, and whether they preempt. `alone`
    is the only pod of a line of its own.
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
    blocked: bool = False
    #: Why the line is blocked, as last worked out, when, and the bits behind it.
    diagnosis: Diagnosis | None = None
    diagnosed_at: float = 0.0
    diagnosed_from: int = -1
    look_again_at: float = math.inf
    reason_set: int = 0
    #: Pods that nobody was told about yet.
    unreported: list[PodUid] = field(default_factory=list)

    @property
    def profile(self) -> str:
        """The name of their profile."""
        return self.key.profile

    @property
    def shape(self) -> Shape:
        """What each of them asks for."""
        return self.key.shape

    @property
    def place_of(self) -> PlaceOf | None:
        """The place that they are tied to."""
        return self.key.place_of

    def head(self) -> tuple[SortKey, PodUid] | None:
        """The first waiting pod, not taken out."""
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
        price: Callable[[str, Shape], int] = lambda profile, shape: 0,
        forget: Callable[[str, Shape], None] = lambda profile, shape: None,
    ) -> None:
        """`price`: what it costs to ask a profile about a shape, 0 if it was asked before.

        `forget` is called when no pod waits any more with a shape that is too large to be kept.
        """
        self._price, self._forget = price, forget
        self._lines: dict[LineKey, Line] = {}
        self._numbered: dict[int, Line] = {}
        self._line_of: dict[PodUid, Line] = {}
        self._active: list[tuple[SortKey, int]] = []
        self._blocked: dict[int, Line] = {}
        self._next_number = 0
        #: Blocked lines that somebody joined since anybody looked.
        self.newcomers: dict[Line, None] = {}

    def __len__(self) -> int:
        return len(self._line_of)

    def add(self, uid: PodUid, key: SortKey, line_key: LineKey) -> Line:
        """The pod waits in this line."""
        line = self._lines.get(line_key)
        if line is None:
            self._next_number += 1
            line = self._lines[line_key] = Line(
                line_key, self._next_number, heavy=weight_of(line_key) > HEAVY
            )
            self._numbered[line.number] = line
        line.waiting[uid] = key
        heappush(line.heap, (key, uid))
        line.unreported.append(uid)
        self._line_of[uid] = line
        if line.blocked:
            self.newcomers[line] = None
        elif line.heap[0][1] == uid:
            heappush(self._active, (key, line.number))
        return line

    def price(self, line_key: LineKey) -> int:
        """What it costs to try a pod of this line, in rows; 0 where others wait in it already."""
        line = self._lines.get(line_key)
        if line is not None and line.waiting:
            return 0
        return self._price(line_key.profile, line_key.shape)

    def remove(self, uid: PodUid) -> None:
        """The pod does not wait any more; unknown pods are nobody's business."""
        line = self._line_of.pop(uid, None)
        if line is None:
            return
        del line.waiting[uid]
        if line.waiting:
            line.compact()
            self._push(line)
            return
        # An empty line is kept, with what is known of its shape, but is not looked after.
        line.heap.clear()
        line.unreported.clear()
        if line.blocked:
            line.blocked = False
            del self._blocked[line.number]
        if line.place_of is not None or line.key.alone is not None or line.heavy:
            del self._lines[line.key]
            del self._numbered[line.number]
            if line.heavy:
                self._forget(line.profile, line.shape)
        elif len(self._lines) > LINES_KEPT:
            self._forget_empty_lines()

    def move(self, uid: PodUid, *, alone: bool) -> None:
        """The pod waits in a line of its own from now on, or with those like it again.

        It was tried, or not, as it is now: a line that is made for it is blocked if the other is.
        """
        line = self._line_of.get(uid)
        if line is None or alone == (line.key.alone is not None):
            return
        target = replace(line.key, alone=uid if alone else None)
        is_new = target not in self._lines or not self._lines[target].waiting
        was_blocked, is_told = line.blocked, uid not in line.unreported
        key = line.waiting[uid]
        self.remove(uid)
        other = self.add(uid, key, target)
        if is_told:
            other.unreported.remove(uid)
        if is_new and was_blocked:
            other.diagnosis, other.reason_set = line.diagnosis, line.reason_set
            other.diagnosed_at, other.diagnosed_from = line.diagnosed_at, line.diagnosed_from
            self.block(other)

    def clear(self) -> None:
        """Nobody waits any more, and nothing is known of any shape."""
        for line in self._blocked.values():
            line.blocked = False
        for index in (self._lines, self._numbered, self._line_of, self._blocked, self.newcomers):
            index.clear()
        self._active.clear()

    def line_of(self, uid: PodUid) -> Line | None:
        """The line in which the pod waits."""
        return self._line_of.get(uid)

    def numbered(self, number: int) -> Line | None:
        """The line of this number, unless it was forgotten."""
        return self._numbered.get(number)

    def next_line(self) -> Line | None:
        """The active line whose first pod is the first of all active ones."""
        active = self._active
        while active:
            key, number = active[0]
            line = self._numbered.get(number)
            if line is not None and not line.blocked:
                head = line.head()
                if head is not None and head[0] == key:
                    return line
            heappop(active)
        return None

    def block(self, line: Line) -> None:
        """Nobody in this line is tried until it is woken."""
        line.blocked = True
        self._blocked[line.number] = line

    def wake(self, line: Line) -> None:
        """The line is tried again."""
        if line.blocked:
            line.blocked = False
            del self._blocked[line.number]
            self._push(line)

    def blocked(self) -> list[Line]:
        """Blocked lines, the oldest first."""
        return list(self._blocked.values())

    def lines(self) -> Iterator[Line]:
        """All lines."""
        yield from self._lines.values()

    def _forget_empty_lines(self) -> None:
        for key, line in [(key, line) for key, line in self._lines.items() if not line.waiting]:
            del self._lines[key]
            del self._numbered[line.number]

    def _push(self, line: Line) -> None:
        head = line.head()
        if head is not None and not line.blocked:
            heappush(self._active, (head[0], line.number))
