"""Limits on what the queue holds: the pods of one namespace, and how soon refused ones return."""

from collections import deque
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from kubeshare_py.configuration.scheduler import SchedulerConfiguration
from kubeshare_py.domain.diagnosis import Diagnosis, WaitingReason
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.scheduling.queue.pod_queue import SortKey
from kubeshare_py.scheduling.queue.timers import BACKOFF, QueueBackoff

# How many pods of a namespace wait in the queue, and how long refused ones stay out of it.


@dataclass(frozen=True, slots=True)
class QueueRules:
    """`max_waiting`: the most pods of one namespace in the queue; 0 is no limit.

    `backoff`: of pods and gangs whose placement failed. `flush_after_s`: after so long (s) without
    an attempt, pods and gangs that fit nowhere are tried again in any case.
    """

    max_waiting: int = 0
    backoff: QueueBackoff = BACKOFF
    flush_after_s: float = 300.0


def queue_rules(configuration: SchedulerConfiguration) -> QueueRules:
    """The rules of a configuration."""
    return QueueRules(
        configuration.max_waiting_pods_per_namespace,
        QueueBackoff(
            configuration.pod_initial_backoff_seconds, configuration.pod_max_backoff_seconds
        ),
        configuration.pod_max_in_unschedulable_pods_seconds,
    )


# A limit on the pods of one namespace in the queue; further ones wait outside.
#
# Inside are the first ones in queue order, as many as the limit allows. A gang counts each of its
# members and enters whole or not at all; one that is larger than the limit enters alone, once it is
# the first of its namespace. Nothing behind a gang passes it. So the pods inside follow from the
# waiting pods: a restarted scheduler finds the same ones.


#: The configuration's default.
MAX_WAITING = 5000
#: The most namespaces whose reasons are cached.
_REASONS_KEPT = 256
#: A single pod, or the namespace and name of a gang.
_Name = PodUid | tuple[str, str]


@dataclass(slots=True, eq=False)
class WaitingUnit:
    """A pod, or the waiting pods of a gang: all inside or all outside.

    `key` is the first one in queue order that any of its pods had.
    """

    name: _Name
    key: SortKey
    pods: dict[PodUid, None] = field(default_factory=dict)
    is_inside: bool = False


#: A unit outside, with its key and a number of its own.
_LimitEntry = tuple[SortKey, int, WaitingUnit]


class _LastFirstEntry:
    """A heap entry; the first one of the heap is the last in queue order."""

    __slots__ = ("key", "unit")

    def __init__(self, unit: WaitingUnit) -> None:
        self.key, self.unit = unit.key, unit

    def __lt__(self, other: "_LastFirstEntry") -> bool:
        return self.key > other.key

    @property
    def is_valid(self) -> bool:
        """Whether the unit is inside, under this key."""
        return self.unit.is_inside and self.unit.key == self.key


class _Namespace:
    """The units of one namespace. No unit outside comes before one that is inside."""

    def __init__(self, most: int, moved: dict[WaitingUnit, None]) -> None:
        self._most = most
        self._moved = moved
        self.units: dict[_Name, WaitingUnit] = {}
        self._pods_inside = self._units_inside = self._pushed = 0
        #: Units outside, with stale entries: those that came in queue order, as nearly all do, and
        #: the others as a heap.
        self._in_order: deque[_LimitEntry] = deque()
        self._others: list[_LimitEntry] = []
        #: No unit inside has a later key.
        self._bound: SortKey = ()
        #: Units inside, the last first; None until one has to leave.
        self._lasts: list[_LastFirstEntry] | None = None

    def add(self, unit: WaitingUnit) -> None:
        """Add a new unit of one pod; one that enters at once does not count as `moved`."""
        self.units[unit.name] = unit
        is_room = self._pods_inside < self._most or not self._units_inside
        if is_room and self._lasts is None and not (self._in_order or self._others):
            unit.is_inside = True
            self._units_inside += 1
            self._pods_inside += 1
            self._bound = unit.key if unit.key > self._bound else self._bound
            return
        self.place(unit)

    def place(self, unit: WaitingUnit) -> None:
        """Place a unit that is neither inside nor outside."""
        head = self._head()
        if head is not None and unit.key > head.key:
            self._put_outside(unit)
        elif self._fits(unit):
            self._enter(unit)
        elif head is None and unit.key > self._bound:
            self._put_outside(unit)
        else:
            self._enter(unit)
            self.trim()

    def rank(self, unit: WaitingUnit, key: SortKey) -> None:
        """Change the unit's key."""
        self.displace(unit)
        unit.key = key
        self.place(unit)
        self.refill()

    def displace(self, unit: WaitingUnit) -> None:
        """Take the unit out, to be placed anew or dropped."""
        if unit.is_inside:
            unit.is_inside = False
            self._units_inside -= 1
            self._pods_inside -= len(unit.pods)

    def grew(self, unit: WaitingUnit, pods: int) -> None:
        """The unit has `pods` more, or fewer."""
        if unit.is_inside:
            self._pods_inside += pods
            self.trim()
        else:
            self.refill()

    def trim(self) -> None:
        """Put the last units out while there are too many, except the first of all."""
        if self._pods_inside > self._most and self._units_inside > 1:
            lasts = self._lasts
            if lasts is None:
                lasts = self._lasts = [
                    _LastFirstEntry(one) for one in self.units.values() if one.is_inside
                ]
                heapify(lasts)
            while self._pods_inside > self._most and self._units_inside > 1:
                last = heappop(lasts)
                if last.is_valid:
                    self.displace(last.unit)
                    self._put_outside(last.unit)
            while not lasts[0].is_valid:
                heappop(lasts)
            self._bound = lasts[0].key
        self.refill()

    def refill(self) -> None:
        """Let the first units outside in as long as they fit."""
        while (unit := self._head()) is not None and self._fits(unit):
            self._enter(unit)
        most = 2 * (len(self.units) - self._units_inside) + 64
        if len(self._in_order) + len(self._others) > most:
            self._in_order = deque(filter(self._is_valid, self._in_order))
            self._others = list(filter(self._is_valid, self._others))
            heapify(self._others)

    def _head(self) -> WaitingUnit | None:
        """The first unit outside."""
        in_order, others = self._in_order, self._others
        while in_order and not self._is_valid(in_order[0]):
            in_order.popleft()
        while others and not self._is_valid(others[0]):
            heappop(others)
        if in_order and not (others and others[0] < in_order[0]):
            return in_order[0][2]
        return others[0][2] if others else None

    def _is_valid(self, entry: _LimitEntry) -> bool:
        key, _, unit = entry
        return self.units.get(unit.name) is unit and not unit.is_inside and unit.key == key

    def _fits(self, unit: WaitingUnit) -> bool:
        return not self._units_inside or self._pods_inside + len(unit.pods) <= self._most

    def _enter(self, unit: WaitingUnit) -> None:
        unit.is_inside = True
        self._units_inside += 1
        self._pods_inside += len(unit.pods)
        self._bound = max(self._bound, unit.key)
        if self._lasts is not None:
            heappush(self._lasts, _LastFirstEntry(unit))
            if len(self._lasts) > 2 * self._units_inside + 64:
                self._lasts = None
        self._moved[unit] = None

    def _put_outside(self, unit: WaitingUnit) -> None:
        self._pushed += 1
        entry = (unit.key, self._pushed, unit)
        if not self._in_order or entry > self._in_order[-1]:
            self._in_order.append(entry)
        else:
            heappush(self._others, entry)
        self._moved[unit] = None


class WaitingLimit:
    """Which pods are inside. `moved` are units that entered or left since they were looked at."""

    def __init__(self, most: int) -> None:
        """`most` pods of each namespace; 0 is no limit."""
        self.most = most
        self.moved: dict[WaitingUnit, None] = {}
        self._namespaces: dict[str, _Namespace] = {}
        self._of: dict[PodUid, tuple[str, WaitingUnit]] = {}
        self._diagnoses: dict[tuple[str, bool], Diagnosis] = {}

    def put(self, pod: Pod, key: SortKey) -> bool:
        """Add a waiting pod under this key; whether it is inside."""
        if not self.most:
            return True
        name: _Name = pod.uid
        if pod.group is not None:
            name = (pod.key.namespace, pod.group.name)
        if pod.uid in self._of:
            place, unit = self._of[pod.uid]
            if unit.name == name:
                if key < unit.key or (key != unit.key and len(unit.pods) == 1):
                    self._namespaces[place].rank(unit, key)
                return unit.is_inside
            self.leave(pod.uid)
        if pod.key.namespace not in self._namespaces:
            self._namespaces[pod.key.namespace] = _Namespace(self.most, self.moved)
        namespace = self._namespaces[pod.key.namespace]
        if name in namespace.units:
            unit = namespace.units[name]
            self._join(namespace, unit, pod.uid, key)
        else:
            unit = WaitingUnit(name, key, {pod.uid: None})
            namespace.add(unit)
        self._of[pod.uid] = pod.key.namespace, unit
        return unit.is_inside

    def leave(self, uid: PodUid) -> None:
        """Remove a pod, which may be unknown."""
        if uid not in self._of:
            return
        name, unit = self._of[uid]
        del self._of[uid]
        namespace = self._namespaces[name]
        if len(unit.pods) > 1:
            del unit.pods[uid]
            namespace.grew(unit, -1)
            return
        namespace.displace(unit)
        del unit.pods[uid], namespace.units[unit.name]
        if namespace.units:
            namespace.refill()
        else:
            del self._namespaces[name]

    def reason(self, pod: Pod) -> Diagnosis:
        """The diagnosis of a pod outside, always the same."""
        namespace = pod.key.namespace
        diagnosis = self._diagnoses.get((namespace, pod.group is None))
        if diagnosis is None:
            bound = f"{self.most:,}, maxWaitingPodsPerNamespace"
            text = (
                f"as many pods of namespace {namespace} wait already as are tried at a time "
                f"({bound}): it joins them when one of those before it gets a place or goes"
            )
            if pod.group is not None:
                text = (
                    f"with its pod group more pods of namespace {namespace} would wait than are "
                    f"tried at a time ({bound}): the group joins them as a whole when enough of "
                    "those before it get a place or go"
                )
            if len(self._diagnoses) >= _REASONS_KEPT:
                self._diagnoses.clear()
            diagnosis = self._diagnoses[namespace, pod.group is None] = Diagnosis(
                sentence=text, reason=WaitingReason.NOT_READY
            )
        return diagnosis

    def clear(self) -> None:
        """Remove all pods."""
        self.moved.clear()
        self._namespaces.clear()
        self._of.clear()

    @staticmethod
    def _join(namespace: _Namespace, unit: WaitingUnit, uid: PodUid, key: SortKey) -> None:
        """Add a further member of a gang, which may come before the others."""
        if key < unit.key:
            namespace.rank(unit, key)
        unit.pods[uid] = None
        namespace.grew(unit, 1)
