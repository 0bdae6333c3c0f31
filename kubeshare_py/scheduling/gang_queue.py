"""Which gang is tried next. Gangs of the same composition stand in one line.

Whether a gang fits depends on the shapes of its members alone, so when the first of its composition
does not fit, none of them does: all wait until rows improve enough.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

from kubeshare_py.scheduling.gangs import Composition, Gang, Shapes, Shortage
from kubeshare_py.scheduling.pod_queue import SortKey


@dataclass(slots=True, eq=False)
class GangLine:
    """Gangs that all need the same and do not get it."""

    composition: Composition
    need: int
    #: As in the composition, in an order that does not depend on hashes.
    shapes: Shapes
    gangs: dict[Gang, None] = field(default_factory=dict)
    #: What is missing; None while they wait for the inventory only.
    shortage: Shortage | None = None


class GangQueue:
    """Gangs with enough members to be tried: active ones in queue order, blocked ones in lines."""

    def __init__(self) -> None:
        self._active: list[tuple[SortKey, int, Gang]] = []
        self._entry: dict[Gang, int] = {}
        self._entries = 0
        self._line_of: dict[Gang, GangLine] = {}
        self._lines: dict[Composition, GangLine] = {}
        self._composition: dict[Gang, Composition] = {}
        #: Gangs that came to wait in a line that is blocked already, and whom nobody told.
        self.joined: list[Gang] = []

    def put(self, gang: Gang) -> None:
        """The gang is to be tried, or waits with those of its composition."""
        self.remove(gang)
        self._composition[gang] = gang.composition
        if not self._joins(gang):
            self._activate(gang)

    def remove(self, gang: Gang) -> None:
        """The gang is not to be tried; unknown ones are nobody's business."""
        self._entry.pop(gang, None)
        self._composition.pop(gang, None)
        line = self._line_of.pop(gang, None)
        if line is not None:
            del line.gangs[gang]
            if not line.gangs:
                del self._lines[line.composition]

    def clear(self) -> None:
        """Nobody is to be tried, and nothing is known of any composition."""
        for index in (self._entry, self._line_of, self._lines, self._composition):
            index.clear()
        self._active.clear()
        self.joined.clear()

    def first(self) -> Gang | None:
        """The active gang that stands first in the queue."""
        active = self._active
        while active:
            _, entry, gang = active[0]
            if self._entry.get(gang) == entry and not self._joins(gang):
                return gang
            heappop(active)
        return None

    def block(self, gang: Gang) -> GangLine:
        """This active gang does not fit, nor does any of its composition."""
        composition = self._composition[gang]
        line = self._lines[composition] = GangLine(composition, gang.need, gang.shapes.copy())
        self._joins(gang)
        return line

    def wake(self, line: GangLine) -> None:
        """The gangs of a line are tried again."""
        if self._lines.pop(line.composition, None) is None:
            return
        for gang in line.gangs:
            del self._line_of[gang]
            self._activate(gang)
        line.gangs.clear()

    def line_of(self, gang: Gang) -> GangLine | None:
        """The line in which a gang waits."""
        return self._line_of.get(gang)

    def line(self, composition: Composition) -> GangLine | None:
        """The blocked gangs of this composition."""
        return self._lines.get(composition)

    def lines(self) -> list[GangLine]:
        """Lines of blocked gangs, the oldest first."""
        return list(self._lines.values())

    def active(self) -> Iterator[Gang]:
        """Gangs that are to be tried."""
        yield from self._entry

    def _joins(self, gang: Gang) -> bool:
        """Whether the gang waits with others of its composition from now on."""
        line = self._lines.get(self._composition[gang])
        if line is None:
            return False
        self._entry.pop(gang, None)
        line.gangs[gang] = None
        self._line_of[gang] = line
        self.joined.append(gang)
        return True

    def _activate(self, gang: Gang) -> None:
        self._entries += 1
        self._entry[gang] = self._entries
        heappush(self._active, (gang.key, self._entries, gang))
