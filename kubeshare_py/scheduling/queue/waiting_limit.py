"""At most so many pods of one namespace wait in the queue; the others wait outside.

Inside are those that stand first in queue order, as many as may. A gang counts each of its members
and enters whole or not at all; one that is larger than the limit enters alone, once it stands first
of its namespace. Nothing that stands behind a gang passes it. So who is inside follows from who
waits: a restarted scheduler finds the same.
"""

from collections import deque
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from kubeshare_py.domain.diagnosis import Diagnosis
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.scheduling.queue.pod_queue import SortKey

#: Pods of one namespace inside, as the configuration has it by default.
MOST_WAITING = 5000
#: Namespaces whose reasons are remembered.
_REASONS_KEPT = 256
#: A pod by itself, or the namespace and name of a gang.
_Name = PodUid | tuple[str, str]


@dataclass(slots=True, eq=False)
class Unit:
    """A pod, or the pods of a gang that wait: all inside or all outside.

    `key` is the first that any of its pods had in queue order.
    """

    name: _Name
    key: SortKey
    pods: dict[PodUid, None] = field(default_factory=dict)
    is_inside: bool = False


#: A unit outside, with its key and a number of its own.
_Entry = tuple[SortKey, int, Unit]


class _Last:
    """An entry of a heap whose first is the last in queue order."""

    __slots__ = ("key", "unit")

    def __init__(self, unit: Unit) -> None:
        self.key, self.unit = unit.key, unit

    def __lt__(self, other: "_Last") -> bool:
        return self.key > other.key

    @property
    def is_valid(self) -> bool:
        """Whether the unit is inside, under this key."""
        return self.unit.is_inside and self.unit.key == self.key


class _Namespace:
    """The units of one namespace. No unit outside stands before one that is inside."""

    def __init__(self, most: int, moved: dict[Unit, None]) -> None:
        self._most = most
        self._moved = moved
        self.units: dict[_Name, Unit] = {}
        self._pods_inside = self._units_inside = self._pushed = 0
        #: Units outside, and what is left of such that are not there any more: those that came in
        #: queue order, as nearly all do, and the others as a heap.
        self._in_order: deque[_Entry] = deque()
        self._others: list[_Entry] = []
        #: No unit inside stands behind this key.
        self._bound: SortKey = ()
        #: Those inside, the last first; None until one has to go out.
        self._lasts: list[_Last] | None = None

    def place(self, unit: Unit) -> None:
        """A unit that is in neither comes to wait."""
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

    def rank(self, unit: Unit, key: SortKey) -> None:
        """The unit stands elsewhere from now on."""
        self.displace(unit)
        unit.key = key
        self.place(unit)
        self.refill()

    def displace(self, unit: Unit) -> None:
        """The unit is in neither from now on, to be placed anew or forgotten."""
        if unit.is_inside:
            unit.is_inside = False
            self._units_inside -= 1
            self._pods_inside -= len(unit.pods)

    def grew(self, unit: Unit, pods: int) -> None:
        """The unit has so many pods more, or less."""
        if unit.is_inside:
            self._pods_inside += pods
            self.trim()
        else:
            self.refill()

    def trim(self) -> None:
        """The last ones go out while there are too many, but for the first of all."""
        if self._pods_inside > self._most and self._units_inside > 1:
            lasts = self._lasts
            if lasts is None:
                lasts = self._lasts = [_Last(one) for one in self.units.values() if one.is_inside]
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
        """The first ones outside enter as long as they fit."""
        while (unit := self._head()) is not None and self._fits(unit):
            self._enter(unit)
        most = 2 * (len(self.units) - self._units_inside) + 64
        if len(self._in_order) + len(self._others) > most:
            self._in_order = deque(filter(self._is_valid, self._in_order))
            self._others = list(filter(self._is_valid, self._others))
            heapify(self._others)

    def _head(self) -> Unit | None:
        """The first one outside."""
        in_order, others = self._in_order, self._others
        while in_order and not self._is_valid(in_order[0]):
            in_order.popleft()
        while others and not self._is_valid(others[0]):
            heappop(others)
        if in_order and not (others and others[0] < in_order[0]):
            return in_order[0][2]
        return others[0][2] if others else None

    def _is_valid(self, entry: _Entry) -> bool:
        key, _, unit = entry
        return self.units.get(unit.name) is unit and not unit.is_inside and unit.key == key

    def _fits(self, unit: Unit) -> bool:
        return not self._units_inside or self._pods_inside + len(unit.pods) <= self._most

    def _enter(self, unit: Unit) -> None:
        unit.is_inside = True
        self._units_inside += 1
        self._pods_inside += len(unit.pods)
        self._bound = max(self._bound, unit.key)
        if self._lasts is not None:
            heappush(self._lasts, _Last(unit))
            if len(self._lasts) > 2 * self._units_inside + 64:
                self._lasts = None
        self._moved[unit] = None

    def _put_outside(self, unit: Unit) -> None:
        self._pushed += 1
        entry = (unit.key, self._pushed, unit)
        if not self._in_order or entry > self._in_order[-1]:
            self._in_order.append(entry)
        else:
            heappush(self._others, entry)
        self._moved[unit] = None


class WaitingLimit:
    """Which pods are inside. `moved` are units that came in or went out since anybody looked."""

    def __init__(self, most: int) -> None:
        """`most` pods of each namespace; 0 is no limit."""
        self.most = most
        self.moved: dict[Unit, None] = {}
        self._namespaces: dict[str, _Namespace] = {}
        self._of: dict[PodUid, tuple[str, Unit]] = {}
        self._said: dict[tuple[str, bool], Diagnosis] = {}

    def put(self, pod: Pod, key: SortKey) -> bool:
        """The pod waits, under this key; whether it is inside."""
        if not self.most:
            return True
        name: _Name = pod.uid
        if pod.group is not None:
            name = (pod.key.namespace, pod.group.name)
        known = self._of.get(pod.uid)
        if known is not None:
            unit = known[1]
            if unit.name == name:
                if key < unit.key or (key != unit.key and len(unit.pods) == 1):
                    self._namespaces[known[0]].rank(unit, key)
                return unit.is_inside
            self.leave(pod.uid)
        namespace = self._namespaces.get(pod.key.namespace)
        if namespace is None:
            namespace = _Namespace(self.most, self.moved)
            self._namespaces[pod.key.namespace] = namespace
        found = namespace.units.get(name)
        if found is None:
            unit = namespace.units[name] = Unit(name, key, {pod.uid: None})
            namespace.place(unit)
        else:
            unit = found
            self._join(namespace, unit, pod.uid, key)
        self._of[pod.uid] = pod.key.namespace, unit
        return unit.is_inside

    def leave(self, uid: PodUid) -> None:
        """The pod does not wait any more; unknown pods are of no account."""
        known = self._of.pop(uid, None)
        if known is None:
            return
        name, unit = known
        namespace = self._namespaces[name]
        if len(unit.pods) > 1:
            del unit.pods[uid]
            namespace.grew(unit, -1)
            return
        namespace.displace(unit)
        unit.pods.clear()
        del namespace.units[unit.name]
        if namespace.units:
            namespace.refill()
        else:
            del self._namespaces[name]

    def reason(self, pod: Pod) -> Diagnosis:
        """What the owner of a pod outside is told: the same however long it takes."""
        namespace = pod.key.namespace
        said = self._said.get((namespace, pod.group is None))
        if said is None:
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
            if len(self._said) >= _REASONS_KEPT:
                self._said.clear()
            said = self._said[namespace, pod.group is None] = Diagnosis(sentence=text)
        return said

    def clear(self) -> None:
        """No pod waits."""
        self.moved.clear()
        self._namespaces.clear()
        self._of.clear()

    @staticmethod
    def _join(namespace: _Namespace, unit: Unit, uid: PodUid, key: SortKey) -> None:
        """A further member of a gang, which may stand before the others."""
        if key < unit.key:
            namespace.rank(unit, key)
        unit.pods[uid] = None
        namespace.grew(unit, 1)
