"""Reservations during an iteration: each nominee sees the places that it may take.

A holder whose places another pod has taken is tried before the nominees behind it.

Between iterations all reservations are shown.
"""

from collections.abc import Mapping

from kubeshare_py.domain.identity import PodUid
from kubeshare_py.scheduling.binding.iteration_budget import IterationBudget
from kubeshare_py.scheduling.binding.scheduler_state import Charges, Queues
from kubeshare_py.scheduling.queue.gangs import Gang
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.scheduling.queue.reservations import Nominee, Reservation, contender_of
from kubeshare_py.scheduling.reservations.reservation_policy import ReservationPolicy


class ReservationIterations:
    """Shows and hides reserved places, and wakes the nominees whose reservations changed."""

    def __init__(
        self,
        records: Mapping[PodUid, Record],
        queues: Queues,
        charges: Charges,
        policy: ReservationPolicy,
        budget: IterationBudget,
    ) -> None:
        self._records = records
        self._pod_queue, self._gang_queue, self._moves = queues.pods, queues.gangs, queues.moves
        self._ledger, self._reservations = charges.ledger, charges.reservations
        self._policy, self._budget = policy, budget
        self._capacities = 0

    @property
    def is_due(self) -> bool:
        """Whether an iteration must check reservations, or look at the first nominees."""
        if self._policy.is_due:
            return True
        return bool(self._reservations) and self._capacities != self._ledger.capacities

    def begin(self, now: float) -> None:
        """Check reservations, and look at unschedulable shape queues as if there were none."""
        if not self._reservations:
            return
        if self._ledger.capacities != self._capacities:
            self._capacities = self._ledger.capacities
            for reservation in self._reservations.outdated():
                self._wake(reservation)
        if self._budget.sweeps:
            holder = self._policy.due_for_new_plan(now)
            if holder is not None:
                self._wake(holder)
            self._reservations.show_without_any()

    def must_wait(self, nominee: Nominee) -> bool:
        """Show the cluster as the nominee may see it; True if another holder is tried first."""
        if not self._reservations:
            self._reservations.show_all()
            return False
        reservation = self._reservations.show_to(contender_of(nominee, self._records))
        if reservation is not None:
            self._reservations.lose(reservation)
            self._wake(reservation)
        return reservation is not None

    def does_not_fit(self, nominee: Nominee, now: float) -> None:
        """A gang, or the first pod of a shape queue, was tried and does not fit."""
        if isinstance(nominee, Gang):
            self._policy.gang_waits(nominee, now)
        else:
            self._policy.pod_waits(self._records[nominee], now)

    def end(self, now: float) -> None:
        """Show all reservations, and give some to a starving nominee."""
        self._reservations.show_all()
        for reservation in self._reservations.lose_taken():
            self._wake(reservation)
        self._policy.look(now)

    def _wake(self, reservation: Reservation) -> None:
        """Wake the nominee of a reservation."""
        nominee = reservation.nominee
        if isinstance(nominee, Gang):
            queue = self._gang_queue.queue_of(nominee)
            if queue is not None:
                self._moves.woken(sum(len(gang.waiting) for gang in queue.gangs))
                self._gang_queue.activate(queue)
        else:
            shape_queue = self._pod_queue.queue_of(nominee)
            if shape_queue is not None and shape_queue.unschedulable:
                self._moves.woken(len(shape_queue.waiting))
                self._pod_queue.activate(shape_queue)
