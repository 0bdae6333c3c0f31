"""What one iteration may cost, and the unschedulable queues that it wakes first."""

from collections.abc import Callable

import numpy as np

from kubeshare_py.cluster.changes import ChangeLog
from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.framework.evaluation_cost import EvaluationWork
from kubeshare_py.framework.snapshot import Snapshots
from kubeshare_py.scheduling.binding.wake_sweeps import Sweeps
from kubeshare_py.scheduling.queue.pod_queue import PodQueue, ShapeQueue
from kubeshare_py.scheduling.queue.queue_moves import QueueMoves

# The cost of one iteration, which holds the loop for at most about 20 ms, in rows (about 0.4 µs
# each), and the cost of one look at an unschedulable queue.
ROWS_PER_ITERATION, LOOK = 25_000, 20
# The most improved rows for which plugins are asked for hints before questions.
ROWS_WORTH_HINTS = 16


class IterationBudget:
    """Wakes unschedulable queues of pods, and counts the cost of an iteration, in rows."""

    def __init__(
        self,
        improved: ChangeLog,
        queue: PodQueue,
        moves: QueueMoves,
        snapshots: Snapshots,
        work: EvaluationWork,
    ) -> None:
        """`improved`: the log of rows in which more pods may fit than before."""
        self._sweeps = Sweeps(improved, queue)
        self._queue = queue
        self._moves = moves
        self._snapshots = snapshots
        self._work = work
        self._is_long = False
        self._cost_before = 0

    @property
    def unfinished(self) -> bool:
        """Whether an iteration would find work without any further event."""
        return self.sweeps or self._queue.has_more

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
        self._cost_before = self._work.cost
        self._is_long = is_long or bool(self._sweeps.owners)
        for shape_queue in self._sweeps.begin():
            self._wake(shape_queue)
        if self._is_long:
            # Half of the iteration is for namespaces that may go on.
            self._look_at_queues(among, quarters=1)
            self._look_at_queues(among, quarters=2, oldest_first=True)
        else:
            self._look_at_queues(among, quarters=4)
        self._queue.shares.unswept = self._sweeps.owners
        self._queue.let_on()

    @property
    def is_open(self) -> bool:
        """Whether anything may be decided in this iteration."""
        return self._is_long or not self._sweeps.owners

    def may_go_on(self, *, most_of_it: bool = False) -> bool:
        """Whether this iteration may decide more; `most_of_it` leaves cost for what follows."""
        return self.is_open and self.has_budget(2 if most_of_it else 4)

    def has_budget(self, quarters: int = 4) -> bool:
        """Whether this iteration's cost is below so many quarters of its limit."""
        return self._work.cost - self._cost_before < ROWS_PER_ITERATION * quarters // 4

    def may_look_on(self) -> bool:
        """Whether this iteration may look at more shape queues, and leave some cost."""
        return self.has_budget(3 if self._is_long else 4)

    @property
    def cost(self) -> int:
        """The cost of all questions, in rows."""
        return self._work.cost

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
