"""Preemptions under way: what to search for next, plans that are carried out, and their ends.

A search follows every attempt that found no place. A plan gives its nominee reservations and
requests the victims' deletion; then the nominee is tried in its turn like all others. It keeps its
reservations until it is bound or gives up. The plan is replaced by another if its place no longer
holds, if the nominee does not fit although all victims have left, or if victims do not leave in
time. Without another plan the nominee gives up.
"""

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from kubeshare_py.cluster.charge import Charge
from kubeshare_py.domain.effects import Effect, Evict, Preempt
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.preemption import PreemptionPlan, Preemptor
from kubeshare_py.framework.cluster_reading import ClusterReading
from kubeshare_py.framework.profiles_in_use import ProfilesInUse
from kubeshare_py.scheduling.binding.iteration_budget import IterationBudget
from kubeshare_py.scheduling.binding.pre_bind_cycles import PreBindCycles
from kubeshare_py.scheduling.binding.scheduler_state import Charges, Pods, Queues
from kubeshare_py.scheduling.preemption.evictions_in_flight import EvictionsInFlight
from kubeshare_py.scheduling.preemption.hold import Evicted, PreemptionHold
from kubeshare_py.scheduling.preemption.lowest_priority import LowestPriority
from kubeshare_py.scheduling.preemption.nominations import Nominations
from kubeshare_py.scheduling.preemption.planner import Planner, Where, preemptor_of
from kubeshare_py.scheduling.preemption.post_filter_text import PostFilterTexts, searched_in_vain
from kubeshare_py.scheduling.preemption.preemptor_queue import PreemptionQueue
from kubeshare_py.scheduling.preemption.resumption import Resumption
from kubeshare_py.scheduling.preemption.rules import PreemptionRules
from kubeshare_py.scheduling.preemption.survey import Survey
from kubeshare_py.scheduling.queue.gangs import Gang
from kubeshare_py.scheduling.queue.pod_queue import ShapeQueue
from kubeshare_py.scheduling.queue.pod_records import PodState, Record
from kubeshare_py.scheduling.queue.reservations import (
    Nominee,
    Reservation,
    ReservationCause,
    contender_of,
    needed,
)
from kubeshare_py.scheduling.queue.timers import Timers

#: The reason in the victims' condition, and that of their event, as kube-scheduler has them.
REASON, EVENT = "PreemptionByScheduler", "Preempted"
#: What is said of a pod whose placement ends before it is bound.
PREEMPTED = "its place goes to a pod of higher priority"

#: States of a nominee that was placed and is not bound yet.
_PLACED = (PodState.PREBINDING, PodState.ASSUMED)


@dataclass(slots=True, eq=False)
class PreemptionInFlight:
    """A plan that is carried out until `until` (s).

    `evicted` are its victims, those of the nominee's earlier plans, and those of other plans that
    leave its cards. `awaited` are the pods that still hold something. `was_tried`: the nominee was
    tried since, and does not fit yet.
    """

    nominee: Nominee
    plan: PreemptionPlan
    until: float
    evicted: Sequence[Evicted]
    awaited: set[PodUid] = field(default_factory=set)
    was_tried: bool = False


#: The most pods of nodes that a portion of a dry run looks at, 5 to 10 µs each.
PODS_LOOKED_AT = 500


class Preemption:
    """Searches and carries out plans, at the end of each iteration."""

    def __init__(
        self,
        pods: Pods,
        queues: Queues,
        charges: Charges,
        profiles: ProfilesInUse,
        budget: IterationBudget,
        rules: PreemptionRules,
        pre_binds: PreBindCycles,
    ) -> None:
        self._records, self._gangs = pods.records, pods.gangs
        self._ledger, self._reservations = charges.ledger, charges.reservations
        self._lingering = charges.lingering
        self._attempts, self._work = queues.attempts, profiles.work
        self._snapshots = profiles.snapshots
        records = pods.records
        planner = self.planner = Planner(
            charges.ledger,
            records,
            pods.gangs,
            profiles.snapshots,
            profiles.profiles,
            profiles.boundary,
        )
        self._kept = PreemptionHold(charges.ledger, records, planner)
        self._patience_s = rules.patience_s
        self._pre_binds = pre_binds
        self._given_up: Timers[PreemptionInFlight] = Timers()
        self.under_way: dict[Nominee, PreemptionInFlight] = {}
        self.ranks = LowestPriority()
        pods.table.follow(self.ranks)
        self.evictions = EvictionsInFlight(pods.table, pods.gangs)
        self._nominations = Nominations(records, profiles.profiles)
        self._resumption = Resumption(records, pods.gangs)
        #: Plans whose nominee was placed but is not bound yet, with its place.
        self._placed: dict[PodUid, tuple[PreemptionInFlight, Charge]] = {}
        most = rules.most_plans
        self.queue = PreemptionQueue(
            records, queues, planner, budget, self.under_way, self.ranks, most
        )
        self._now = 0.0
        #: Called with a pod about which something else is to be said now.
        self.told: Callable[[PodUid, float], None] = lambda uid, now: None
        self.texts = PostFilterTexts(profiles.profiles, self.queue, self.under_way)
        self._searched = False
        #: Searches that take several iterations.
        self._surveys: dict[Nominee, Survey] = {}

    @property
    def is_due(self) -> bool:
        """Whether an iteration would search, or find that a plan or nomination has ended."""
        if self.queue.is_due or self._searched or self._nominations.is_due:
            return True
        return any(reservation.is_broken for reservation in self._reservations.holders)

    @property
    def next_at(self) -> float:
        """When time alone changes something; infinity if it does not."""
        return min(
            self._given_up.next_at,
            self.queue.next_at,
            self.evictions.next_at,
            self._nominations.next_at,
        )

    def seen(self, record: Record | None, now: float) -> None:
        """Take a pod as the API server shows it."""
        if record is None:
            return
        self.evictions.seen(record, now)
        self._nominations.seen(record)

    def gone(self, uid: PodUid) -> None:
        """Forget a pod. It may still hold something until `left` is called."""
        self._surveys.pop(uid, None)
        self._nominations.gone(uid)
        self.evictions.gone(uid)

    def left(self, uid: PodUid) -> None:
        """A pod no longer holds anything."""
        self._not_awaited(uid)

    def dry_run(
        self, record: Record, reading: Callable[[], ClusterReading]
    ) -> Generator[None, None, tuple[PreemptionPlan, bool] | None]:
        """The plan that would be made for a waiting pod, also if the pod may not preempt.

        With it, whether that plan is being carried out. The search is made in portions, as that of
        decisions; for each, nothing is asked but a new `reading`. A gang's is one portion.
        """
        gang = self._gangs.of(record.pod.uid)
        nominee: Nominee = gang if gang is not None and gang.needs_quorum else record.pod.uid
        known = self.under_way.get(nominee)
        if known is not None:
            return known.plan, True
        if isinstance(nominee, Gang) and len(nominee.waiting) < max(1, nominee.need):
            return None
        if not self.queue.is_above_another(nominee):
            return None  # it would not be searched for
        number = self._attempts.preemptions
        survey = None if gang is not None else Survey(number, record.shape)
        plan: PreemptionPlan | None = None
        while survey is None or not survey.is_done:
            now = reading()
            contender = contender_of(nominee, self._records)
            if not self._reservations.show_in(now.snapshots, contender):
                return None
            planner, leaving = self.planner.for_reading(now), self._leaving(self._now)
            preemptor, members = self._preemptor(nominee), needed(nominee, self._records)
            if survey is None:
                plan = planner.plan(preemptor, members, leaving, where=Where(number))
                break
            plan = planner.look_on(preemptor, record, leaving, survey, most_pods=PODS_LOOKED_AT)
            yield
        return None if plan is None or not plan.makes_room else (plan, False)

    def time_passed(self, now: float) -> list[Evict]:
        """Repeat requests to victims that do not leave, and in the end give them up."""
        self.queue.time_passed(now)
        self._nominations.time_passed(now)
        if self._given_up.due(now):
            self._searched = True
        repeated, staying = self.evictions.time_passed(now)
        for uid in staying:
            self._not_awaited(uid)
            # Nothing became free that would wake the pods that waited for it.
            self._searched = True
        return repeated

    def begin_iteration(self, now: float) -> None:
        """Give a nominee whose Binding was refused its place back, before others are tried."""
        for uid, (one, charge) in list(self._placed.items()):
            record = self._records.get(uid)
            if record is not None and record.state in _PLACED:
                continue
            del self._placed[uid]
            is_refused = record is not None and record.state in (PodState.BACKOFF, PodState.WAITING)
            if is_refused and now < one.until:
                self._hold(one, {uid: charge}, now)
                self._nominations.keep(one.plan)

    def resumes(self, *, cards_known: bool) -> bool:
        """Whether plans of an earlier scheduler process must be made anew."""
        return self._resumption.is_due(cards_known=cards_known)

    def resume(self, now: float, *, cards_known: bool) -> list[Effect]:
        """Make anew some plans of an earlier scheduler process.

        No other decision is made while some are left (`resumes`), or other pods would get what was
        freed for those.
        """
        effects: list[Effect] = []
        self._resumption.begin(self._nominations.shown)
        for nominee, nodes in self._resumption.portion(cards_known=cards_known):
            if nominee not in self.under_way and self.queue.may_plan(nominee):
                plan = self._search(nominee, now, nodes, fitting=True)
                if plan is not None:
                    effects.extend(self._begin(nominee, plan, now))
        return effects

    def run(self, now: float) -> Sequence[Effect]:
        """At the end, before all reservations are shown: end plans, and make at most one."""
        self._now = now
        self._note_ends()
        doubtful = self._doubtful(now)
        if doubtful is not None:
            self._searched = True
            return self._renew(doubtful, now)
        nominee = self.queue.take(now)
        self._searched = nominee is not None
        if nominee is None:
            return [] if self.queue.is_behind else self._nominations.take_back(now)
        survey = self._survey(nominee)
        before = self._work.cost
        plan = self._search(nominee, now, survey=survey)
        self.queue.spend(nominee, self._work.cost - before)
        if survey is not None and not survey.is_done:
            return []
        self._surveys.pop(nominee, None)
        if plan is not None:
            return self._begin(nominee, plan, now)
        if survey is None or isinstance(nominee, Gang):
            self.queue.futile(nominee, now)
        else:
            evaluators = self._snapshots.shown.evaluators
            evaluator = evaluators[self._records[nominee].pod.scheduler_name]
            self.queue.futile(nominee, now, searched_in_vain(survey, evaluator))
            self.told(nominee, now)
        return []

    def does_not_fit(self, shape_queue: ShapeQueue, now: float) -> None:
        """A shape queue was tried and does not fit."""
        alone = shape_queue.key.alone
        plan = None if alone is None else self.under_way.get(alone)
        if alone is not None and plan is not None and not plan.was_tried:
            plan.was_tried = True
            self.told(alone, now)
        self.queue.unschedulable(shape_queue)

    # --- inside --------------------------------------------------------------------------------

    def _survey(self, nominee: Nominee) -> Survey | None:
        """The unfinished search for this pod; None for members of gangs."""
        record = None if isinstance(nominee, Gang) else self._records[nominee]
        known = self._surveys.get(nominee)
        if record is not None and known is not None and known.shape == record.shape:
            return known
        self._attempts.preemptions += 1
        if record is None or self._gangs.of(record.pod.uid) is not None:
            return None
        survey = Survey(self._attempts.preemptions, record.shape)
        self._surveys[nominee] = survey
        return survey

    def _note_ends(self) -> None:
        """End plans whose nominee was placed, is gone, or may not be tried."""
        for one in list(self.under_way.values()):
            nominee = one.nominee
            if self._reservations.of(nominee) is not None:
                continue
            record = None if isinstance(nominee, Gang) else self._records.get(nominee)
            self._end(one)
            charge = None if record is None else self._ledger.charge_of(record.pod.uid)
            if record is not None and record.state in _PLACED and charge is not None:
                self._placed[record.pod.uid] = one, charge

    def _doubtful(self, now: float) -> PreemptionInFlight | None:
        """The first plan that no longer holds, or that gave its nominee nothing."""
        for reservation in self._reservations.holders:
            one = self.under_way.get(reservation.nominee)
            if one is None:
                continue
            in_vain = not one.awaited and self.queue.was_tried(one.nominee)
            if reservation.is_broken or in_vain or one.until <= now:
                return one
        return None

    def _renew(self, one: PreemptionInFlight, now: float) -> list[Effect]:
        """Replace a plan by another; what it keeps is not handed out meanwhile."""
        nominee, plan = one.nominee, None
        reservation = self._reservations.of(nominee)
        is_broken = reservation is not None and reservation.is_broken
        # A nominee that had room all along, and did not get it, would not get it the next time.
        had_to_wait = self.queue.was_tried(nominee) and (one.plan.victims or one.plan.awaited)
        if (is_broken or one.awaited or had_to_wait) and self.queue.may_plan(nominee):
            self._attempts.preemptions += 1
            plan = self._search(nominee, now, fitting=True)
            if plan is None:
                self.queue.futile(nominee, now)
        if plan is None:
            self._give_up(one)
            return []
        del self.under_way[nominee]
        self._nominations.end(one.plan)
        return self._begin(nominee, plan, now, self._kept.carried(one.evicted))

    def _search(
        self,
        nominee: Nominee,
        now: float,
        nodes: Collection[NodeName] | None = None,
        *,
        fitting: bool = False,
        survey: Survey | None = None,
    ) -> PreemptionPlan | None:
        """Search on the cluster as the nominee may see it.

        `nodes` are the only acceptable ones. `fitting`: also places that need no victim. With
        `survey`, only a portion is searched, and there is no plan until it is done.
        """
        members, leaving = needed(nominee, self._records), self._leaving(now)
        if self._reservations.show_to(contender_of(nominee, self._records)) is not None:
            if survey is not None:
                survey.is_done = True
            return None  # that holder is tried first, and this nominee again afterwards
        preemptor = self._preemptor(nominee)
        where = Where(self._attempts.preemptions, nodes, fitting=fitting)
        if survey is not None:
            plan = self.planner.look_on(preemptor, members[0], leaving, survey)
        else:
            plan = self.planner.plan(preemptor, members, leaving, where=where)
        return plan if plan is None or fitting or plan.makes_room else None

    def _preemptor(self, nominee: Nominee) -> Preemptor:
        name = nominee.name if isinstance(nominee, Gang) else ""
        return preemptor_of([record.pod for record in needed(nominee, self._records)], name)

    def _leaving(self, now: float) -> list[Record]:
        """The pods that are expected to leave without another eviction."""
        leaving = [
            self._records[uid]
            for uid, since in self.evictions.since.items()
            if now < since + self._patience_s and self._ledger.charge_of(uid) is not None
        ]
        return leaving + [one.record for one in self._lingering.pods()]

    def _begin(
        self,
        nominee: Nominee,
        plan: PreemptionPlan,
        now: float,
        before: Sequence[Evicted] = (),
    ) -> list[Effect]:
        """Carry a plan out; `before` are pods that were evicted for the same nominee."""
        evicted = {one.pod.uid: one for one in (*before, *self._kept.evicted(plan))}
        one = PreemptionInFlight(nominee, plan, now + self._patience_s, [*evicted.values()])
        one.awaited.update(victim.uid for victim in plan.victims)
        one.awaited.update(plan.awaited)
        self._hold(one, self._kept.places(plan), now)
        self._given_up.add(one.until, one)
        self.queue.count(nominee, plan)
        first = plan.nominations[0]
        effects: list[Effect] = [Preempt(first.uid, first.key, plan)]
        effects.extend(self._nominations.begin(plan))
        for victim in plan.victims:
            record = self._records[victim.uid]
            if record.state is PodState.PREBINDING:
                effects.extend(self._pre_binds.end(record, PREEMPTED, now))
            elif record.node is not None:  # no placement that ended with another one's
                eviction = _eviction(record, plan)
                effects.append(eviction)
                self.evictions.ask(eviction, partial(self._awaits, nominee, victim.uid), now)
        for victim in plan.victims:
            if self._records[victim.uid].node is None:
                self._not_awaited(victim.uid)
        if plan.victims and not one.awaited:
            self.queue.wake(nominee)
        return effects

    def _hold(self, one: PreemptionInFlight, places: Mapping[PodUid, Charge], now: float) -> None:
        """Keep these places for the plan's nominee, in place of its earlier ones."""
        reservations, nominee, plan = self._reservations, one.nominee, one.plan
        for place in places.values():
            cards = place.allocation.cards if place.allocation is not None else ()
            reservations.took(place.node, {card.uuid for card in cards})
        reservation = reservations.of(nominee)
        if reservation is None or reservation.cause is not ReservationCause.PREEMPTS:
            reservations.end(nominee)
            contender = contender_of(nominee, self._records)
            name = f'pod group "{plan.preemptor.namespace}/{plan.preemptor.name}"'
            if not isinstance(nominee, Gang):
                name = f"pod {contender.pods[0].key}"
            reservation = Reservation(nominee, contender.key, name, ReservationCause.PREEMPTS, now)
        reservation.yields_to = self._kept.rule(plan, one.evicted)
        reservation.shapes = {uid: self._records[uid].shape for uid in places}
        beside = self._kept.beside(places, one.evicted, reservation.beside)
        reservations.hold(reservation, places, now, beside)
        self.under_way[nominee] = one
        self.queue.set_apart(nominee)
        if not one.awaited:
            self.queue.wake(nominee)

    def _awaits(self, nominee: Nominee, uid: PodUid) -> bool:
        """Whether the nominee's plan still needs this pod to leave."""
        one = self.under_way.get(nominee)
        return one is not None and uid in one.awaited

    def _give_up(self, one: PreemptionInFlight) -> None:
        """End a plan whose nominee does not get its place."""
        self._reservations.end(one.nominee)
        self._end(one)

    def _end(self, one: PreemptionInFlight) -> None:
        del self.under_way[one.nominee]
        self._nominations.end(one.plan)
        self.queue.again(one.nominee)

    def _not_awaited(self, uid: PodUid) -> None:
        """No plan waits for this pod any more: it has left, or it stays."""
        for one in self.under_way.values():
            one.awaited.discard(uid)


def _eviction(record: Record, plan: PreemptionPlan) -> Evict:
    """The eviction of a victim, with a note for its owner.

    Events are read by all who may read the victim's namespace, and these may not be allowed to see
    names in others: of a preemptor there the uid is told, as by kube-scheduler, which says
    something only to those who may list its pods. Names within the namespace are no secret.
    """
    pod, preemptor = record.pod, plan.preemptor
    what = "pod group" if preemptor.is_gang else "pod"
    if preemptor.namespace == pod.key.namespace:
        by = f"{what} {preemptor.namespace}/{preemptor.name}"
    else:
        by = f"a {what} of another namespace with higher priority"
        by += f" ({'with pod' if preemptor.is_gang else 'uid'} {plan.nominations[0].uid})"
    message = f"{pod.scheduler_name}: preempting to accommodate a higher priority pod"
    note = f"Preempted by {by} on node {record.node}"
    return Evict(pod.uid, pod.key, REASON, message, EVENT, note, preemptor.namespace)
