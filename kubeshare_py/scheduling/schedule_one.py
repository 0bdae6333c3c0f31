"""One iteration of decisions: gangs and pods are tried in queue order."""

from collections.abc import Sequence

from kubeshare_py.domain.effects import Effect
from kubeshare_py.framework.evaluator import Choice
from kubeshare_py.scheduling.binding.enqueue import report_waiting
from kubeshare_py.scheduling.binding.scheduler_state import SchedulerState
from kubeshare_py.scheduling.plugin_retries import PluginRetries
from kubeshare_py.scheduling.pod_groups.gang_cycles import GangCycles
from kubeshare_py.scheduling.preemption.preemption import Preemption
from kubeshare_py.scheduling.queue import queue_moves
from kubeshare_py.scheduling.queue.attempts import Tried, count
from kubeshare_py.scheduling.queue.gangs import Gang
from kubeshare_py.scheduling.queue.pod_queue import ShapeQueue, SortKey
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.scheduling.queue.reservations import Nominee, Reservation, contender_of
from kubeshare_py.scheduling.reservations.reservation_policy import ReservationPolicy


class SchedulingCycles:
    """Makes the decisions of each iteration."""

    def __init__(
        self,
        state: SchedulerState,
        gang_cycles: GangCycles,
        policy: ReservationPolicy,
        preemption: Preemption,
        retries: PluginRetries,
    ) -> None:
        self._state = state
        self._gang_cycles = gang_cycles
        self._policy = policy
        self._preemption = preemption
        self._retries = retries
        self._capacities = 0
        self._inventory_read = False
        #: Whether the last iteration left no time for preemption, which had work.
        self._owes_search = False

    @property
    def unfinished(self) -> bool:
        """Whether an iteration would find work without any further event."""
        return (
            self._state.assumer.unfinished
            or self._gang_cycles.unfinished
            or self._policy.is_due
            or self._retries.is_due
            or (self._inventory_read and self._preemption.is_due)
            or self._preemption.resumes(cards_known=self._inventory_read)
            or (
                bool(self._state.reservations) and self._capacities != self._state.ledger.capacities
            )
        )

    def run(self, free: int, known: tuple[bool, bool], now: float) -> list[Effect]:
        """Make at most `free` placements, or those of one gang.

        `known`: whether pods and nodes are known, and cards. Between iterations all reservations
        are laid.
        """
        reservations, assumer = self._state.reservations, self._state.assumer
        ready, self._inventory_read = known
        self._retries.look(now)
        self._preemption.begin_iteration(now)
        if reservations:
            self._begin(now)
        is_long = self._gang_cycles.sweeps
        assumer.begin_iteration(self._gang_cycles.constrained.among, is_long=is_long)
        gangs = ready and bool(self._state.gangs.by_key)
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
        self._finish(now)
        return effects

    # --- inside --------------------------------------------------------------------------------

    def _try_all(self, free: int, gangs: bool, now: float) -> list[Effect]:
        """Try gangs and pods in queue order, as far as this iteration may."""
        effects: list[Effect] = []
        most, reservations = free, self._state.reservations
        while free > 0 and self._state.assumer.may_go_on(most_of_it=self._owes_search):
            first = self._first(gangs, now)
            if first is None:
                if self._new_round():
                    continue
                break
            _, who = first
            if reservations and self._must_wait(who):
                continue
            if isinstance(who, Gang) and who.need > free and free < most:
                break  # the gang gets an iteration of its own
            tried = self._try(who, now)
            effects += tried.effects
            free -= tried.placed
        return effects

    def _search(self, now: float) -> Sequence[Effect]:
        """Run preemption; in the next iteration if attempts took more than half of this one."""
        assumer = self._state.assumer
        if assumer.may_go_on(most_of_it=True) or (self._owes_search and assumer.is_open):
            self._owes_search = False
            return self._preemption.run(now)
        self._owes_search = self._preemption.is_due
        return ()

    def _new_round(self) -> bool:
        """Begin a new round of shares; False if no namespace waits for one."""
        if not self._state.shares.new_round():
            return False
        self._state.queue.let_on()
        self._gang_cycles.queue.let_on()
        return True

    def _try(self, who: Gang | ShapeQueue, now: float) -> Tried:
        """Try a gang or a shape queue; the cost counts toward its owner's share."""
        assumer, owner = self._state.assumer, who.owner
        before = assumer.cost
        if isinstance(who, ShapeQueue):
            tried = self._decide(who, now)
        else:
            is_ready = self._gang_cycles.is_prepared(who)
            tried = self._decide_gang(who, now) if is_ready else Tried()
        self._state.shares.spend(owner, assumer.cost - before, placed=tried.placed)
        return tried

    def _finish(self, now: float) -> None:
        """Lay all reservations, and give some to a starving nominee."""
        reservations = self._state.reservations
        for reservation in reservations.lay() if reservations else ():
            self._wake(reservation)
        self._policy.look(now)
        self._retries.look(now)
        if reservations:
            self._gang_cycles.end_iteration(now)

    def _first(self, gangs: bool, now: float) -> tuple[SortKey, Gang | ShapeQueue] | None:
        """The next gang or shape queue in queue order, if there is one."""
        shape_queue = self._state.queue.next_queue()
        head = shape_queue.head() if shape_queue is not None else None
        gang = self._gang_cycles.first(now) if gangs else None
        if gang is not None and (head is None or gang[0] < head[0]):
            return gang
        return None if shape_queue is None or head is None else (head[0], shape_queue)

    def _decide_gang(self, gang: Gang, now: float) -> Tried:
        tried = self._gang_cycles.decide(gang, now)
        if not tried.placed:
            self._policy.gang_waits(gang, now)
        return tried

    def _decide(self, shape_queue: ShapeQueue, now: float) -> Tried:
        """Place the first pod of a shape queue, or mark it unschedulable."""
        head = shape_queue.head()
        assert head is not None
        record = self._state.records[head[1]]
        record.attempts += 1
        if shape_queue.shape.claim is not None and not self._inventory_read:
            self._mark_unschedulable(shape_queue)
            self._state.reports.unread(shape_queue, now)
            return Tried()
        evaluator = self._state.evaluators[shape_queue.profile]
        choice: Choice | str | None = evaluator.best(shape_queue.shape)
        if isinstance(choice, Choice) and self._state.gangs.by_key:
            choice = self._gang_cycles.nearer(record, choice)
        if not isinstance(choice, Choice):
            self._does_not_fit(shape_queue, record, choice, now)
            return Tried()
        refusal = self._state.assumer.place(record, choice)
        if refusal is not None:
            return Tried(effects=self._refused(record, refusal, now))
        binds = self._state.binding_cycles.commit(record.pod.uid, [record])
        self._gang_cycles.one_placed(shape_queue.shape, now)
        return Tried(1, binds)

    def _refused(self, record: Record, refusal: str, now: float) -> list[Effect]:
        """A plugin or the ledger refuses the place: the pod is tried again after a while.

        It keeps its reservations only if other pods were evicted for it.
        """
        uid, reservations = record.pod.uid, self._state.reservations
        if not reservations.is_preemptor(uid):
            reservations.end(uid)
        count(self._state.attempts.unschedulable, record.pod.scheduler_name)
        effects = report_waiting(record, refusal)
        self._state.enqueuer.back_off(record, now)
        return effects

    def _does_not_fit(
        self, shape_queue: ShapeQueue, record: Record, why: str | None, now: float
    ) -> None:
        """Block a shape queue whose first pod does not fit.

        `why` if the reason is not lack of room.
        """
        self._mark_unschedulable(shape_queue)
        self._gang_cycles.constrained.unschedulable(shape_queue, record)
        if why is None:
            self._state.reports.unschedulable(
                shape_queue, self._state.evaluators[shape_queue.profile], now
            )
            self._preemption.queue.unschedulable(shape_queue)
        else:
            self._state.reports.constrained(shape_queue, why, now)
        self._policy.pod_waits(record, now)

    def _mark_unschedulable(self, shape_queue: ShapeQueue) -> None:
        count(self._state.attempts.unschedulable, shape_queue.profile)
        self._state.moves.entered(
            queue_moves.UNSCHEDULABLE, queue_moves.ATTEMPT_FAILURE, len(shape_queue.waiting)
        )
        self._state.queue.mark_unschedulable(shape_queue)

    def _begin(self, now: float) -> None:
        """Check reservations, and look at unschedulable shape queues as if there were none."""
        reservations, capacities = self._state.reservations, self._state.ledger.capacities
        if capacities != self._capacities:
            self._capacities = capacities
            for reservation in reservations.outdated():
                self._wake(reservation)
        if self._state.assumer.sweeps:
            holder = self._policy.due_for_new_plan(now)
            if holder is not None:
                self._wake(holder)
            reservations.lift()

    def _must_wait(self, who: Gang | ShapeQueue) -> bool:
        """Show the cluster as it may see it; True if another holder must be tried first."""
        nominee: Nominee
        if isinstance(who, ShapeQueue):
            head = who.head()
            assert head is not None
            nominee = head[1]
        else:
            nominee = who
        reservation = self._state.reservations.show_to(contender_of(nominee, self._state.records))
        if reservation is not None:
            self._wake(reservation)
        return reservation is not None

    def _wake(self, reservation: Reservation) -> None:
        """Wake the nominee of a reservation."""
        nominee = reservation.nominee
        if isinstance(nominee, Gang):
            gangs = self._gang_cycles.queue
            composition_queue = gangs.queue_of(nominee)
            if composition_queue is not None:
                self._state.moves.woken(sum(len(gang.waiting) for gang in composition_queue.gangs))
                gangs.activate(composition_queue)
        else:
            pods = self._state.queue.queue_of(nominee)
            if pods is not None and pods.unschedulable:
                self._state.moves.woken(len(pods.waiting))
                self._state.queue.activate(pods)
