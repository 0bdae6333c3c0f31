"""The scheduling cycle of one pod: the first of its shape queue, which stands for the others."""

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple

from kubeshare_py.domain.diagnosis import WaitingReason
from kubeshare_py.domain.effects import Effect
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.framework.choice import Choice
from kubeshare_py.framework.snapshot import Snapshots
from kubeshare_py.scheduling.binding.enqueue import report_waiting
from kubeshare_py.scheduling.binding.pre_bind_cycles import NotCommitted
from kubeshare_py.scheduling.binding.scheduler_state import PodLifecycle, Queues
from kubeshare_py.scheduling.pod_groups.gang_cycles import GangCycles
from kubeshare_py.scheduling.queue import queue_moves
from kubeshare_py.scheduling.queue.attempts import count
from kubeshare_py.scheduling.queue.pod_queue import ShapeQueue
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.scheduling.queue.reservations import Reservations
from kubeshare_py.scheduling.queue.waiting_reports import WaitingReports


class Outcome(Enum):
    """How a scheduling cycle ended."""

    PLACED = auto()
    REFUSED = auto()  # by a plugin or the ledger: the pod is in backoff
    UNFINISHED = auto()  # a plugin has yet to look at some nodes: the pod is asked about again
    STALE = auto()  # other pods' terms select the pod now, or no longer: its shape is another one
    UNREAD = auto()  # the inventory is not known: the shape queue waits for it
    CONSTRAINED = auto()  # no room in the domain that the shape queue is tied to
    UNSCHEDULABLE = auto()  # no node fits


# Python 3.11 takes 0.15 us to look up a member of an Enum, and each pod passes here.
_PLACED = Outcome.PLACED


class Decided(NamedTuple):
    """The end of a scheduling cycle, and its effects in order."""

    outcome: Outcome
    effects: Sequence[Effect] = ()


class PodCycles:
    """Places pods, or marks their shape queues unschedulable."""

    def __init__(
        self,
        records: Mapping[PodUid, Record],
        queues: Queues,
        reservations: Reservations,
        steps: PodLifecycle,
        snapshots: Snapshots,
        reports: WaitingReports,
        gang_cycles: GangCycles,
    ) -> None:
        self._queue, self._moves, self._attempts = queues.pods, queues.moves, queues.attempts
        self._records, self._reservations = records, reservations
        self._enqueuer, self._assumer = steps.enqueuer, steps.assumer
        self._binding_cycles, self._pre_binds = steps.binding_cycles, steps.pre_binds
        self._snapshots = snapshots
        self._reports = reports
        self._gang_cycles = gang_cycles

    def run(
        self, uid: PodUid, shape_queue: ShapeQueue, now: float, *, inventory_read: bool
    ) -> Decided:
        """Place this pod, the first of the shape queue, or find out why there is no place."""
        record = self._records[uid]
        if self._enqueuer.is_stale(record):
            # It waits in the queue of another shape from now on, which is tried in its turn.
            effects = self._enqueuer.enqueue(record, now, queue_moves.FORCE_ACTIVATE)
            return Decided(Outcome.STALE, effects)
        record.attempts += 1
        if shape_queue.shape.claims and not inventory_read:
            self._mark_unschedulable(shape_queue, now)
            self._reports.unread(shape_queue, now)
            return Decided(Outcome.UNREAD)
        kept_out = self._kept_out(record, now)
        if kept_out is not None:
            return Decided(Outcome.REFUSED, kept_out)
        snapshot = self._snapshots.shown
        best = snapshot.evaluators[shape_queue.profile].best(shape_queue.shape)
        choice = None if best is None else self._gang_cycles.nearer(record, best)
        if not isinstance(choice, Choice):
            return Decided(self._does_not_fit(shape_queue, record, choice, now))
        refusal = self._assumer.place(record, choice, snapshot.tables)
        if refusal is not None:
            return Decided(Outcome.REFUSED, self._refused(record, refusal, now))
        record.flushed = shape_queue.flushed
        return self._commit(record, shape_queue, now)

    # --- inside --------------------------------------------------------------------------------

    def _kept_out(self, record: Record, now: float) -> list[Effect] | None:
        """What follows if the pod is not to get a place now, wherever there is one; else None."""
        over = self._assumer.quotas.refusal(record.pod)
        if over is not None:
            return self._refused(record, over, now)
        full = self._pre_binds.full_for([record]) if record.pre_binds else None
        return None if full is None else self._held(record, full)

    def _commit(self, record: Record, shape_queue: ShapeQueue, now: float) -> Decided:
        """Commit a pod that was charged to its place."""
        committed = self._binding_cycles.commit(record.pod.uid, [record], now)
        if not isinstance(committed, NotCommitted):
            self._gang_cycles.one_placed(shape_queue.shape, now)
            return Decided(_PLACED, committed)
        if committed.is_full:
            return Decided(Outcome.REFUSED, self._held(record, committed))
        return Decided(Outcome.REFUSED, self._refused(record, committed.sentence, now))

    def _held(self, record: Record, full: NotCommitted) -> list[Effect]:
        """Too many placements wait for PreBind plugins: the pod leaves the queue for a while."""
        self._reservations.end(record.pod.uid)
        count(self._attempts.unschedulable, record.pod.scheduler_name)
        return self._pre_binds.hold([record], full.sentence)

    def _refused(self, record: Record, refusal: str, now: float) -> list[Effect]:
        """A plugin or the ledger refuses the place: the pod is tried again after a while.

        It keeps its reservations only if other pods were evicted for it.
        """
        uid = record.pod.uid
        if not self._reservations.is_preemptor(uid):
            self._reservations.end(uid)
        count(self._attempts.unschedulable, record.pod.scheduler_name)
        effects = report_waiting(record, refusal, WaitingReason.SCHEDULER_ERROR)
        self._enqueuer.back_off(record, now)
        return effects

    def _does_not_fit(
        self, shape_queue: ShapeQueue, record: Record, why: str | None, now: float
    ) -> Outcome:
        """Mark a shape queue unschedulable; `why` if the reason is not lack of room.

        A plugin that has yet to look at some nodes is asked again in the namespace's next turn.
        """
        evaluator = self._snapshots.shown.evaluators[shape_queue.profile]
        if why is None and evaluator.is_unfinished(shape_queue.shape):
            return Outcome.UNFINISHED
        self._mark_unschedulable(shape_queue, now)
        self._gang_cycles.constrained.unschedulable(shape_queue, record)
        if why is not None:
            self._reports.constrained(shape_queue, why, now)
            return Outcome.CONSTRAINED
        self._reports.unschedulable(shape_queue, evaluator, now)
        return Outcome.UNSCHEDULABLE

    def _mark_unschedulable(self, shape_queue: ShapeQueue, now: float) -> None:
        count(self._attempts.unschedulable, shape_queue.profile)
        self._moves.entered(
            queue_moves.UNSCHEDULABLE, queue_moves.ATTEMPT_FAILURE, len(shape_queue.waiting)
        )
        self._queue.mark_unschedulable(shape_queue, now)
