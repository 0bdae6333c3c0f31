"""What one iteration may cost, and the unschedulable queues that it wakes first."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from kubeshare_py.cluster.changes import ChangeLog
from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.ledger import ANYWHERE
from kubeshare_py.scheduling.queue.pod_queue import PodQueue, ShapeQueue
from kubeshare_py.scheduling.state import State

# Which unschedulable queues to look at after rows improved, namespace by namespace.
#
# A shape queue that became unschedulable after the rows improved has seen them already: a
# namespace's sweep covers only what came since its last one began. If sweeps take more than an
# iteration, half of an iteration's looks are for namespaces with few shape queues, which need not
# wait for those with many, and half for those that have waited longest, so that further
# improvements cannot delay them.


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
        #: Sweeps under way by owner, the oldest first; to be read.
        self.under_way: dict[str, Sweep] = {}
        #: How far owners without a sweep have seen the log, unless stated per owner.
        self._seen = 0
        self._behind: dict[str, int] = {}

    @property
    def are_due(self) -> bool:
        """Whether shape queues are to be looked at."""
        return bool(self.under_way or self._behind) or self._seen != self._improved.end

    def passes(self) -> bool:
        """Whether no shape queue is unschedulable; all improved rows have been seen then."""
        queue = self._queue
        if queue.unschedulable_of or queue.moved or self.under_way:
            return False
        self._seen = self._improved.end
        if self._behind:
            self._behind.clear()
        return True

    def begin(self) -> list[ShapeQueue]:
        """Begin a sweep of each owner whose shape queues have not seen all improved rows.

        Returns shape queues to be tried without a look: those that changed owner while owners
        differed in what they have seen.
        """
        moved = [shape_queue for shape_queue in self._queue.moved if shape_queue.unschedulable]
        self._queue.moved.clear()
        strays = moved if self.under_way or self._behind else []
        self._begin_sweeps()
        return strays

    def queues(self, *, oldest_first: bool) -> Iterator[tuple[Sweep, ShapeQueue]]:
        """The shape queues to look at; of the oldest sweeps first, or of owners with few queues.

        A sweep ends when its last shape queue is taken.
        """
        sweeps = list(self.under_way.values())
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
        for owner, unschedulable in self._queue.unschedulable_by_owner(self.under_way):
            seen = self._behind.get(owner, self._seen)
            if seen == end:
                continue
            rows = self._rows(seen)
            nowhere = rows is not None and not len(rows)  # what changed is on no row
            shape_queues = [
                one for one in unschedulable if not nowhere or one.shape.is_cluster_wide
            ]
            if shape_queues:
                self.under_way[owner] = Sweep(owner, shape_queues, rows, end)
        self._behind.clear()
        self._seen = end

    def _over(self, sweep: Sweep) -> None:
        """End a sweep: the owner may go on before its next one, even if that is due."""
        del self.under_way[sweep.owner]
        if sweep.began != self._seen:
            self._behind[sweep.owner] = sweep.began

    def _rows(self, seen: int) -> IntArray | None:
        rows = self._improved.since(seen, ROWS_WORTH_SWEEPING)
        return None if rows is None else np.unique(rows[rows != ANYWHERE])


# What one iteration may cost, and the unschedulable queues that it wakes first.


# The cost of one iteration, which holds the loop for at most about 20 ms, in rows (about 0.4 µs
# each), and the cost of one look at an unschedulable queue.
ROWS_PER_ITERATION, LOOK = 25_000, 20
# The most improved rows for which plugins are asked for hints before questions.
ROWS_WORTH_HINTS = 16


class IterationBudget:
    """Wakes unschedulable queues of pods, and counts the cost of an iteration, in rows."""

    def __init__(self, state: State) -> None:
        self._sweeps = Sweeps(state.ledger.improved, state.queue)
        self._queue, self._moves = state.queue, state.moves
        self._shares = state.queue.shares
        self._snapshots, self._work = state.profiles.snapshots, state.profiles.work
        self._is_long = False
        self._cost_before = 0

    @property
    def unfinished(self) -> bool:
        """Whether an iteration would find work without any further event."""
        return self._sweeps.are_due or self._queue.has_more

    @property
    def sweeps(self) -> bool:
        """Whether the next iteration begins with looking at unschedulable queues."""
        return self._sweeps.are_due

    def begin_iteration(
        self, among: Callable[[ShapeQueue, IntArray], IntArray], *, is_long: bool = False
    ) -> None:
        """Wake the unschedulable queues that improved rows may help.

        `among` selects those of the rows, (k,) int64, that a shape queue tied to a domain may use.
        Nothing is decided before a sweep is complete, so that a pod that has waited longer is not
        overtaken by one whose shape queue was looked at first. If that takes more than an
        iteration, or the last iteration decided nothing for another reason (`is_long`), namespaces
        of which all shape queues were looked at go on.
        """
        self._cost_before = self._work.rows + self._work.other
        self._is_long = is_long or bool(self._sweeps.under_way)
        if self._sweeps.passes():
            if self._shares.unswept:
                self._shares.unswept = set()
            self._queue.let_on()
            return
        for shape_queue in self._sweeps.begin():
            self._wake(shape_queue)
        if self._is_long:
            # Half of the iteration is for namespaces that may go on.
            self._look_at_queues(among, quarters=1)
            self._look_at_queues(among, quarters=2, oldest_first=True)
        else:
            self._look_at_queues(among, quarters=4)
        self._shares.unswept = set(self._sweeps.under_way)
        self._queue.let_on()

    @property
    def is_open(self) -> bool:
        """Whether anything may be decided in this iteration."""
        return self._is_long or not self._sweeps.under_way

    def may_go_on(self, *, most_of_it: bool = False) -> bool:
        """Whether this iteration may decide more; `most_of_it` leaves cost for what follows."""
        if self._sweeps.under_way and not self._is_long:
            return False
        # As `has_budget`: each pod passes here several times.
        spent = self._work.rows + self._work.other - self._cost_before
        return spent < (ROWS_PER_ITERATION // 2 if most_of_it else ROWS_PER_ITERATION)

    def has_budget(self, quarters: int = 4) -> bool:
        """Whether this iteration's cost is below so many quarters of its limit."""
        return self._work.cost - self._cost_before < ROWS_PER_ITERATION * quarters // 4

    def may_look_on(self) -> bool:
        """Whether this iteration may look at more shape queues, and leave some cost."""
        return self.has_budget(3 if self._is_long else 4)

    @property
    def cost(self) -> int:
        """The cost of all questions, in rows."""
        return self._work.rows + self._work.other

    def _look_at_queues(
        self,
        among: Callable[[ShapeQueue, IntArray], IntArray],
        quarters: int,
        *,
        oldest_first: bool = False,
    ) -> None:
        """Wake queues that improved rows may help, within so many quarters of the cost limit."""
        if not self.has_budget(quarters):
            return
        for sweep, shape_queue in self._sweeps.queues(oldest_first=oldest_first):
            looks = 1 if sweep.rows is None else max(1, min(len(sweep.rows), ROWS_WORTH_HINTS))
            self._work.other += looks * LOOK
            if shape_queue.unschedulable and self._may_help(shape_queue, sweep.rows, among):
                self._wake(shape_queue)
            if not self.has_budget(quarters):
                return

    def _wake(self, shape_queue: ShapeQueue) -> None:
        self._moves.woken(len(shape_queue.waiting))
        self._queue.activate(shape_queue)

    def _may_help(
        self,
        shape_queue: ShapeQueue,
        rows: IntArray | None,
        among: Callable[[ShapeQueue, IntArray], IntArray],
    ) -> bool:
        if rows is None:
            return True
        evaluator = self._snapshots.shown.evaluators[shape_queue.profile]
        shape = shape_queue.shape
        if shape.is_cluster_wide:
            if evaluator.fits_anywhere(shape) or evaluator.is_unfinished(shape):
                return True
            # What keeps a claim from its volume may be another thing now: the pod shows that.
            return shape.volumes is not None and (
                evaluator.reason_set(shape) != shape_queue.reason_set
            )
        improved = rows if shape_queue.place_of is None else among(shape_queue, rows)
        if len(improved) <= ROWS_WORTH_HINTS:
            hints = (evaluator.may_fit(shape_queue.shape, row) for row in improved.tolist())
            improved = improved[np.fromiter(hints, np.bool_, len(improved))]
        return bool(len(improved)) and evaluator.fits_any(shape_queue.shape, improved)
