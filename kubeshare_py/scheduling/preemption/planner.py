"""Makes preemption plans, for the machine to carry out or for a dry run.

Reads the machine's state. A plan is a value, and making one changes nothing.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import product
from typing import assert_never

import numpy as np

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.cluster_objects import Budget
from kubeshare_py.domain.effects import NominatedPlace, PreemptionPlan, Preemptor, Victim
from kubeshare_py.domain.events import BudgetEvent, BudgetGone, BudgetSeen, BudgetsListed
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.pod import Pod, Shape
from kubeshare_py.framework.boundary import Boundary, PluginFailed, gives_way
from kubeshare_py.framework.points import lower_priority
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.framework.snapshot import ClusterReading, Snapshot, Snapshots
from kubeshare_py.scheduling.pod_groups.gang_places import (
    NOWHERE,
    ProfileShape,
    kind_of,
    models_for,
    places_by,
)
from kubeshare_py.scheduling.preemption.potential_victims import (
    EvictionGroup,
    PotentialVictims,
    cost,
    importance,
)
from kubeshare_py.scheduling.preemption.victim_search import (
    Candidate,
    Portion,
    Reprieve,
    TrialPlacement,
    TrialRows,
    VictimSearch,
)
from kubeshare_py.scheduling.queue.gangs import Gangs
from kubeshare_py.scheduling.queue.pod_records import Record

# Plans a preemption: places for pods that fit nowhere, and the fewest victims.
#
# Pure: it reads the machine's state and works on private rows. First all pods that leave anyhow are
# removed. Then each pod is put where it fits, or where the least important pods would have to go.
# In the end victims that turn out not to be needed are reprieved. For several pods the search is
# greedy: no single victim could stay, but a quite different choice may do with fewer.


#: The most nodes searched for one pod, others next time; kube-scheduler takes a tenth of all.
MAX_NODES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftPlan:
    """A draft plan.

    The nodes of its rows, the pods with their places there, and the eviction groups to evict.
    """

    names: Sequence[NodeName]
    placements: Sequence[TrialPlacement]
    groups: Sequence[EvictionGroup]


class PreemptionSearch:
    """One search for one preemptor's pods; `leaving` are pods that are expected to leave."""

    def __init__(
        self,
        snapshot: Snapshot,
        potential_victims: PotentialVictims,
        leaving: Sequence[Record] = (),
        model: str = "",
    ) -> None:
        """`model` is the model for pods that want one model and leave it open; "" if none."""
        self._snapshot = snapshot
        self._ledger, self._evaluators = snapshot.ledger, snapshot.evaluators
        self._potential_victims = potential_victims
        self._leaving = leaving
        self._model = model

    def find(
        self,
        members: Sequence[Record],
        start: int = 0,
        among: IntArray | None = None,
        *,
        fitting: bool = False,
        portion: Portion | None = None,
    ) -> DraftPlan | None:
        """Places for all of these pods, or None.

        `start` selects the nodes where there are many. `among`, (k,) int64, are the only acceptable
        rows. `fitting`: for one pod, also places where it fits without victims. `portion`: for one
        pod, the part of the rows to search.
        """
        kinds: dict[ProfileShape, list[Record]] = {}
        for record in members:
            kinds.setdefault(kind_of(record, self._model), []).append(record)
        index = self._rows_for(list(kinds), start if len(members) == 1 else None, among)
        if fitting and len(members) == 1:
            free = self._fitting(list(kinds), among)
            index = np.union1d(index, np.roll(free, -(start % max(1, len(free))))[:MAX_NODES])
        trial = TrialRows(self._snapshot, index, self._model)
        self._potential_victims.gone.update(record.pod.uid for record in self._leaving)
        trial.take_away(self._leaving)
        groups: list[EvictionGroup] = []
        for kind, records in sorted(kinds.items(), key=_hardest_first):
            if not self._place_all(trial, kind, records, groups, portion):
                return None
        if len(members) > 1 or any(group.whole for group in groups):
            groups = Reprieve(self._snapshot, self._potential_victims, trial, groups).reprieve()
        return DraftPlan(names=trial.names(), placements=trial.placements, groups=groups)

    # --- the rows ------------------------------------------------------------------------------

    def _rows_for(
        self, kinds: Sequence[ProfileShape], start: int | None, among: IntArray | None
    ) -> IntArray:
        """For one pod some rows that evictions may help; for several, all where any may fit."""
        near = [self._evaluators[profile].evictable_rows(shape) for profile, shape in kinds]
        if among is not None:
            near = [np.intersect1d(rows, among) for rows in near]
        if start is not None:
            rows = near[0]
            some = np.roll(rows, -(start % max(1, len(rows))))[:MAX_NODES]
            return np.union1d(some, self._refused_later(kinds[0], rows, among, len(some)))
        return np.unique(np.concatenate([*near, self._fitting(kinds, among)]))

    def _refused_later(
        self, kind: ProfileShape, near: IntArray, among: IntArray | None, taken: int
    ) -> IntArray:
        """Rows that a later filter refuses, whatever is evicted; kube-scheduler tries them, too.

        They are for what is said of a search in vain.
        """
        rows = np.setdiff1d(
            self._evaluators[kind[0]].evictable_rows_by_first_refusal(kind[1]), near
        )
        if among is not None:
            rows = np.intersect1d(rows, among)
        return rows[: MAX_NODES - taken]

    def _fitting(self, kinds: Sequence[ProfileShape], among: IntArray | None) -> IntArray:
        """The rows where pods of one of these kinds fit without victims."""
        fitting = [
            np.flatnonzero(self._evaluators[profile].row_scores(shape) >= 0)
            for profile, shape in kinds
        ]
        rows: IntArray = np.unique(np.concatenate(fitting))
        return rows if among is None else np.intersect1d(rows, among)

    # --- places --------------------------------------------------------------------------------

    def _place_all(
        self,
        trial: TrialRows,
        kind: ProfileShape,
        records: Sequence[Record],
        groups: list[EvictionGroup],
        portion: Portion | None,
    ) -> bool:
        """Find places for pods of one kind, with victims where they fit nowhere else."""
        left = list(records)
        trial.fill(kind, left, trial.everywhere)
        search = VictimSearch(
            self._ledger, self._evaluators[kind[0]], trial.rows, self._potential_victims
        )
        known: dict[int, list[Candidate]] = {}
        stale = set(trial.everywhere.tolist())
        while left:
            for position in stale:
                known.pop(position, None)
            for candidate in search.candidates(kind[1], sorted(stale), portion):
                known.setdefault(candidate.position, []).append(candidate)
            stale = self._evict(trial, known, len(left), groups)
            if not stale:
                return False
            before = len(left)
            trial.fill(kind, left, np.array(sorted(stale), np.int64), one_each=True)
            if len(left) == before:
                return False
        return True

    def _evict(
        self,
        trial: TrialRows,
        known: Mapping[int, Sequence[Candidate]],
        most: int,
        groups: list[EvictionGroup],
    ) -> set[int]:
        """Take the best candidates that do not affect each other; the positions that changed."""
        # The best of each position, and of a position that was taken its next one: the end.
        ranked = [(some[0].cost, 0, position) for position, some in known.items() if some]
        heapify(ranked)
        taken: dict[int, Candidate] = {}
        gangs: set[object] = set()
        while ranked and len(taken) < most:
            _, number, position = heappop(ranked)
            candidate = known[position][number]
            shared = {group.gang for group in candidate.groups if group.gang is not None}
            if number or shared & gangs:
                break
            taken[position] = candidate
            gangs |= shared
            if len(known[position]) > 1:
                heappush(ranked, (known[position][1].cost, 1, position))
        going = [group for candidate in taken.values() for group in candidate.groups]
        self._potential_victims.take(going)
        groups += going
        changed = trial.take_away([record for group in going for record in group.records])
        if gangs:
            # How many members of a gang may go has changed now, at every position with members.
            changed |= {
                position
                for position, candidates in known.items()
                if any(
                    group.gang in gangs for candidate in candidates for group in candidate.groups
                )
            }
        return changed | set(taken)


def _hardest_first(entry: tuple[ProfileShape, Sequence[Record]]) -> tuple[int, int, int]:
    """Sorts shapes that take most of a node first."""
    shape = entry[0][1]
    cpu = sum(amount for name, amount in shape.resources if name == "cpu")
    cards = sum(claim.count for claim in shape.claims)
    return -cards, -sum(claim.milli for claim in shape.claims), -cpu


# The progress of the search for one pod, of which each iteration does a portion.


@dataclass(slots=True)
class Survey:
    """The search for a pod of this shape.

    `number` is that of `Where`. `node` is the best node yet, and `cost` the cost of its victims.
    `refused` says why no eviction helps on the nodes looked at; None if the search was not made.
    """

    number: int
    shape: Shape
    model: int = 0
    begin: int = 0
    node: NodeName | None = None
    cost: tuple[int, ...] = ()
    refused: dict[NodeName, tuple[str, ...]] | None = None
    is_done: bool = False

    def looked(self, draft: DraftPlan | None, portion: Portion, models: int) -> bool:
        """Record the outcome of a portion; whether that portion was the whole search."""
        if draft is not None and (self.node is None or cost(draft.groups) < self.cost):
            self.node, self.cost = draft.names[draft.placements[0].position], cost(draft.groups)
        self.refused = {**(self.refused or {}), **portion.refused}
        is_all = not self.begin and portion.end is None and models == 1
        self.begin = portion.end or 0
        self.model += portion.end is None
        self.is_done = self.model >= models
        return is_all


# Makes preemption plans, for the machine to carry out or for a dry run.
#
# Reads the machine's state. A plan is a value, and making one changes nothing.


#: The most topology domains that are searched for pods that must share one; others next time.
MAX_PLACES = 64


@dataclass(frozen=True, slots=True)
class Where:
    """Where to look for places.

    `number` selects the nodes and domains to search, where there are too many for all. `nodes` are
    the only acceptable ones, None for any. `fitting`: also places where no victim is needed.
    """

    number: int = 0
    nodes: Collection[NodeName] | None = None
    fitting: bool = False


ANYWHERE = Where()


class Planner:
    """Makes plans; keeps the disruption budgets."""

    def __init__(
        self,
        ledger: Ledger,
        records: Mapping[PodUid, Record],
        gangs: Gangs,
        snapshots: Snapshots,
        profiles: Mapping[str, Profile],
        boundary: Boundary,
    ) -> None:
        self._ledger = ledger
        self._records = records
        self._gangs = gangs
        self._snapshots = snapshots
        self._profiles = profiles
        self._boundary = boundary
        self.budgets: dict[PodKey, Budget] = {}

    def for_reading(self, reading: ClusterReading) -> "Planner":
        """A planner whose questions leave no trace."""
        planner = Planner(
            reading.ledger,
            self._records,
            self._gangs,
            reading.snapshots,
            self._profiles,
            reading.boundary,
        )
        planner.budgets = self.budgets
        return planner

    def budgets_changed(self, event: BudgetEvent) -> None:
        """Take disruption budgets as the API server shows them."""
        match event:
            case BudgetSeen(budget=budget):
                self.budgets[budget.key] = budget
            case BudgetGone(key=key):
                self.budgets.pop(key, None)
            case BudgetsListed(budgets=budgets, unreadable=unreadable):
                kept = [one for key, one in self.budgets.items() if key in unreadable]
                self.budgets = {budget.key: budget for budget in (*budgets, *kept)}
            case _:
                assert_never(event)

    def plan(
        self,
        preemptor: Preemptor,
        members: Sequence[Record],
        leaving: Sequence[Record] = (),
        rule: Callable[[Pod], bool] | None = None,
        where: Where = ANYWHERE,
    ) -> PreemptionPlan | None:
        """Places for all these pods, and the victims.

        None if no eviction would help or a plugin fails.

        `leaving` are pods that leave anyhow. `rule` says which pods may be evicted, in place of the
        profile.
        """
        try:
            yields = rule or self.rule(members[0].pod.scheduler_name, preemptor)
            best = self._best(members, leaving, yields, where)
        except PluginFailed:
            return None
        return None if best is None else self._as_plan(preemptor, best, leaving)

    def look_on(
        self,
        preemptor: Preemptor,
        member: Record,
        leaving: Sequence[Record],
        survey: Survey,
        *,
        most_pods: int | None = None,
    ) -> PreemptionPlan | None:
        """The next portion of the search for one pod that may go anywhere.

        It ends after so many candidates, or after nodes with `most_pods` pods. Returns the plan
        once the survey is done: for the best node, as it is then. None until then, and if there is
        no plan.
        """
        members = [member]
        try:
            yields = self.rule(member.pod.scheduler_name, preemptor)
            models, portion = self._models_for(members), Portion(survey.begin, most_pods)
            draft = None
            for model in models[survey.model : survey.model + 1]:
                search = self._search(leaving, yields, model)
                draft = search.find(members, survey.number, portion=portion)
        except PluginFailed:
            survey.is_done = True
            return None
        is_all = survey.looked(draft, portion, len(models))
        if not survey.is_done or survey.node is None:
            return None
        if is_all and draft is not None:
            return self._as_plan(preemptor, draft, leaving)
        return self.plan(preemptor, members, leaving, where=Where(survey.number, (survey.node,)))

    def _best(
        self,
        members: Sequence[Record],
        leaving: Sequence[Record],
        yields: Callable[[Pod], bool],
        where: Where,
    ) -> DraftPlan | None:
        best: DraftPlan | None = None
        models = self._models_for(members)
        for among, model in product(self._places_for(members, where), models):
            search = self._search(leaving, yields, model)
            draft = search.find(members, where.number, among, fitting=where.fitting)
            if draft is not None and (best is None or cost(draft.groups) < cost(best.groups)):
                best = draft
        return best

    def _search(
        self, leaving: Sequence[Record], yields: Callable[[Pod], bool], model: str
    ) -> PreemptionSearch:
        ours = self._profiles
        potential_victims = PotentialVictims(
            self._ledger,
            self._records,
            self._gangs,
            self.budgets,
            lambda pod: pod.scheduler_name in ours and yields(pod),
        )
        return PreemptionSearch(self._snapshots.shown, potential_victims, leaving, model)

    def is_on(self, profile: str) -> bool:
        """Whether pods of this profile may evict any."""
        return bool(self._profiles[profile].post_filters)

    def rule(self, profile: str, preemptor: Preemptor) -> Callable[[Pod], bool]:
        """The profile's rule of which pods may be evicted; Kubernetes' rule if it has none.

        Raises PluginFailed, and so does the rule.
        """
        plugins = self._profiles[profile].post_filters
        rules = [gives_way(self._boundary, plugin, preemptor) for plugin in plugins]
        if len(rules) == 1:
            return rules[0]
        return lambda pod: all(one(pod) for one in rules or [lower_priority(preemptor)])

    def _models_for(self, members: Sequence[Record]) -> list[str]:
        """The models to plan for where all cards must be of one model; otherwise ""."""
        shapes = [(record.pod.scheduler_name, record.shape) for record in members]
        return list(models_for(shapes, self._ledger.columns.model_names))

    def _places_for(self, members: Sequence[Record], where: Where) -> Iterator[IntArray | None]:
        """The rows of each domain that must hold all members; None if they may be anywhere.

        If members of the gang are placed already, only their domain.
        """
        row_of = self._ledger.columns.row_of
        if where.nodes is None:
            yield from self._places(members, where.number)
            return
        only = np.array(sorted(row_of[name] for name in where.nodes if name in row_of), np.int64)
        for rows in self._places(members, where.number):
            yield only if rows is None else np.intersect1d(rows, only)

    def _places(self, members: Sequence[Record], search: int) -> Iterator[IntArray | None]:
        groups = (record.pod.group for record in members)
        within = max((group.within for group in groups if group is not None), default="")
        if not within:
            yield None
            return
        columns = self._ledger.columns
        places = places_by(columns, within)
        gang = self._gangs.of(members[0].pod.uid)
        names = gang.nodes() if gang is not None else []
        taken = {places.item(columns.row_of[name]) for name in names if name in columns.row_of}
        if len(taken) > 1:
            return  # they are in several domains already
        numbers = np.array([*taken]) if taken else np.unique(places)
        numbers = numbers[numbers != NOWHERE]
        start = search * MAX_PLACES % max(1, len(numbers))
        for number in np.roll(numbers, -start)[:MAX_PLACES].tolist():
            yield np.flatnonzero(places == number)

    def _as_plan(
        self, preemptor: Preemptor, draft: DraftPlan, leaving: Sequence[Record]
    ) -> PreemptionPlan | None:
        names, columns = draft.names, self._ledger.columns
        places = []
        for one in draft.placements:
            pod, node = one.record.pod, names[one.position]
            uuids = columns.uuids[columns.row_of[node]]
            if one.slots and max(one.slots) >= len(uuids):
                return None  # a plugin took an empty slot for a card
            cards = tuple(uuids[slot] for slot in one.slots)
            places.append(NominatedPlace(uid=pod.uid, key=pod.key, node=node, cards=cards))
        used = {place.node for place in places}
        return PreemptionPlan(
            preemptor=preemptor,
            nominations=tuple(places),
            victims=_victims(draft.groups),
            awaited=tuple(record.pod.uid for record in leaving if record.node in used),
            violations=sum(group.violations for group in draft.groups),
        )


def preemptor_of(pods: Sequence[Pod], gang: str = "") -> Preemptor:
    """The preemptor: a pod, or the needed members of a gang, which ranks as its lowest member."""
    return Preemptor(
        namespace=pods[0].key.namespace,
        name=gang or pods[0].key.name,
        priority=min(pod.priority for pod in pods),
        guarantee=all(pod.label_priority > 0 for pod in pods),
        is_gang=bool(gang),
    )


def _victims(groups: Sequence[EvictionGroup]) -> tuple[Victim, ...]:
    records = {record.pod.uid: record for group in groups for record in group.records}
    ordered = sorted(records.values(), key=lambda record: importance(record.pod))
    return tuple(_victim(record) for record in ordered)


def _victim(record: Record) -> Victim:
    assert record.node is not None
    allocation = record.allocation
    cards = tuple(card.uuid for card in allocation.cards) if allocation is not None else ()
    pod = record.pod
    return Victim(uid=pod.uid, key=pod.key, node=record.node, priority=pod.priority, cards=cards)
