"""One iteration of decisions: gangs and pods are tried in queue order."""

from collections.abc import Sequence

from kubeshare_py.domain.effects import Effect
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.scheduling.binding.iteration_budget import IterationBudget
from kubeshare_py.scheduling.binding.scheduler_state import Queues
from kubeshare_py.scheduling.plugin_retries import PluginRetries
from kubeshare_py.scheduling.pod_groups.gang_cycles import GangCycles
from kubeshare_py.scheduling.preemption.preemption import Preemption
from kubeshare_py.scheduling.queue.attempts import Tried
from kubeshare_py.scheduling.queue.gangs import Gang
from kubeshare_py.scheduling.queue.pod_queue import ShapeQueue
from kubeshare_py.scheduling.queue.reservations import Nominee
from kubeshare_py.scheduling.queue.synced import Synced
from kubeshare_py.scheduling.reservations.reservation_iterations import ReservationIterations
from kubeshare_py.scheduling.schedule_one import Outcome, PodCycles

# Python 3.11 takes 0.15 us to look up a member of an Enum, and each pod passes here.
_PLACED = Outcome.PLACED


class Iterations:
    """Makes the decisions of each iteration."""

    def __init__(
        self,
        queues: Queues,
        budget: IterationBudget,
        pod_cycles: PodCycles,
        gang_cycles: GangCycles,
        reservations: ReservationIterations,
        preemption: Preemption,
        retries: PluginRetries,
    ) -> None:
        self._pod_queue, self._gang_queue, self._shares = queues.pods, queues.gangs, queues.shares
        self._budget = budget
        self._pod_cycles = pod_cycles
        self._gang_cycles = gang_cycles
        self._reservations = reservations
        self._preemption = preemption
        self._retries = retries
        #: Whether the inventory was known to the last iteration.
        self._inventory_read = False
        #: Whether the last iteration left no time for preemption, which had work.
        self._owes_search = False

    @property
    def unfinished(self) -> bool:
        """Whether an iteration would find work without any further event."""
        return (
            self._budget.unfinished
            or self._gang_cycles.unfinished
            or self._reservations.is_due
            or self._retries.is_due
            or (self._inventory_read and self._preemption.is_due)
            or self._preemption.resumes(cards_known=self._inventory_read)
        )

    def run(self, free: int, synced: Synced, now: float) -> list[Effect]:
        """Make at most `free` placements, or those of one gang."""
        ready, self._inventory_read = synced.ready, synced.inventory
        self._retries.look(now)
        self._preemption.begin_iteration(now)
        self._reservations.begin(now)
        is_long = self._gang_cycles.sweeps
        self._budget.begin_iteration(self._gang_cycles.constrained.among, is_long=is_long)
        gangs = ready and self._gang_cycles.has_gangs
        if gangs:
            self._gang_cycles.begin_iteration(now, self._inventory_read)
            if self._gang_cycles.sweeps and not is_long:
                free = 0  # as while shape queues of pods are looked at
        effects: list[Effect] = []
        if ready:
            effects += self._preemption.resume(now, cards_known=self._inventory_read)
            if self._preemption.resumes(cards_known=self._inventory_read):
                free = 0
        effects += self._try_all(free, gangs, now)
        if ready and self._inventory_read:
            effects += self._search(now)
        self._reservations.end(now)
        self._retries.look(now)
        return effects

    # --- inside --------------------------------------------------------------------------------

    def _try_all(self, free: int, gangs: bool, now: float) -> list[Effect]:
        """Try gangs and pods in queue order, as far as this iteration may."""
        effects: list[Effect] = []
        most = free
        while free > 0 and self._budget.may_go_on(most_of_it=self._owes_search):
            first = self._first(gangs, now)
            if first is None:
                if self._new_round():
                    continue
                break
            nominee, shape_queue = first
            if self._reservations.must_wait(nominee):
                continue
            if isinstance(nominee, Gang) and nominee.need > free and free < most:
                break  # the gang gets an iteration of its own
            tried = self._try(nominee, shape_queue, now)
            effects += tried.effects
            free -= tried.placed
        return effects

    def _first(self, gangs: bool, now: float) -> tuple[Nominee, ShapeQueue | None] | None:
        """The next gang in queue order, or the next pod and its shape queue, if there is one."""
        shape_queue = self._pod_queue.next_queue()
        head = shape_queue.head() if shape_queue is not None else None
        gang = self._gang_cycles.first(now) if gangs else None
        if gang is not None and (head is None or gang[0] < head[0]):
            return gang[1], None
        return None if head is None else (head[1], shape_queue)

    def _new_round(self) -> bool:
        """Begin a new round of shares; False if no namespace waits for one."""
        if not self._shares.new_round():
            return False
        self._pod_queue.let_on()
        self._gang_queue.let_on()
        return True

    def _try(self, nominee: Nominee, shape_queue: ShapeQueue | None, now: float) -> Tried:
        """Try a gang, or the first pod of a shape queue; its owner's share pays the cost."""
        before = self._budget.cost
        if isinstance(nominee, Gang):
            owner = nominee.owner
            tried = self._try_gang(nominee, now)
        else:
            assert shape_queue is not None
            owner = shape_queue.owner
            tried = self._try_pod(nominee, shape_queue, now)
        self._shares.spend(owner, self._budget.cost - before, placed=tried.placed)
        return tried

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

    def _try_pod(self, uid: PodUid, shape_queue: ShapeQueue, now: float) -> Tried:
        outcome, effects = self._pod_cycles.run(
            uid, shape_queue, now, inventory_read=self._inventory_read
        )
        if outcome is _PLACED:
            return Tried(1, effects)
        if outcome is Outcome.UNSCHEDULABLE:
            self._preemption.does_not_fit(shape_queue, now)
            self._reservations.does_not_fit(uid, now)
        elif outcome is Outcome.CONSTRAINED:
            self._reservations.does_not_fit(uid, now)
        return Tried(effects=effects)

    def _search(self, now: float) -> Sequence[Effect]:
        """Run preemption; in the next iteration if attempts took more than half of this one."""
        may_go_on = self._budget.may_go_on(most_of_it=True)
        if may_go_on or (self._owes_search and self._budget.is_open):
            self._owes_search = False
            return self._preemption.run(now)
        self._owes_search = self._preemption.is_due
        return ()
