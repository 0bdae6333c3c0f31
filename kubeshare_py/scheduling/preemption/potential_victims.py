"""Which pods may be evicted for a preemptor, which only together, and the lowest rank of all."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice, product

from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.cluster_objects import Budget
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.scheduling.queue.gangs import PLACED, Gang, Gangs
from kubeshare_py.scheduling.queue.pod_records import PodState, Record
from kubeshare_py.scheduling.queue.pod_table import BOUND_STATES

# Which pods may be evicted for a preemptor, and which of them only together.
#
# They are pods of this scheduler that are bound or wait for PreBind plugins, that are not leaving,
# and that the profile's PostFilter plugins give up. A gang keeps its minimum or goes whole: members
# above the minimum are evicted one by one, and all others are one unit, on whatever nodes they are.


#: Whether a pod may be evicted: what all PostFilter plugins of a profile answer.
MayBeEvicted = Callable[[Pod], bool]
#: Sorts the most important pods first.
Importance = tuple[int, int, int, PodUid]
#: States in which a pod has a place that it can be made to leave.
_EVICTABLE = (PodState.PREBINDING, PodState.UNCONFIRMED, PodState.BOUND)
#: kube-scheduler adds this to each priority before summing up, so that fewer pods weigh less.
_ABOVE_ZERO = 1 << 31
#: The most choices of members that a gang can spare, for each set of pods.
MAX_CHOICES = 64
#: The digits of a time with nanoseconds.
_MAX_DIGITS = 23
#: More than any time of start.
_NOT_STARTED = 10**_MAX_DIGITS
_DIGITS_ONLY = str.maketrans("", "", "-:.TZ")


@dataclass(slots=True, eq=False)
class EvictionGroup:
    """Pods that are evicted together or not at all; it may stay only if the group `after` stays.

    `whole`: it is all that is left of the gang, and no other member may stay without it.
    `violations`: how many of its pods are beyond what their disruption budgets allow.
    """

    records: tuple[Record, ...]
    after: "EvictionGroup | None" = None
    gang: Gang | None = None
    whole: bool = False
    violations: int = 0
    importance: Importance = field(init=False)

    def __post_init__(self) -> None:
        first, *others = self.records
        self.importance = importance(first.pod)
        for record in others:
            self.importance = min(self.importance, importance(record.pod))

    @property
    def uids(self) -> list[PodUid]:
        """The uids of its pods."""
        return [record.pod.uid for record in self.records]


@dataclass(frozen=True, slots=True)
class _GangPart:
    """The evictable part of a gang: some members one by one, and only after them the rest."""

    gang: Gang
    singles: Sequence[Record]
    rest: EvictionGroup | None = None


def importance(pod: Pod) -> Importance:
    """A sort key: higher priority first, then the pod that runs longer.

    As kube-scheduler's MoreImportantPod (pkg/scheduler/util/utils.go).
    """
    return -pod.priority, -pod.label_priority, moment(pod), pod.uid


def moment(pod: Pod) -> int:
    """The time of start as an integer that grows with time.

    A pod that has not started is younger than all that have, as in kube-scheduler, which takes it
    that it starts now; among such pods, the time of creation decides.
    """
    digits = (pod.started or pod.created).translate(_DIGITS_ONLY)[:_MAX_DIGITS]
    known = int(digits) if digits.isascii() and digits.isdecimal() else 0
    return known if pod.started else known + _NOT_STARTED


def cost(groups: Iterable[EvictionGroup]) -> tuple[int, ...]:
    """kube-scheduler's order of candidates, lowest first; equal only for the same pods.

    Fewest violations of budgets, lowest highest priority, lowest sum of priorities, fewest pods,
    and among pods of the highest priority the latest earliest start
    (pkg/scheduler/framework/preemption, pickOneNodeForPreemption).
    """
    groups = list(groups)
    if len(groups) == 1 and len(groups[0].records) == 1:  # as nearly all are
        [group] = groups
        priority = group.records[0].pod.priority
        return group.violations, priority, priority + _ABOVE_ZERO, 1, -group.importance[2]
    pods = [record.pod for group in groups for record in group.records]
    if not pods:
        return (0,)
    highest = max(pod.priority for pod in pods)
    first = min(moment(pod) for pod in pods if pod.priority == highest)
    total = sum(pod.priority + _ABOVE_ZERO for pod in pods)
    return sum(group.violations for group in groups), highest, total, len(pods), -first


class PotentialVictims:
    """The evictable pods for one plan; `gone` are pods that the plan evicts already."""

    def __init__(
        self,
        ledger: Ledger,
        records: Mapping[PodUid, Record],
        gangs: Gangs,
        budgets: Mapping[PodKey, Budget],
        gives_way: MayBeEvicted,
    ) -> None:
        self._ledger = ledger
        self._records = records
        self._gangs = gangs
        self._budgets = budgets
        self._gives_way = gives_way
        self._allowed = {key: budget.allowed for key, budget in budgets.items()}
        self.gone: set[PodUid] = set()
        #: The pods of each node that may be evicted, and units of one pod, as far as they were
        #: asked for: nothing that these depend on changes while one plan is made.
        self._on: dict[NodeName, list[Record]] = {}
        self._alone: dict[PodUid, EvictionGroup] = {}

    def on(self, node: NodeName) -> list[Record]:
        """The pods of a node that may be evicted, the most important first."""
        found, gone = self._on.get(node), self.gone
        if found is None:
            records = (self._records[uid] for uid in self._ledger.pods_on(node) if uid not in gone)
            able = [record for record in records if self._may_go(record)]
            found = self._on[node] = sorted(able, key=lambda one: self._unit(one).importance)
        return [record for record in found if record.pod.uid not in gone]

    def choices(self, records: Sequence[Record]) -> Iterable[list[EvictionGroup]]:
        """These pods in eviction groups, in the order of reprieve: the most important first.

        Pods are left out if they could go only with others that must stay. If a gang must keep its
        minimum, any of its members may go, but only so many; this gives several choices, at most
        MAX_CHOICES.
        """
        alone: list[Record] = []
        members: dict[Gang, list[Record]] = {}
        by_pod = self._gangs.by_pod
        for record in records:
            gang = by_pod.get(record.pod.uid)
            if gang is None or gang.min_member <= 1:
                alone.append(record)
            else:
                members.setdefault(gang, []).append(record)
        if members or self._budgets:
            return self._choices(alone, members)
        if len(alone) == 1:  # as nearly always
            return ([self._unit(alone[0])],)
        return (sorted(map(self._unit, alone), key=lambda group: group.importance),)

    def _choices(
        self, alone: Sequence[Record], members: Mapping[Gang, Sequence[Record]]
    ) -> Iterator[list[EvictionGroup]]:
        of_gangs = [self._of_gang(gang, several) for gang, several in members.items()]
        for chosen in islice(product(*of_gangs), MAX_CHOICES):
            groups = [EvictionGroup((record,)) for record in alone]
            groups += [
                EvictionGroup((record,), part.rest, part.gang)
                for part in chosen
                for record in part.singles
            ]
            yield self._in_order_of_reprieve(groups + [part.rest for part in chosen if part.rest])

    def _in_order_of_reprieve(self, groups: list[EvictionGroup]) -> list[EvictionGroup]:
        groups.sort(key=lambda group: group.importance)
        if self._budgets:
            self._count_violations(groups)
            groups.sort(key=lambda group: (not group.violations, group.importance))
        return _in_order(groups)

    def take(self, groups: Iterable[EvictionGroup]) -> None:
        """Record that the plan evicts these eviction groups."""
        for group in groups:
            for record in group.records:
                self.gone.add(record.pod.uid)
                self._use_up(record, self._allowed)

    def reprieve(self, group: EvictionGroup) -> None:
        """Record that the plan does not evict this unit after all."""
        self.gone.difference_update(group.uids)

    def _unit(self, record: Record) -> EvictionGroup:
        """The pod as a unit of its own, the same one each time, without violations."""
        uid = record.pod.uid
        if uid in self._alone:
            return self._alone[uid]
        unit = self._alone[uid] = EvictionGroup((record,))
        return unit

    def _may_go(self, record: Record) -> bool:
        if record.state not in _EVICTABLE or is_leaving(record):
            return False
        return self._gives_way(record.pod)

    def _of_gang(self, gang: Gang, records: Sequence[Record]) -> Iterable[_GangPart]:
        """The members above the minimum, and the rest.

        Or any so many members if the rest must stay.
        """
        placed = [
            member.record
            for member in gang.members.values()
            if member.role in PLACED and member.record.pod.uid not in self.gone
        ]
        above = len(placed) + gang.completed - gang.min_member if gang.quorum_met else 0
        least_first = records[::-1]
        tail = least_first[: max(0, above)]
        if len(tail) == len(records):
            return [_GangPart(gang, tail)]
        singles = {record.pod.uid for record in tail}
        left = [record for record in placed if record.pod.uid not in singles]
        if all(map(self._may_go, left)):
            return [_GangPart(gang, tail, EvictionGroup(tuple(left), gang=gang, whole=True))]
        some = islice(combinations(least_first, len(tail)), MAX_CHOICES)
        return [_GangPart(gang, chosen) for chosen in some]

    def _count_violations(self, groups: Sequence[EvictionGroup]) -> None:
        """Count violations; the most important pods use up budgets first, as in kube-scheduler."""
        allowed = dict(self._allowed)
        for group in groups:
            group.violations = sum(self._use_up(record, allowed) for record in group.records)

    def _use_up(self, record: Record, allowed: dict[PodKey, int]) -> bool:
        """Whether one of the pod's budgets did not allow this eviction; all of them are used up.

        As filterPodsWithPDBViolation in pkg/scheduler/framework/plugins/defaultpreemption.
        """
        pod = record.pod
        if record.state is PodState.PREBINDING:
            return False  # budgets are about pods that run
        is_violated = False
        for key, budget in self._budgets.items():
            if pod.key.name not in budget.disrupted and budget.covers(pod.key, pod.labels):
                allowed[key] -= 1
                if allowed[key] < 0:
                    is_violated = True
        return is_violated


def is_leaving(record: Record) -> bool:
    """Whether the pod is being deleted, or the scheduler requested its eviction."""
    return record.pod.deleting or record.evicted


def _in_order(groups: Sequence[EvictionGroup]) -> list[EvictionGroup]:
    """The same order, with each eviction group behind the eviction group that it depends on."""
    ordered: dict[EvictionGroup, None] = {}
    for group in groups:
        if group.after is not None:
            ordered[group.after] = None
        ordered[group] = None
    return list(ordered)


# The lowest rank of all pods that may be victims, known without looking at all pods.


#: spec.priority, and whether `sharedgpu/priority` is above 0.
Rank = tuple[int, bool]


class LowestPriority:
    """Counts pods that may be victims and are not leaving, by rank; follows the table of pods.

    They are bound, or wait for PreBind plugins.
    """

    def __init__(self) -> None:
        self._of: dict[PodUid, Rank] = {}
        self._counts: Counter[Rank] = Counter()

    def changed(self, record: Record, before: PodState) -> None:
        """Count a pod that is bound or prebinding, or was."""
        pod = record.pod
        stays = record.state in BOUND_STATES and not is_leaving(record)
        rank = (pod.priority, pod.label_priority > 0) if stays else None
        if pod.uid in self._of:
            if self._of[pod.uid] == rank:
                return
            self.removed(pod.uid)
        if rank is not None:
            self._of[pod.uid] = rank
            self._counts[rank] += 1

    def removed(self, uid: PodUid) -> None:
        """Forget a pod, which may be unknown."""
        if uid not in self._of:
            return
        rank = self._of[uid]
        del self._of[uid]
        self._counts[rank] -= 1
        if not self._counts[rank]:
            del self._counts[rank]

    def lowest(self) -> Rank | None:
        """The lowest rank; None if no pod is bound.

        Takes time in proportion to the number of ranks.
        """
        return min(self._counts, default=None)
