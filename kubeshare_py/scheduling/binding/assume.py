"""One placement: wake queues that may fit, choose, charge; and what one iteration may cost."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.refusal import NO_SUCH_CARD, REFUSES
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.identity import DecisionToken, NodeName, PodUid
from kubeshare_py.domain.isolation import Isolation, IsolationBackend
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.framework.evaluator import Choice, EvaluationWork, Evaluator
from kubeshare_py.framework.plugin_calls import PluginCalls
from kubeshare_py.scheduling.binding.wake_sweeps import Sweeps
from kubeshare_py.scheduling.queue.pod_queue import PodQueue, ShapeQueue
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.scheduling.queue.queue_moves import QueueMoves

R = TypeVar("R")

# The cost of one iteration, which holds the loop for at most about 20 ms, in rows (about 0.4 µs
# each), and the cost of one look at an unschedulable queue.
ROWS_PER_ITERATION, LOOK = 25_000, 20
# The most improved rows for which plugins are asked for hints before questions.
ROWS_WORTH_HINTS = 16


class Assumer:
    """Places pods, and wakes unschedulable queues within the cost of an iteration."""

    def __init__(
        self,
        ledger: Ledger,
        queue: PodQueue,
        moves: QueueMoves,
        evaluators: Mapping[str, Evaluator],
        calls: PluginCalls,
        work: EvaluationWork,
        name: str,
    ) -> None:
        self._work = work
        self._calls = calls
        self._ledger = ledger
        self._queue = queue
        self._moves = moves
        self._evaluators = evaluators
        self._profiles = calls.profiles
        self._name = name
        self._decisions = 0
        self._sweeps = Sweeps(ledger.improved, queue)
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

    def place(self, record: Record, choice: Choice) -> str | None:
        """Charge the pod to its place.

        Returns a sentence instead if a plugin refuses it, or if the ledger refuses because it takes
        more than is free; the ledger's rule then becomes one of the profile's filters.
        """
        pod, columns = record.pod, self._ledger.columns
        node = columns.names[choice.row]
        assert node is not None
        refusal = self._calls.permit(pod, node)
        if refusal is not None:
            return refusal
        allocation = self._allocation(record, choice, node)
        lack: str | None = NO_SUCH_CARD
        if allocation is not None:
            resources, port = pod.shape.resources, record.shape.needs_port
            lack = self._ledger.refusal(node, resources, allocation, port=port)
        if lack is not None:
            self._evaluators[pod.scheduler_name].mind_the_ledger()
            return f"{REFUSES}{lack}"
        problem = self.charge(record, node, allocation)
        if problem is not None:
            self.take_back(record)
        return problem

    def charge(self, record: Record, node: NodeName, allocation: Allocation | None) -> str | None:
        """Charge the pod and call Reserve plugins if it is this scheduler's.

        The charge stands even if a plugin fails; returns the failure's text, or None.
        """
        pod = record.pod
        self._ledger.charge(pod.uid, node, pod.shape.resources, allocation)
        record.node, record.allocation = node, allocation
        return self._calls.reserve(pod, node, allocation)

    def release(self, record: Record) -> None:
        """Undo `charge`; the record must be charged."""
        self._end(record, self._ledger.release)
        record.node = record.allocation = None

    def linger(self, record: Record) -> bool:
        """`release` the pod but keep its GPUs charged, because its containers may still run.

        False if it holds none.
        """
        return self._end(record, self._ledger.linger)

    def take_back(self, record: Record) -> None:
        """Undo `place` as if it had not been called."""
        self._end(record, self._ledger.take_back)
        record.node = record.allocation = None

    def _end(self, record: Record, end: Callable[[PodUid], R]) -> R:
        """End the record's charge by `end` of the ledger, and call `unreserve` of plugins."""
        pod, node = record.pod, record.node
        assert node is not None
        result = end(pod.uid)
        self._calls.unreserve(pod, node)
        return result

    def _allocation(self, record: Record, choice: Choice, node: NodeName) -> Allocation | None:
        """The pod's allocation; None if a plugin chose an empty slot."""
        if choice.slots and max(choice.slots) >= len(self._ledger.columns.uuids[choice.row]):
            return None
        self._decisions += 1
        pod = record.pod
        shape, group = record.shape, pod.group
        claim = shape.claim
        cards = self._card_charges(claim, choice) if claim is not None else ()
        return Allocation(
            token=DecisionToken(f"{self._name}-{self._decisions}"),
            dialect=pod.request.dialect if pod.request else "",
            cards=cards,
            exclusive=claim is not None and claim.exclusive,
            port=self._ledger.next_port(node) if shape.needs_port else None,
            group=group.name if group else None,
            min_available=group.min_available if group else 0,
            isolation=self._isolation(pod, cards),
        )

    def _isolation(self, pod: Pod, cards: Sequence[CardCharge]) -> Isolation | None:
        """What enforces its share; None for whole cards and for `none`."""
        if pod.request is None or pod.request.claim.exclusive:
            return None
        profile = self._profiles[pod.scheduler_name]
        backend = profile.isolation.chosen(pod.isolation)
        if backend is IsolationBackend.NONE:
            return None
        limit, share_of = pod.request.limit_milli, pod.request.claim.share_of
        if share_of:
            limit = profile.capacities.limit(limit, share_of, cards[0].model)
        return Isolation(backend, limit)

    def _card_charges(self, claim: GpuClaim, choice: Choice) -> tuple[CardCharge, ...]:
        columns, row, milli = self._ledger.columns, choice.row, claim.milli
        scaled = bool(claim.share_of)
        uuids, names = columns.uuids[row], columns.model_names
        cells = self._ledger.cells_on(row)
        charges = []
        for slot in choice.slots:
            model = names[columns.model.item(row, slot)]
            if scaled:
                milli = claim.milli_on(model)
            memory = claim.bytes_of(columns.capacity_bytes.item(row, slot), model)
            cell = cells.get(uuids[slot], "") if cells else ""
            charges.append(CardCharge(uuids[slot], milli, memory, model, cell))
        return tuple(charges)

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
        evaluator = self._evaluators[shape_queue.profile]
        improved = rows if shape_queue.place_of is None else among(shape_queue, rows)
        if len(improved) <= ROWS_WORTH_HINTS:
            hints = (evaluator.may_fit(shape_queue.shape, row) for row in improved.tolist())
            improved = improved[np.fromiter(hints, np.bool_, len(improved))]
        return bool(len(improved)) and evaluator.fits_any(shape_queue.shape, improved)
