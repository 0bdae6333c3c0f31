"""The scheduling cycles of gangs: which are complete, decided, or wait for room.

Late members that must be in one domain with their gang wait in shape queues of their own.
"""

import math
from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.ledger import ANYWHERE
from kubeshare_py.domain.diagnosis import Diagnosis, WaitingReason
from kubeshare_py.domain.effects import Effect
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.remembered import MAX_BYTES, weight_of
from kubeshare_py.framework.result_cache import SHAPES_KEPT, Choice
from kubeshare_py.scheduling.enqueue import Enqueuer
from kubeshare_py.scheduling.iteration_budget import ROWS_WORTH_SWEEPING, IterationBudget
from kubeshare_py.scheduling.pod_cycle import Assumer, BindingCycles
from kubeshare_py.scheduling.pod_groups.gang_places import GangPlaces, fix_models, wants_one_model
from kubeshare_py.scheduling.pod_groups.gang_plan import Forbidden, GangPlan, Placed
from kubeshare_py.scheduling.pod_groups.gang_repair import GangRepair, RepairRules
from kubeshare_py.scheduling.pod_groups.gang_reports import GangReports, too_varied
from kubeshare_py.scheduling.pre_bind import NotCommitted, PreBindCycles
from kubeshare_py.scheduling.queue import pod_records
from kubeshare_py.scheduling.queue.gang_queue import CompositionQueue
from kubeshare_py.scheduling.queue.gangs import Composition, Gang, MemberRole, Shortage
from kubeshare_py.scheduling.queue.pod_queue import ShapeQueue, SortKey
from kubeshare_py.scheduling.queue.pod_records import Record, Tried, count
from kubeshare_py.scheduling.queue.reservations import contender_of
from kubeshare_py.scheduling.queue.timers import Alarms, Timers
from kubeshare_py.scheduling.queue.waiting_reports import (
    INVENTORY_PATIENCE_S,
    PODS_A_SECOND,
    SAME_REASONS_S,
    UNASKED_S,
    UNREAD,
)
from kubeshare_py.scheduling.state import (
    State,
)

# Late members of a gang that must be in one domain with it and find no room there.
#
# They wait in shape queues of their own, because room elsewhere does not help them. Such a shape
# queue is woken when a row of its domain improves, and when the domain changes: members left or
# came, or labels of nodes changed.


class ConstrainedMembers:
    """Knows which gangs have such members."""

    def __init__(self, state: State, places: GangPlaces) -> None:
        self._ledger, self._gangs = state.ledger, state.gangs
        self._queue, self._moves = state.queue, state.moves
        self._places = places
        #: The nodes of the other members when such members were last tried.
        self._nodes: dict[Gang, frozenset[NodeName]] = {}
        self._relabelled = 0

    def unschedulable(self, shape_queue: ShapeQueue, record: Record) -> None:
        """The first pod of a shape queue was tried and does not fit."""
        gang = self._gangs.of(record.pod.uid)
        if shape_queue.place_of is not None and gang is not None:
            self._nodes[gang] = frozenset(gang.nodes())

    def clear(self) -> None:
        """Forget all gangs."""
        self._nodes.clear()

    def among(self, shape_queue: ShapeQueue, rows: IntArray) -> IntArray:
        """Those of the rows, (k,) int64, where the pods of this shape queue may be."""
        head = shape_queue.head()
        gang = self._gangs.of(head[1]) if head is not None else None
        if shape_queue.place_of is None or gang is None:
            return rows
        at = self._places.rows_of(gang.nodes())
        found: IntArray = rows[self._places.allowed(shape_queue.place_of[2], at).take(rows)]
        return found

    def look(self) -> None:
        """Wake the shape queues if labels of nodes changed, because domains may have changed."""
        if self._relabelled != self._ledger.relabelled.end:
            self._relabelled = self._ledger.relabelled.end
            for gang in list(self._nodes):
                self._wake(gang)

    def changed(self, gang: Gang) -> None:
        """Wake the shape queues of a gang that is on other nodes now."""
        nodes = self._nodes.get(gang)
        if nodes is not None and (not gang.waiting or nodes != frozenset(gang.nodes())):
            self._wake(gang)

    def _wake(self, gang: Gang) -> None:
        del self._nodes[gang]
        for uid in gang.waiting:
            shape_queue = self._queue.queue_of(uid)
            if (
                shape_queue is not None
                and shape_queue.unschedulable
                and shape_queue.place_of is not None
            ):
                self._moves.woken(len(shape_queue.waiting))
                self._queue.activate(shape_queue)


# The scheduling cycles of gangs: which are complete, decided, or wait for room.


#: The most compositions whose shortage is cached.
SHORTAGES_KEPT = 256
#: The most shapes of a gang's waiting members: what is known of all must be kept from one iteration
#: to the next until the gang is tried, in one iteration.
MAX_SHAPES = SHAPES_KEPT // 2
#: Seconds without a new pod after which owners that are too small alone count as one run, if they
#: are enough together. Controllers make all pods of one owner in one go, with shorter pauses.
UNITE_AFTER_S = 2.0
#: Seconds without a new pod after which a gang that has started, and has lost all of its places,
#: goes on with the pods that are there. Those that failed together are mostly made anew together.
GO_ON_AFTER_S = 10.0


@dataclass(slots=True)
class _KnownShortage:
    """The shortage of a composition, when it was computed, and the ledger's change number then."""

    shortage: Shortage
    found_at: float
    found_from: int
    #: The size of its composition in bytes.
    weight: int


class GangCycles:
    """Decides gangs; keeps which of them wait for room."""

    def __init__(
        self,
        state: State,
        enqueuer: Enqueuer,
        assumer: Assumer,
        pre_binds: PreBindCycles,
        binding_cycles: BindingCycles,
        budget: IterationBudget,
        rules: RepairRules,
    ) -> None:
        self._records, self._gangs = state.records, state.gangs
        self._pod_queue, self.queue, self._shares = state.queue, state.gang_queue, state.shares
        self._moves, self._attempts = state.moves, state.attempts
        self._ledger, self._reservations = state.ledger, state.reservations
        self._enqueuer, self._binding_cycles = enqueuer, binding_cycles
        self._pre_binds, self._budget = pre_binds, budget
        in_use = state.profiles
        self._evaluators, self._snapshots = in_use.evaluators, in_use.snapshots
        places = self.places = GangPlaces(state.ledger, in_use.profiles, in_use.boundary)
        self._plan = GangPlan(state, assumer, places)
        self.constrained = ConstrainedMembers(state, places)
        #: Those of gangs alone: nothing is due while there is no gang. To be read.
        alarms = self.alarms = Alarms()
        self.reports = GangReports(alarms)
        self._repair = GangRepair(state, enqueuer, binding_cycles, rules, alarms)
        self._rested: Timers[Gang] = Timers(alarms)
        self._look: Timers[Composition] = Timers(alarms)
        self._quiet: Timers[Gang] = Timers(alarms)
        self._known: OrderedDict[Composition, _KnownShortage] = OrderedDict()
        self._swept = 0
        #: Composition queues to be looked at after rows improved; to be read.
        self.unswept: list[CompositionQueue] = []
        #: The remaining questions about the last of them.
        self._looks: Iterator[bool] | None = None
        self._inventory_read = False

    @property
    def unfinished(self) -> bool:
        """Whether an iteration would find work without any further event."""
        if self.unswept or self._gangs.touched or self.queue.has_more:
            return True
        # Rows may have improved while composition queues were looked at for earlier improvements.
        is_behind = self._swept != self._ledger.improved.end
        return bool(self.queue.joined) or (is_behind and bool(self.queue.queues()))

    def start_anew(self) -> None:
        """Empty the queue; all gangs are looked at again."""
        self.queue.clear()
        self.unswept.clear()
        self._looks = None
        self.constrained.clear()
        self._reservations.replan_all()
        self._known.clear()
        for gang in self._gangs.all():
            # Pods of a gang that needs no quorum are about to enter shape queues of their own.
            gang.queued_by = None if gang.needs_quorum else gang.first
            self._gangs.touched[gang] = None

    def time_passed(self, now: float) -> list[Effect]:
        """Handle deadlines, old reports, and gangs whose pause is over."""
        # A gang that the last answers completed is not late.
        self._settle(now)
        effects = self._repair.look(now)
        self.reports.look(now)
        for gang in self._rested.due(now):
            self._gangs.touched[gang] = None
        for gang in self._quiet.due(now):
            if gang.is_short and now >= gang.quiet_at:
                self._go_on(gang, now)
        for composition in self._look.due(now):
            known = self._known.get(composition)
            is_old = known is None or known.found_from != self._ledger.changed.end
            for composition_queue in self.queue.queues_of(composition):
                if composition_queue.shortage is None:
                    for gang in composition_queue.gangs:
                        self.reports.report(gang, UNREAD)
                elif is_old:
                    self.queue.activate(composition_queue)
        return effects

    def begin_iteration(self, now: float, inventory_read: bool) -> None:
        """Look at changes, and wake the gangs that improved rows may have room for."""
        self._settle(now)
        self.constrained.look()
        read_just_now = inventory_read and not self._inventory_read
        self._inventory_read = inventory_read
        improved = self._ledger.improved.end
        if read_just_now or (improved != self._swept and not self.unswept):
            since = self._ledger.improved.since(self._swept, ROWS_WORTH_SWEEPING)
            no_row = not read_just_now and since is not None and bool((since == ANYWHERE).all())
            self._swept = improved
            self.unswept, self._looks = self._fewest_last(cluster_wide=no_row), None
        while self.unswept and self._budget.may_look_on():
            self._look_on(self.unswept[-1])
        self._shares.unswept.update(composition_queue.owner for composition_queue in self.unswept)
        self.queue.let_on()

    def is_prepared(self, gang: Gang) -> bool:
        """Whether all its shapes were asked about; asks about some, as far as cost allows."""
        unasked = [one for one in gang.shapes if not self._evaluators[one[0]].knows(one[1])]
        for number, (profile, shape) in enumerate(unasked, 1):
            self._snapshots.shown.rooms[profile].total(shape)
            if number < len(unasked) and not self._budget.has_budget():
                return False
        return True

    def first(self, now: float) -> tuple[SortKey, Gang] | None:
        """The next gang to be tried, and its sort key."""
        gang = self.queue.first()
        if self.queue.joined:
            self._report_joined(now)
        return None if gang is None else (gang.key, gang)

    def renew(self, gang: Gang, now: float) -> list[Effect] | None:
        """Enqueue members anew whose labels matter in another way now; None if there are none."""
        stale = [one for one in gang.waiting.values() if self._enqueuer.became_stale(one)]
        if not stale:
            return None
        effects: list[Effect] = []
        for record in stale:
            effects += self._enqueuer.enqueue(record, now, pod_records.FORCE_ACTIVATE)
        self._settle(now)
        return effects

    def decide(self, gang: Gang, now: float) -> Tried:
        """Place all members that the gang needs, or none."""
        for record in gang.waiting.values():
            record.attempts += 1
        claims = any(shape.claims for _, shape in gang.shapes)
        if claims and not self._inventory_read:
            self._mark_unschedulable(gang, None, now)
            self._look.add(now + INVENTORY_PATIENCE_S, gang.composition)
            return Tried()
        members = list(gang.waiting.values())
        full = None
        if any(record.pre_binds for record in members):
            full = self._pre_binds.full_for(members[: gang.need])
        if full is not None:
            return Tried(effects=self._hold(gang, full))
        answer = None
        if self._plan.may_fit(self._snapshots.shown, gang.shapes, gang.need):
            answer = self._plan.place(self._snapshots.shown, gang)
        if isinstance(answer, Placed):
            committed = self._binding_cycles.commit(gang, answer.records, now)
            if not isinstance(committed, NotCommitted):
                self.queue.remove(gang)
                gang.tries, gang.shortage = 0, None
                self._settle(now)
                return Tried(len(answer.records), committed)
            if committed.is_full:
                return Tried(effects=self._hold(gang, committed))
            answer = Forbidden(committed.record, committed.sentence)
        count(self._attempts.unschedulable, next(iter(gang.shapes))[0])
        if isinstance(answer, Forbidden):
            self._rest(gang, answer, now)
            return Tried()
        self._mark_unschedulable(gang, self._shortage(gang, now), now)
        return Tried(effects=self._repair.cannot_fit(gang, now))

    def nearer(self, record: Record, choice: Choice) -> Choice | str:
        """The place for a pod; for a gang's member, near those that have places.

        A sentence if it must share their topology domain, and there is no room.
        """
        gang = self._gangs.of(record.pod.uid)
        if gang is None:
            return choice
        return self._plan.near(self._snapshots.shown, gang, record, choice)

    def one_placed(self, shape: Shape, now: float) -> None:
        """A pod of this shape was placed, which may fix the model of its gang's other members."""
        if wants_one_model(shape) and self._gangs.touched:
            self._settle(now)

    def late_member_waits(self, shape_queue: ShapeQueue, record: Record) -> None:
        """The first pod of a shape queue that is tied to a gang's domain does not fit there."""
        self.constrained.unschedulable(shape_queue, record)

    # --- inside --------------------------------------------------------------------------------

    def _look_on(self, composition_queue: CompositionQueue) -> None:
        """Ask about one more shape of the last composition queue of the sweep.

        Wake its gangs if they may fit.

        A change between two such questions begins a sweep of its own.
        """
        if self.queue.is_unschedulable(composition_queue):
            if self._looks is None:
                self._looks = self._plan.each_look(
                    lambda: self._snapshots.shown, composition_queue.shapes, composition_queue.need
                )
            may_fit = True if composition_queue.shortage is None else next(self._looks, None)
            if may_fit is False:
                return  # there may be further shapes
            if may_fit:
                self._moves.woken(sum(len(gang.waiting) for gang in composition_queue.gangs))
                self.queue.activate(composition_queue)
        self.unswept.pop()
        self._looks = None

    def _fewest_last(self, *, cluster_wide: bool) -> list[CompositionQueue]:
        """Queues of unschedulable compositions, those of namespaces with few of them at the end.

        `cluster_wide`: only those with a shape whose placement depends on more than one node.
        """
        composition_queues = [
            one
            for one in self.queue.queues()
            if not cluster_wide or any(shape.is_cluster_wide for _, shape in one.shapes)
        ]
        counts = Counter(composition_queue.owner for composition_queue in composition_queues)
        return sorted(
            composition_queues,
            key=lambda composition_queue: (
                -counts[composition_queue.owner],
                composition_queue.owner,
            ),
        )

    def _settle(self, now: float) -> None:
        for gang in self._gangs.take_touched():
            self._repair.note(gang, now)
            self._reservations.changed(gang)
            if gang.is_divided:
                self._leave(gang)  # it is looked at again when all its members are enqueued
                continue
            if fix_models(gang) and gang.queued_by is not None:
                self._leave_queues(gang)
            if gang.needs_quorum:
                self._gather(gang, now)
            else:
                self._disperse(gang)
            self.constrained.changed(gang)

    def _gather(self, gang: Gang, now: float) -> None:
        """Queue the gang once it has enough members."""
        if gang.queued_by is not None:
            self._leave_queues(gang)
        if len(gang.waiting) < gang.need or gang.rests_until > now:
            self._leave(gang)
            if len(gang.waiting) < gang.need:
                self.reports.incomplete(gang, now)
                self._await_members(gang, now)
            return
        if len(gang.shapes) > MAX_SHAPES:
            self._leave(gang)
            self.reports.report(gang, too_varied(gang, MAX_SHAPES))
            return
        self.reports.meets_others(gang)
        gang.key = self._key(gang)
        reservations = self._reservations
        self.queue.put(gang, alone=reservations.is_preemptor(gang))
        composition_queue = self.queue.queue_of(gang)
        if (
            composition_queue is not None
            and reservations
            and reservations.takes_precedence(contender_of(gang, self._records))
        ):
            self.queue.activate(composition_queue)
        self._report_joined(now)

    def _await_members(self, gang: Gang, now: float) -> None:
        """Too few members are there: look at the gang again when no more have come for a while."""
        leaving = gang.counts[MemberRole.LEAVING]
        if not gang.is_short or (gang.alive, leaving) == gang.quiet_with:
            return
        gang.quiet_with = gang.alive, leaving
        if leaving:
            gang.quiet_at = math.inf  # their successors are yet to come
            return
        gang.quiet_at = now + (GO_ON_AFTER_S if gang.started else UNITE_AFTER_S)
        if gang.started or len(gang.runs) > 1:
            self._quiet.add(gang.quiet_at, gang)

    def _go_on(self, gang: Gang, now: float) -> None:
        """No more members have come for a while, and these are too few to start."""
        if gang.started:
            gang.goes_on = True
            self._gangs.touched[gang] = None
        elif not self._gangs.unite(gang, now):
            self.reports.meets_others(gang)

    def _leave_queues(self, gang: Gang) -> None:
        """Remove its members from shape queues of single pods."""
        for uid in gang.waiting:
            self._pod_queue.remove(uid)
            self._reservations.end(uid)
            gang.unreported[uid] = None
        gang.queued_by = None

    def _key(self, gang: Gang) -> SortKey:
        """The gang's sort key: that of the last member that it needs."""
        for record in gang.waiting.values():
            if not record.key or gang.keyed_by != gang.first:
                record.key = self._enqueuer.key(record, gang)
        gang.keyed_by = gang.first
        last = sorted(gang.waiting.values(), key=lambda record: record.key)[gang.need - 1]
        return self._enqueuer.gang_key(last, gang)

    def _disperse(self, gang: Gang) -> None:
        """From now on each member waits alone."""
        self._leave(gang)
        if gang.queued_by != gang.first:
            for uid, record in gang.waiting.items():
                self._pod_queue.remove(uid)
                self._enqueuer.join_queue(record, gang, pod_records.FORCE_ACTIVATE)
            gang.queued_by = gang.first
            gang.unreported.clear()
            gang.diagnosis = None

    def _leave(self, gang: Gang) -> None:
        """The gang does not wait for room any more."""
        self.queue.remove(gang)
        self._reservations.end(gang)
        gang.short_since = None

    def _mark_unschedulable(self, gang: Gang, shortage: Shortage | None, now: float) -> None:
        self._moves.entered(
            pod_records.UNSCHEDULABLE, pod_records.ATTEMPT_FAILURE, len(gang.waiting)
        )
        for record in gang.waiting.values():
            record.flushed = False
        self.queue.mark_unschedulable(gang, now).shortage = shortage
        self._report_joined(now)

    def _report_joined(self, now: float) -> None:
        for gang in self.queue.joined:
            self.queue.newcomers[gang] = None
            composition_queue = self.queue.queue_of(gang)
            if composition_queue is not None and composition_queue.shortage is not None:
                if gang.short_since is None:
                    gang.short_since = now
                self.reports.short(gang, composition_queue.shortage)
        self.queue.joined.clear()

    def _shortage(self, gang: Gang, now: float) -> Shortage:
        """The shortage, computed now or some seconds ago, because that takes a while."""
        composition = gang.composition
        known = self._known.get(composition)
        wait_s = max(SAME_REASONS_S, len(gang.waiting) / PODS_A_SECOND)
        if known is not None and now < known.found_at + wait_s:
            gang.shortage, gang.short_at = known.shortage, known.found_at
        if gang.shortage is not None and now < gang.short_at + wait_s:
            self._look.add(gang.short_at + wait_s, composition)
            return gang.shortage
        shortage = gang.shortage = self._plan.shortage(self._snapshots.shown, gang)
        gang.short_at = now
        self._known[composition] = _KnownShortage(
            shortage, now, self._ledger.changed.end, weight_of(composition)
        )
        kept = sum(known.weight for known in self._known.values())
        while len(self._known) > SHORTAGES_KEPT or (kept > MAX_BYTES and len(self._known) > 1):
            kept -= self._known.popitem(last=False)[1].weight
        self._look.add(now + max(UNASKED_S, wait_s), composition)
        return shortage

    def _hold(self, gang: Gang, full: NotCommitted) -> list[Effect]:
        """Too many placements wait for PreBind plugins: all members leave the queue for a while."""
        count(self._attempts.unschedulable, next(iter(gang.shapes))[0])
        self._leave(gang)
        return self._pre_binds.hold(list(gang.waiting.values()), full.sentence)

    def _rest(self, gang: Gang, refusal: Forbidden, now: float) -> None:
        """A plugin refused a place: the gang is tried again after a pause."""
        member = refusal.record.pod.key.name
        sentence = f'pod group "{gang.title}": no place for {member}: {refusal.sentence}'
        refused = Diagnosis(sentence=sentence, reason=WaitingReason.SCHEDULER_ERROR)
        self.reports.report(gang, refused)
        self._leave(gang)
        gang.tries += 1
        gang.rests_until = now + self._enqueuer.backoff.after(gang.tries)
        self._rested.add(gang.rests_until, gang)
        self._moves.entered(pod_records.BACKOFF, pod_records.ATTEMPT_FAILURE, len(gang.waiting))
