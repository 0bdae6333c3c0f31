"""One iteration of decisions: gangs and pods are tried in queue order.

The scheduling cycle of one pod is in `pod_cycle`; that of a gang is in `pod_groups/gang_cycles`.
"""

from collections.abc import Sequence

from kubeshare_py.domain.effects import Effect
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.scheduling.iteration_budget import IterationBudget
from kubeshare_py.scheduling.pod_cycle import Outcome, PodCycles
from kubeshare_py.scheduling.pod_groups.gang_cycles import GangCycles
from kubeshare_py.scheduling.preemption.preemption import Preemption
from kubeshare_py.scheduling.queue.gangs import Gang
from kubeshare_py.scheduling.queue.pod_queue import ShapeQueue
from kubeshare_py.scheduling.queue.pod_records import Tried
from kubeshare_py.scheduling.queue.waiting_reports import Synced
from kubeshare_py.scheduling.reservation_policy import ReservationIterations
from kubeshare_py.scheduling.retries import PluginRetries
from kubeshare_py.scheduling.state import State

# Python 3.11 takes 0.15 us to look up a member of an Enum, and each pod passes here.
_PLACED = Outcome.PLACED


class Iterations:
    """Makes the decisions of each iteration."""

    def __init__(
        self,
        state: State,
        budget: IterationBudget,
        pod_cycles: PodCycles,
        gang_cycles: GangCycles,
        reservations: ReservationIterations,
        preemption: Preemption,
        retries: PluginRetries,
    ) -> None:
        self._pod_queue, self._gang_queue = state.queue, state.gang_queue
        self._shares, self._gangs = state.shares, state.gangs
        self._budget = budget
        self._pod_cycles = pod_cycles
        self._gang_cycles = gang_cycles
        self._reservations, self._reserved = reservations, state.reservations
        self._preemption, self._resumption = preemption, preemption.resumption
        self._retries, self._failures = retries, state.profiles.boundary.failures
        #: Whether the inventory was known to the last iteration.
        self._inventory_read = False
        #: Whether the last iteration left no time for preemption, which had work.
        self._owes_search = False

    @property
    def unfinished(self) -> bool:
        """Whether an iteration would find work without any further event."""
        return (
            self._budget.unfinished
            or (bool(self._gangs.by_key) and self._gang_cycles.unfinished)
            or self._reservations.is_due
            or (self._failures.total > 0 and self._retries.is_due)
            or (self._inventory_read and self._preemption.is_due)
            or (
                bool(self._resumption.left)
                and self._preemption.resumes(cards_known=self._inventory_read)
            )
        )

    def run(self, free: int, synced: Synced, now: float) -> list[Effect]:
        """Make at most `free` placements, or those of one gang."""
        ready, self._inventory_read = synced.ready, synced.inventory
        if self._failures.total:
            self._retries.look(now)
        if self._preemption.placed:
            self._preemption.begin_iteration(now)
        if self._reserved.holders:
            self._reservations.begin(now)
        is_long = bool(self._gang_cycles.unswept)
        self._budget.begin_iteration(self._gang_cycles.constrained.among, is_long=is_long)
        gangs = ready and bool(self._gangs.by_key)
        if gangs:
            self._gang_cycles.begin_iteration(now, self._inventory_read)
            if self._gang_cycles.unswept and not is_long:
                free = 0  # as while shape queues of pods are looked at
        effects: list[Effect] = []
        left = self._resumption.left
        if ready and (left is None or left):
            effects += self._preemption.resume(now, cards_known=self._inventory_read)
            if self._preemption.resumes(cards_known=self._inventory_read):
                free = 0
        effects += self._try_all(free, gangs, now)
        if ready and self._inventory_read:
            effects += self._search(now)
        self._reservations.end(now)
        if self._failures.total:
            self._retries.look(now)
        return effects

    # --- inside --------------------------------------------------------------------------------

    def _try_all(self, free: int, gangs: bool, now: float) -> list[Effect]:
        """Try gangs and pods in queue order, as far as this iteration may."""
        effects: list[Effect] = []
        most = free
        while free > 0 and self._budget.may_go_on(most_of_it=self._owes_search):
            gang, shape_queue = self._first(gangs, now)
            if gang is not None:
                if self._reservations.gives_way(gang):
                    continue
                if gang.need > free and free < most:
                    break  # the gang gets an iteration of its own
                before, owner = self._budget.cost, gang.owner
                placed, found = self._try_gang(gang, now)
            elif shape_queue is not None:
                _, uid = shape_queue.heap[0]
                if self._reservations.gives_way(uid):
                    continue
                before, owner = self._budget.cost, shape_queue.owner
                placed, found = self._try_pod(uid, shape_queue, now)
            elif self._shares.spent and self._new_round():
                continue
            else:
                break
            # The owner's share pays the cost.
            self._shares.spend(owner, self._budget.cost - before, placed=placed)
            effects += found
            free -= placed
        return effects

    def _first(self, gangs: bool, now: float) -> tuple[Gang | None, ShapeQueue | None]:
        """The next gang in queue order, or the shape queue of the next pod; at most one."""
        shape_queue = self._pod_queue.next_queue()
        gang = self._gang_cycles.first(now) if gangs else None
        if gang is not None and (shape_queue is None or gang[0] < shape_queue.heap[0][0]):
            return gang[1], None
        return None, shape_queue

    def _new_round(self) -> bool:
        """Begin a new round of shares; False if no namespace waits for one."""
        if not self._shares.new_round():
            return False
        self._pod_queue.let_on()
        self._gang_queue.let_on()
        return True

    def _try_gang(self, gang: Gang, now: float) -> Tried:
        if not self._gang_cycles.is_prepared(gang):
            return Tried()
        renewed = self._gang_cycles.renew(gang, now)
        if renewed is not None:
            return Tried(effects=renewed)
        tried = self._gang_cycles.decide(gang, now)
        if not tried.placed:
            self._reservations.does_not_fit(gang, now)
        return tried

    def _try_pod(
        self, uid: PodUid, shape_queue: ShapeQueue, now: float
    ) -> tuple[int, Sequence[Effect]]:
        """How many pods were placed, 1 or 0, and the effects, as `Tried`."""
        outcome, effects = self._pod_cycles.run(
            uid, shape_queue, now, inventory_read=self._inventory_read
        )
        if outcome is _PLACED:
            return 1, effects
        if outcome is Outcome.UNSCHEDULABLE:
            self._preemption.does_not_fit(shape_queue, now)
            self._reservations.does_not_fit(uid, now)
        elif outcome is Outcome.CONSTRAINED:
            self._reservations.does_not_fit(uid, now)
        return 0, effects

    def _search(self, now: float) -> Sequence[Effect]:
        """Run preemption; in the next iteration if attempts took more than half of this one."""
        may_go_on = self._budget.may_go_on(most_of_it=True)
        if may_go_on or (self._owes_search and self._budget.is_open):
            self._owes_search = False
            return self._preemption.run(now)
        self._owes_search = self._preemption.is_due
        return ()
