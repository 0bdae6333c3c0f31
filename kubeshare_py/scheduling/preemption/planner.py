"""Makes preemption plans, for the machine to carry out or for a dry run.

Reads the machine's state. A plan is a value, and making one changes nothing.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import assert_never

import numpy as np

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.budget import Budget
from kubeshare_py.domain.events import BudgetEvent, BudgetGone, BudgetSeen, BudgetsListed
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.preemption import NominatedPlace, PreemptionPlan, Preemptor, Victim
from kubeshare_py.framework.boundary import Boundary, PluginFailed
from kubeshare_py.framework.cluster_reading import ClusterReading
from kubeshare_py.framework.plugin_calls import gives_way
from kubeshare_py.framework.points import lower_priority
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.framework.snapshot import Snapshots
from kubeshare_py.scheduling.pod_groups.gang_models import models_for
from kubeshare_py.scheduling.pod_groups.gang_places import NOWHERE, places_by
from kubeshare_py.scheduling.preemption.potential_victims import (
    EvictionGroup,
    PotentialVictims,
    cost,
    importance,
)
from kubeshare_py.scheduling.preemption.search import DraftPlan, PreemptionSearch
from kubeshare_py.scheduling.preemption.survey import Survey
from kubeshare_py.scheduling.preemption.victim_search import Portion
from kubeshare_py.scheduling.queue.gangs import Gangs
from kubeshare_py.scheduling.queue.pod_records import Record

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
