"""Preemptions under way: what to search for next, plans that are carried out, and their ends.

A search follows every attempt that found no place. A plan gives its nominee reservations and
requests the victims' deletion; then the nominee is tried in its turn like all others. It keeps its
reservations until it is bound or gives up. The plan is replaced by another if its place no longer
holds, if the nominee does not fit although all victims have left, or if victims do not leave in
time. Without another plan the nominee gives up.
"""

from collections import Counter
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np

from kubeshare_py.cluster.charge import Charge
from kubeshare_py.configuration.scheduler import SchedulerConfiguration
from kubeshare_py.domain.diagnosis import UNCOUNTED, Diagnosis, histogram
from kubeshare_py.domain.effects import Effect, Evict, Preempt, PreemptionPlan, Preemptor
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.framework.boundary import PluginFailed
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.framework.snapshot import ClusterReading
from kubeshare_py.scheduling.iteration_budget import IterationBudget
from kubeshare_py.scheduling.pre_bind import PreBindCycles
from kubeshare_py.scheduling.preemption.nominations import (
    Evicted,
    EvictionsInFlight,
    Nominations,
    PreemptionHold,
    Resumption,
)
from kubeshare_py.scheduling.preemption.planner import (
    MAX_NODES,
    Planner,
    Survey,
    Where,
    preemptor_of,
)
from kubeshare_py.scheduling.preemption.potential_victims import LowestPriority
from kubeshare_py.scheduling.preemption.preemptor_queue import PreemptionQueue
from kubeshare_py.scheduling.preemption.victim_search import NO_VICTIMS
from kubeshare_py.scheduling.queue.gangs import Gang
from kubeshare_py.scheduling.queue.pod_queue import ShapeQueue
from kubeshare_py.scheduling.queue.pod_records import PodState, Record
from kubeshare_py.scheduling.queue.reservations import (
    Nominee,
    Reservation,
    ReservationCause,
    contender_of,
    contender_with,
    needed,
)
from kubeshare_py.scheduling.queue.timers import Timers
from kubeshare_py.scheduling.state import State

# How long a plan waits for its victims, and how many plans one preemptor gets.


@dataclass(frozen=True, slots=True)
class PreemptionRules:
    """`patience_s`: how long (s) a plan waits for victims that do not leave.

    `most_plans`: how many times one pod or gang may evict others before it is bound.
    """

    patience_s: float = 120.0
    most_plans: int = 5


def preemption_rules(configuration: SchedulerConfiguration) -> PreemptionRules:
    """The rules of a configuration."""
    return PreemptionRules(
        configuration.preemption_patience_seconds, configuration.preemptions_per_pod
    )


# The text about evictions for a pod that fits nowhere, after the reasons of its nodes.
#
# kube-scheduler's PostFilter plugins speak there, DynamicResources before DefaultPreemption. While
# pods are evicted for the pod, they say nothing. The texts are those of v1.36:
# pkg/scheduler/framework/plugins/defaultpreemption and dynamicresources, and
# pkg/scheduler/framework/preemption.


NOT_HELPFUL = "Preemption is not helpful for scheduling"
NEVER = "not eligible due to preemptionPolicy=Never."
REFUSED = "not eligible while the API server refuses its Bindings."
TERMINATING = "not eligible due to a terminating pod on the nominated node."
#: Of a pod without device claims, and of one with some.
NO_CLAIMS, STILL_HELD = "no new claims to deallocate", "still not schedulable"
#: Of nodes beyond those that one search looks at.
NOT_SEARCHED = "node(s) not searched for preemption victims yet"
_DEVICES = "DynamicResources"


class _UnderWay(Protocol):
    """A preemption under way: whether its pod was tried again, and the pods that have to leave."""

    was_tried: bool
    awaited: set[PodUid]


class PostFilterTexts:
    """Words for the reports of pods, from searches that were made anyhow."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        queue: PreemptionQueue,
        under_way: Mapping[Nominee, _UnderWay],
    ) -> None:
        self._profiles = profiles
        self._queue = queue
        self._under_way = under_way

    def text(self, record: Record, diagnosis: Diagnosis) -> str:
        """The text about evictions for this pod; "" while its search is not done."""
        if not diagnosis.counts or not diagnosis.nodes:
            return ""
        profile = self._profiles[record.pod.scheduler_name]
        said = []
        if any(plugin.name == _DEVICES for plugin in profile.filters):
            of_pod, devices = diagnosis.counts[0][1] == UNCOUNTED, record.shape.device_claims
            if of_pod and _DEVICES not in diagnosis.plugins:
                return ""  # kube-scheduler does not come so far: "not found" is all that it says
            # Nothing of claims for a pod that has GPUs and no claims.
            if devices is not None or not record.shape.claims:
                said.append(NO_CLAIMS if of_pod or devices is None else STILL_HELD)
        if profile.post_filters:
            preemption = self._of_preemption(record, diagnosis)
            if preemption is None:
                return ""
            if preemption:
                said.append(f"preemption: {preemption}")
        return ", ".join(said)

    def _of_preemption(self, record: Record, diagnosis: Diagnosis) -> str | None:
        """None while it is not known; "" where there is nothing that a pod with GPUs needs to know.

        Pods without GPUs get kube-scheduler's whole message.
        """
        plan = self._under_way.get(record.pod.uid)
        if not record.pod.preempts:
            return NEVER
        if record.shape.avoided:
            return REFUSED
        if plan is not None:
            return TERMINATING if plan.was_tried and plan.awaited else None
        return self._of_search(record, diagnosis)

    def _of_search(self, record: Record, diagnosis: Diagnosis) -> str | None:
        nodes, near = diagnosis.nodes, diagnosis.in_reach
        is_above = self._queue.is_above_another(record.pod.uid)
        if record.shape.claims and not (near and is_above):
            return ""  # no pod ranks lower, or none is in the way
        if not near:
            return histogram(nodes, [(NOT_HELPFUL, nodes)])
        if not is_above:
            return histogram(nodes, _present({NO_VICTIMS: near, NOT_HELPFUL: nodes - near}))
        found = self._queue.searched(record)
        return found.text if found is not None and found.nodes == nodes else None


def searched_in_vain(survey: Survey, evaluator: Evaluator) -> tuple[int, str]:
    """The number of nodes, and what is said of each after a search without result.

    No text if some node was not looked at, or would have had room.
    """
    columns = evaluator.tables.columns
    nodes = int(columns.present.sum())
    try:
        near = evaluator.evictable_rows_by_first_refusal(survey.shape)
    except PluginFailed:
        return nodes, ""
    is_near = np.zeros(columns.rows, np.bool_)
    is_near[near] = True
    counts: Counter[str] = Counter()
    seen = 0
    for name, texts in (survey.refused or {}).items():
        row = columns.row_of.get(name)
        if row is not None and is_near[row] and texts:
            seen += 1
            counts.update(texts)
    missing = len(near) - seen
    if missing and len(near) <= MAX_NODES:
        return nodes, ""
    counts[NOT_HELPFUL], counts[NOT_SEARCHED] = nodes - len(near), missing
    return nodes, histogram(nodes, _present(counts))


def _present(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return [(text, count) for text, count in counts.items() if count]


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
        state: State,
        pre_binds: PreBindCycles,
        budget: IterationBudget,
        rules: PreemptionRules,
    ) -> None:
        records, gangs, in_use = state.records, state.gangs, state.profiles
        self._records, self._gangs = records, gangs
        self._ledger, self._reservations = state.ledger, state.reservations
        self._lingering = state.lingering
        self._attempts, self._work = state.attempts, in_use.work
        self._snapshots = in_use.snapshots
        planner = self.planner = Planner(
            state.ledger, records, gangs, in_use.snapshots, in_use.profiles, in_use.boundary
        )
        self._kept = PreemptionHold(state.ledger, records, planner)
        self._patience_s = rules.patience_s
        self._pre_binds = pre_binds
        self._given_up: Timers[PreemptionInFlight] = Timers(state.alarms)
        self.under_way: dict[Nominee, PreemptionInFlight] = {}
        self.ranks = LowestPriority()
        state.table.follow_bound(self.ranks)
        self.evictions = EvictionsInFlight(state.table, gangs)
        self._nominations = Nominations(state.table, in_use.profiles)
        #: Pods that the API server shows with a nomination; to be read.
        self.shown = self._nominations.shown
        self.resumption = Resumption(records, gangs)
        #: Plans whose nominee was placed but is not bound yet, with its place; to be read.
        self.placed: dict[PodUid, tuple[PreemptionInFlight, Charge]] = {}
        most = rules.most_plans
        self.queue = PreemptionQueue(state, planner, budget, self.under_way, self.ranks, most)
        self._now = 0.0
        #: Called with a pod whose text about evictions has changed.
        self.report_anew: Callable[[PodUid, float], None] = lambda uid, now: None
        self.texts = PostFilterTexts(in_use.profiles, self.queue, self.under_way)
        self._searched = False
        #: Searches that take several iterations.
        self._surveys: dict[Nominee, Survey] = {}

    @property
    def is_due(self) -> bool:
        """Whether an iteration would search, or find that a plan or nomination has ended."""
        if self.queue.is_due or self._searched or self._nominations.doubtful:
            return True
        holders = self._reservations.holders
        return bool(holders) and any(reservation.is_broken for reservation in holders)

    def seen(self, record: Record, now: float) -> None:
        """Take a pod as the API server shows it: one that is leaving, or is or was nominated."""
        self.evictions.seen(record, now)
        self._nominations.seen(record)

    def gone(self, uid: PodUid) -> None:
        """Forget a pod. It may still hold something until `left` is called."""
        if uid in self._surveys:
            del self._surveys[uid]
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
        decisions; for each, nothing is asked but a new `reading`. A gang's is one portion. The
        record of a pod without a gang need not be one of the machine's.
        """
        gang = self._gangs.of(record.pod.uid)
        nominee: Nominee = gang if gang is not None and gang.needs_quorum else record.pod.uid
        known = self.under_way.get(nominee)
        if known is not None:
            return known.plan, True
        if isinstance(nominee, Gang) and len(nominee.waiting) < max(1, nominee.need):
            return None
        members = needed(nominee, self._records) if isinstance(nominee, Gang) else [record]
        if not self.queue.ranks_above_another(_preemptor_of(nominee, members)):
            return None  # it would not be searched for
        number = self._attempts.preemptions
        survey = None if gang is not None else Survey(number, record.shape)
        plan: PreemptionPlan | None = None
        while survey is None or not survey.is_done:
            now = reading()
            if isinstance(nominee, Gang):
                members = needed(nominee, self._records)
            if not self._reservations.show_in(now.snapshots, contender_with(nominee, members)):
                return None
            planner, leaving = self.planner.for_reading(now), self._leaving(self._now)
            preemptor = _preemptor_of(nominee, members)
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
        for uid, (one, charge) in list(self.placed.items()):
            record = self._records.get(uid)
            if record is not None and record.state in _PLACED:
                continue
            del self.placed[uid]
            is_refused = record is not None and record.state in (PodState.BACKOFF, PodState.WAITING)
            if is_refused and now < one.until:
                self._hold(one, {uid: charge}, now)
                self._nominations.keep(one.plan)

    def resumes(self, *, cards_known: bool) -> bool:
        """Whether plans of an earlier scheduler process must be made anew."""
        return self.resumption.is_due(cards_known=cards_known)

    def resume(self, now: float, *, cards_known: bool) -> list[Effect]:
        """Make anew some plans of an earlier scheduler process.

        No other decision is made while some are left (`resumes`), or other pods would get what was
        freed for those.
        """
        effects: list[Effect] = []
        self.resumption.begin(self._nominations.shown)
        for nominee, nodes in self.resumption.portion(cards_known=cards_known):
            if nominee not in self.under_way and self.queue.may_plan(nominee):
                plan = self._search(nominee, now, nodes, fitting=True)
                if plan is not None:
                    effects.extend(self._begin(nominee, plan, now))
        return effects

    def run(self, now: float) -> Sequence[Effect]:
        """At the end, before all reservations are shown: end plans, and make at most one."""
        self._now = now
        if self.queue.is_idle and not self.under_way and not self._nominations.doubtful:
            self._searched = False
            return ()
        return self._renew_or_search(now)

    def does_not_fit(self, shape_queue: ShapeQueue, now: float) -> None:
        """Take note of a shape queue that fits nowhere: its pods may preempt others."""
        alone = shape_queue.key.alone
        plan = None if alone is None else self.under_way.get(alone)
        if alone is not None and plan is not None and not plan.was_tried:
            plan.was_tried = True
            self.report_anew(alone, now)
        self.queue.unschedulable(shape_queue)

    # --- inside --------------------------------------------------------------------------------

    def _renew_or_search(self, now: float) -> Sequence[Effect]:
        self._note_ends()
        doubtful = self._doubtful(now)
        if doubtful is not None:
            self._searched = True
            return self._renew(doubtful, now)
        nominee = self.queue.take(now)
        self._searched = nominee is not None
        if nominee is None:
            if not self._nominations.doubtful or self.queue.is_behind:
                return []
            return self._nominations.clear_unplanned(now)
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
            self.report_anew(nominee, now)
        return []

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
                self.placed[record.pod.uid] = one, charge

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
        if self._reservations.show_as_seen_by(contender_of(nominee, self._records)) is not None:
            if survey is not None:
                survey.is_done = True
            return None  # that holder is tried first, and this nominee again afterwards
        preemptor = _preemptor_of(nominee, members)
        where = Where(self._attempts.preemptions, nodes, fitting=fitting)
        if survey is not None:
            plan = self.planner.look_on(preemptor, members[0], leaving, survey)
        else:
            plan = self.planner.plan(preemptor, members, leaving, where=where)
        return plan if plan is None or fitting or plan.makes_room else None

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
            reservations.break_on_cards(place.node, {card.uuid for card in cards})
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


def _preemptor_of(nominee: Nominee, members: Sequence[Record]) -> Preemptor:
    """The nominee as a preemptor; its members are the pods that it needs."""
    name = nominee.name if isinstance(nominee, Gang) else ""
    return preemptor_of([record.pod for record in members], name)


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
