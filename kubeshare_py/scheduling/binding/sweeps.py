"""Which blocked lines are looked at next after rows improved, namespace by namespace.

A line that was blocked after the rows improved has seen them already: a sweep of a namespace need
only cover what came since its last one began. Where sweeps take more than a turn, half of what a
turn looks at is of namespaces with few lines, which need not wait for those with many, and half of
those that have waited longest, which rows that go on improving for others do not keep waiting.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kubeshare_py.cluster.changes import ChangeLog
from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.scheduling.queue.pod_queue import Line, PodQueue

#: More improved rows than this, and every blocked line is simply tried again.
ROWS_WORTH_SWEEPING = 256


@dataclass(slots=True, eq=False)
class Sweep:
    """Lines of one owner to be looked at, the last first.

    `rows` improved, None if too many did to ask about them. `began` is where the log ended then.
    """

    owner: str
    lines: list[Line]
    rows: IntArray | None
    began: int


class Sweeps:
    """How far each owner's lines have seen the log of improved rows."""

    def __init__(self, improved: ChangeLog, queue: PodQueue) -> None:
        self._improved = improved
        self._queue = queue
        #: Sweeps that are under way, the oldest first.
        self._of: dict[str, Sweep] = {}
        #: Up to where owners without one have seen the log: here, or as it is said of each.
        self._seen = 0
        self._behind: dict[str, int] = {}

    @property
    def owners(self) -> set[str]:
        """Whose lines were not all looked at yet."""
        return set(self._of)

    @property
    def are_due(self) -> bool:
        """Whether lines are to be looked at."""
        return bool(self._of or self._behind) or self._seen != self._improved.end

    def begin(self) -> list[Line]:
        """Begin a sweep of each owner whose lines have not seen all rows that improved.

        Lines that are to be tried without a look: of those that got another owner while owners
        differed in what they have seen it is not known what they have.
        """
        moved = [line for line in self._queue.moved if line.blocked]
        self._queue.moved.clear()
        strays = moved if self._of or self._behind else []
        self._begin_sweeps()
        return strays

    def lines(self, *, oldest_first: bool) -> Iterator[tuple[Sweep, Line]]:
        """The lines to be looked at; of the oldest sweeps first, or of owners with few lines.

        A sweep whose last line is taken is over.
        """
        sweeps = list(self._of.values())
        if not oldest_first:
            sweeps.sort(key=lambda one: (len(one.lines), one.owner))
        for sweep in sweeps:
            while sweep.lines:
                line = sweep.lines.pop()
                if not sweep.lines:
                    self._over(sweep)
                yield sweep, line

    def _begin_sweeps(self) -> None:
        end = self._improved.end
        if end == self._seen and not self._behind:
            return
        for owner, lines in self._queue.blocked_by_owner(self._of):
            seen = self._behind.get(owner, self._seen)
            if seen != end:
                self._of[owner] = Sweep(owner, lines, self._rows(seen), end)
        self._behind.clear()
        self._seen = end

    def _over(self, sweep: Sweep) -> None:
        """The owner may go on before it is swept again, if that is due already."""
        del self._of[sweep.owner]
        if sweep.began != self._seen:
            self._behind[sweep.owner] = sweep.began

    def _rows(self, seen: int) -> IntArray | None:
        rows = self._improved.since(seen, ROWS_WORTH_SWEEPING)
        return None if rows is None else np.unique(rows)
