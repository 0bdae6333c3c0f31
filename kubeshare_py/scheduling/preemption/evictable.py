"""Who may be evicted for whom, and who only together with others.

Pods of this scheduler that are bound and stay, and of which the profile says that they give way.
A gang keeps its minimum, or goes whole: members above the minimum go one by one, the others are one
unit with all that are left, wherever they are.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice, product

from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.budget import Budget
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.scheduling.queue.gangs import PLACED, Gang, Gangs
from kubeshare_py.scheduling.queue.pod_records import Record, State

#: Whether a pod gives way: what a profile's PostFilter plugins say together.
GivesWay = Callable[[Pod], bool]
#: Sorts the most important pods first.
Importance = tuple[int, int, int, PodUid]
#: kube-scheduler adds this to each priority before it adds them up: fewer pods weigh less.
_ABOVE_ZERO = 1 << 31
#: So many choices of members that a gang can do without are looked at for each set of pods.
MOST_CHOICES = 64
#: Of a time with nanoseconds.
_MOST_DIGITS = 23
_DIGITS_ONLY = str.maketrans("", "", "-:.TZ")


@dataclass(slots=True, eq=False)
class Unit:
    """Pods that go together or stay together. It may only stay if the unit `after` stays.

    `whole`: all that was left of the gang, without whom no other member of it may stay.
    `violations`: so many of them are beyond what their disruption budgets allow.
    """

    records: tuple[Record, ...]
    after: "Unit | None" = None
    gang: Gang | None = None
    whole: bool = False
    violations: int = 0
    importance: Importance = field(init=False)

    def __post_init__(self) -> None:
        self.importance = min(importance(record.pod) for record in self.records)

    @property
    def uids(self) -> list[PodUid]:
        """Its pods."""
        return [record.pod.uid for record in self.records]


@dataclass(frozen=True, slots=True)
class _Part:
    """What of a gang may go: some members one by one and, if so, then all that is left of it."""

    gang: Gang
    singles: Sequence[Record]
    rest: Unit | None = None


def importance(pod: Pod) -> Importance:
    """Higher priorities first, then those that run longer; as kube-scheduler's MoreImportantPod."""
    return -pod.priority, -pod.label_priority, moment(pod), pod.uid


def moment(pod: Pod) -> int:
    """When it started, or else was created, as a number that grows with time."""
    digits = (pod.started or pod.created).translate(_DIGITS_ONLY)[:_MOST_DIGITS]
    return int(digits) if digits.isascii() and digits.isdecimal() else 0


def cost(units: Iterable[Unit]) -> tuple[int, ...]:
    """kube-scheduler's order of candidates, the best first; no two pods alike make it unique.

    Fewest violations of budgets, lowest highest priority, lowest sum of priorities, fewest pods,
    and of those with the highest priority the earliest start, the latest first
    (pkg/scheduler/framework/preemption, pickOneNodeForPreemption).
    """
    units = list(units)
    pods = [record.pod for unit in units for record in unit.records]
    if not pods:
        return (0,)
    highest = max(pod.priority for pod in pods)
    first = min(moment(pod) for pod in pods if pod.priority == highest)
    total = sum(pod.priority + _ABOVE_ZERO for pod in pods)
    return sum(unit.violations for unit in units), highest, total, len(pods), -first


class Evictable:
    """Reads the machine's books for one plan; `gone` are pods that the plan evicts already."""

    def __init__(
        self,
        ledger: Ledger,
        records: Mapping[PodUid, Record],
        gangs: Gangs,
        budgets: Mapping[PodKey, Budget],
        gives_way: GivesWay,
    ) -> None:
        self._ledger = ledger
        self._records = records
        self._gangs = gangs
        self._budgets = budgets
        self._gives_way = gives_way
        self._allowed = {key: budget.allowed for key, budget in budgets.items()}
        self.gone: set[PodUid] = set()

    def on(self, node: NodeName) -> list[Record]:
        """The pods of a node that may be evicted, the most important first."""
        found = [
            record
            for uid in self._ledger.pods_on(node)
            if uid not in self.gone and self._may_go(record := self._records[uid])
        ]
        return sorted(found, key=lambda record: importance(record.pod))

    def choices(self, records: Sequence[Record]) -> Iterator[list[Unit]]:
        """These pods in units, those first that should rather stay: in the order of reprieve.

        Pods that cannot go without others that must stay are left out. Of a gang that must keep
        its minimum only some may go, whichever: several choices then, of which MOST_CHOICES count.
        """
        alone: list[Record] = []
        members: dict[Gang, list[Record]] = {}
        for record in records:
            gang = self._gangs.of(record.pod.uid)
            if gang is None or gang.minimum <= 1:
                alone.append(record)
            else:
                members.setdefault(gang, []).append(record)
        of_gangs = [self._of_gang(gang, several) for gang, several in members.items()]
        for chosen in islice(product(*of_gangs), MOST_CHOICES):
            units = [Unit((record,)) for record in alone]
            units += [
                Unit((record,), part.rest, part.gang) for part in chosen for record in part.singles
            ]
            yield self._in_order_of_reprieve(units + [part.rest for part in chosen if part.rest])

    def _in_order_of_reprieve(self, units: list[Unit]) -> list[Unit]:
        units.sort(key=lambda unit: unit.importance)
        if self._budgets:
            self._count_violations(units)
            units.sort(key=lambda unit: (not unit.violations, unit.importance))
        return _in_order(units)

    def take(self, units: Iterable[Unit]) -> None:
        """The plan evicts these."""
        for unit in units:
            for record in unit.records:
                self.gone.add(record.pod.uid)
                self._use_up(record, self._allowed)

    def spare(self, unit: Unit) -> None:
        """The plan does not evict this one after all."""
        self.gone.difference_update(unit.uids)

    def _may_go(self, record: Record) -> bool:
        if record.state not in (State.BOUND, State.ASSUMED) or is_leaving(record):
            return False
        return self._gives_way(record.pod)

    def _of_gang(self, gang: Gang, records: Sequence[Record]) -> Iterable[_Part]:
        """The members above the minimum, and the rest of the gang; or any so many, if it stays."""
        placed = [
            member.record
            for member in gang.members.values()
            if member.role in PLACED and member.record.pod.uid not in self.gone
        ]
        above = len(placed) + gang.completed - gang.minimum if gang.met else 0
        least_first = records[::-1]
        tail = least_first[: max(0, above)]
        if len(tail) == len(records):
            return [_Part(gang, tail)]
        singles = {record.pod.uid for record in tail}
        left = [record for record in placed if record.pod.uid not in singles]
        if all(map(self._may_go, left)):
            return [_Part(gang, tail, Unit(tuple(left), gang=gang, whole=True))]
        some = islice(combinations(least_first, len(tail)), MOST_CHOICES)
        return [_Part(gang, chosen) for chosen in some]

    def _count_violations(self, units: Sequence[Unit]) -> None:
        """The most important use the budgets up first, as in kube-scheduler."""
        allowed = dict(self._allowed)
        for unit in units:
            unit.violations = sum(self._use_up(record, allowed) for record in unit.records)

    def _use_up(self, record: Record, allowed: dict[PodKey, int]) -> bool:
        """Whether one of its budgets did not allow this eviction."""
        pod, violates = record.pod, False
        for key, budget in self._budgets.items():
            if pod.key.name not in budget.disrupted and budget.covers(pod.key, pod.labels):
                allowed[key] -= 1
                violates |= allowed[key] < 0
        return violates


def is_leaving(record: Record) -> bool:
    """Whether it is being deleted, or the scheduler asked for that."""
    return record.pod.deleting or record.evicted


def _in_order(units: Sequence[Unit]) -> list[Unit]:
    """The same order, but nobody before the unit that it depends on."""
    ordered: dict[Unit, None] = {}
    for unit in units:
        if unit.after is not None:
            ordered[unit.after] = None
        ordered[unit] = None
    return list(ordered)
