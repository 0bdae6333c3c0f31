"""Which unschedulable queues to look at after rows improved, namespace by namespace.

A shape queue that became unschedulable after the rows improved has seen them already: a namespace's
sweep covers only what came since its last one began. If sweeps take more than an iteration, half of
an iteration's looks are for namespaces with few shape queues, which need not wait for those with
many, and half for those that have waited longest, so that further improvements cannot delay them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kubeshare_py.cluster.changes import ChangeLog
from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.ledger import ANYWHERE
from kubeshare_py.scheduling.queue.pod_queue import PodQueue, ShapeQueue

#: With more improved rows than this, every unschedulable queue is simply tried again.
ROWS_WORTH_SWEEPING = 256


@dataclass(slots=True, eq=False)
class Sweep:
    """Shape queues of one owner to be looked at, the last first.

    `rows` improved, (k,) int64; None if they are too many to ask about. `began` is the log's end
    then.
    """

    owner: str
    queues: list[ShapeQueue]
    rows: IntArray | None
    began: int


class Sweeps:
    """How far each owner's shape queues have seen the log of improved rows."""

    def __init__(self, improved: ChangeLog, queue: PodQueue) -> None:
        self._improved = improved
        self._queue = queue
        #: Sweeps under way, the oldest first.
        self._of: dict[str, Sweep] = {}
        #: How far owners without a sweep have seen the log, unless stated per owner.
        self._seen = 0
        self._behind: dict[str, int] = {}

    @property
    def owners(self) -> set[str]:
        """The owners with shape queues yet to be looked at."""
        return set(self._of)

    @property
    def are_due(self) -> bool:
        """Whether shape queues are to be looked at."""
        return bool(self._of or self._behind) or self._seen != self._improved.end

    def begin(self) -> list[ShapeQueue]:
        """Begin a sweep of each owner whose shape queues have not seen all improved rows.

        Returns shape queues to be tried without a look: those that changed owner while owners
        differed in what they have seen.
        """
        moved = [shape_queue for shape_queue in self._queue.moved if shape_queue.unschedulable]
        self._queue.moved.clear()
        strays = moved if self._of or self._behind else []
        self._begin_sweeps()
        return strays

    def queues(self, *, oldest_first: bool) -> Iterator[tuple[Sweep, ShapeQueue]]:
        """The shape queues to look at; of the oldest sweeps first, or of owners with few queues.

        A sweep ends when its last shape queue is taken.
        """
        sweeps = list(self._of.values())
        if not oldest_first:
            sweeps.sort(key=lambda one: (len(one.queues), one.owner))
        for sweep in sweeps:
            while sweep.queues:
                shape_queue = sweep.queues.pop()
                if not sweep.queues:
                    self._over(sweep)
                yield sweep, shape_queue

    def _begin_sweeps(self) -> None:
        end = self._improved.end
        if end == self._seen and not self._behind:
            return
        for owner, unschedulable in self._queue.unschedulable_by_owner(self._of):
            seen = self._behind.get(owner, self._seen)
            if seen == end:
                continue
            rows = self._rows(seen)
            nowhere = rows is not None and not len(rows)  # what changed is on no row
            shape_queues = [
                one for one in unschedulable if not nowhere or one.shape.is_cluster_wide
            ]
            if shape_queues:
                self._of[owner] = Sweep(owner, shape_queues, rows, end)
        self._behind.clear()
        self._seen = end

    def _over(self, sweep: Sweep) -> None:
        """End a sweep: the owner may go on before its next one, even if that is due."""
        del self._of[sweep.owner]
        if sweep.began != self._seen:
            self._behind[sweep.owner] = sweep.began

    def _rows(self, seen: int) -> IntArray | None:
        rows = self._improved.since(seen, ROWS_WORTH_SWEEPING)
        return None if rows is None else np.unique(rows[rows != ANYWHERE])
