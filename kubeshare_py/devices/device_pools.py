"""The devices of a cluster: by the nodes that they may be used from, and by number as columns."""

from array import array
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.devices.expression_values import DeviceRead
from kubeshare_py.domain.device import Device, DeviceKey, DeviceNodes, ResourceSlice
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import NodeTerm

# The devices of a cluster, by the nodes that they may be used from.
#
# Rules: a pool counts in its newest generation, and once all of its slices are there.
# https://kubernetes.io/docs/reference/kubernetes-api/resource/v1/resource-slice-v1/


_Pool = tuple[str, str]
#: Whether the node that is asked about satisfies one of these terms.
TermsHold = Callable[[Sequence[NodeTerm]], bool]


class PooledDevice(NamedTuple):
    """A device of a slice, at this position in it."""

    key: DeviceKey
    device: Device
    slice: ResourceSlice
    position: int


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """The devices that may be used from one node, in a fixed order.

    `unusable` are pools that are left out, each with the reason.
    """

    devices: tuple[PooledDevice, ...] = ()
    unusable: tuple[str, ...] = ()


class DevicePools:
    """All slices, found by node and by pool."""

    def __init__(self, slices: Iterable[ResourceSlice] = ()) -> None:
        #: Each list is in the order of `_place`.
        self._on: dict[NodeName, list[ResourceSlice]] = {}
        self._anywhere: list[ResourceSlice] = []
        self._pools: dict[_Pool, list[ResourceSlice]] = {}
        #: The nodes whose devices changed since `take_changed`; None: any node.
        self._changed: dict[NodeName, None] | None = None
        for one in slices:
            self.put(one)

    def put(self, item: ResourceSlice) -> None:
        """Add a slice."""
        insort(self._pools.setdefault((item.driver, item.pool), []), item, key=_place)
        node = _node_of(item)
        insort(self._anywhere if node is None else self._on.setdefault(node, []), item, key=_place)
        self._note(item)

    def drop(self, item: ResourceSlice) -> None:
        """Remove a slice, as it was put."""
        self._note(item)
        pool, node = (item.driver, item.pool), _node_of(item)
        _remove(self._pools[pool], item)
        if not self._pools[pool]:
            del self._pools[pool]
        if node is None:
            _remove(self._anywhere, item)
            return
        _remove(self._on[node], item)
        if not self._on[node]:
            del self._on[node]

    def take_changed(self) -> Collection[NodeName] | None:
        """The nodes whose devices may have changed since this was asked; None if all may have."""
        changed, self._changed = self._changed, {}
        return changed

    def _note(self, item: ResourceSlice) -> None:
        """The nodes of a slice's pool may use other devices than before."""
        for one in self._pools[item.driver, item.pool]:
            node = _node_of(one)
            if node is None:
                self._changed = None
            elif self._changed is not None:
                self._changed[node] = None

    def found(self, key: DeviceKey) -> tuple[ResourceSlice, Device] | None:
        """A device of its pool's newest generation, with its slice; None if there is none."""
        slices = self._pools.get((key.driver, key.pool), ())
        newest = max((one.generation for one in slices), default=0)
        for one in slices:
            for device in one.devices if one.generation == newest else ():
                if device.name == key.device:
                    return one, device
        return None

    def selectors(self) -> Iterator[Sequence[NodeTerm]]:
        """The node selectors of slices and devices."""
        for one in self._anywhere:
            for nodes in _choices(one):
                if nodes.terms is not None:
                    yield nodes.terms

    def on(self, node: NodeName, hold: TermsHold) -> NodeDevices:
        """The devices that may be used from a node; `hold` judges terms for it."""
        own = self._on.get(node, [])
        found = (
            [*own, *(one for one in self._anywhere if _reaches(one, node, hold))]
            if self._anywhere
            else own
        )
        devices: list[PooledDevice] = []
        unusable: list[str] = []
        for pool, slices in _by_pool(found).items():
            newest = max(one.generation for one in slices)
            current = [one for one in slices if one.generation == newest]
            problem = self._problem(pool, newest, current)
            if problem:
                unusable.append(problem)
            elif problem is not None:
                devices += _devices(current, node, hold)
        return NodeDevices(tuple(devices), tuple(unusable))

    def _problem(
        self, pool: _Pool, generation: int, current: Sequence[ResourceSlice]
    ) -> str | None:
        """Why a pool is not used; "" if it is, None if it is out of date.

        Slices of one node make way for newer ones of this node without a word. If the newer ones
        are another node's, which may have taken a name that is not its own, they are named.
        """
        known = self._pools[pool]
        foreign = [one for one in known if _node_of(one) != _node_of(current[0])]
        whose = "".join(f": {_in_words(one)} is in it too" for one in foreign[:1])
        newest = max(known, key=lambda one: one.generation)
        if newest.generation > generation:
            if newest not in foreign:
                return None
            return f"resource pool {'/'.join(pool)} is out of date by {_in_words(newest)}"
        for one in current:
            if one.problem:
                return one.problem
        same = sum(one.generation == generation for one in known)
        if same != current[0].slice_count:
            return f"resource pool {'/'.join(pool)} is currently being updated{whose}"
        names = [device.name for one in current for device in one.devices]
        if len(set(names)) < len(names):
            return f"resource pool {'/'.join(pool)} has two devices of one name"
        return ""


def _place(item: ResourceSlice) -> tuple[str, str, str]:
    return item.driver, item.pool, item.name


def _node_of(item: ResourceSlice) -> NodeName | None:
    """The only node whose pods may use the slice's devices, if it names one."""
    return None if item.nodes is None else item.nodes.name


def _in_words(item: ResourceSlice) -> str:
    node = _node_of(item)
    return f"resourceslice {item.name}" + (f" of node {node}" if node is not None else "")


def _remove(slices: list[ResourceSlice], item: ResourceSlice) -> None:
    del slices[bisect_left(slices, _place(item), key=_place)]


def _by_pool(slices: Sequence[ResourceSlice]) -> Mapping[_Pool, list[ResourceSlice]]:
    found: dict[_Pool, list[ResourceSlice]] = {}
    for one in slices:
        found.setdefault((one.driver, one.pool), []).append(one)
    return dict(sorted(found.items()))


def _devices(
    slices: Sequence[ResourceSlice], node: NodeName, hold: TermsHold
) -> Iterator[PooledDevice]:
    for one in slices:
        for position, device in enumerate(one.devices):
            if one.nodes is not None or _includes(device.nodes, node, hold):
                yield PooledDevice(one.key_of(device), device, one, position)


def _choices(one: ResourceSlice) -> Iterator[DeviceNodes]:
    if one.nodes is not None:
        yield one.nodes
    else:
        yield from (device.nodes for device in one.devices if device.nodes is not None)


def _reaches(one: ResourceSlice, node: NodeName, hold: TermsHold) -> bool:
    return any(_includes(nodes, node, hold) for nodes in _choices(one))


def _includes(nodes: DeviceNodes | None, node: NodeName, hold: TermsHold) -> bool:
    if nodes is None:
        return False
    if nodes.name is not None:
        return nodes.name == node
    return nodes.everywhere or (nodes.terms is not None and hold(nodes.terms))


# Groups of positions that are equal in some columns, so that one of each has to be asked.


Numbers = NDArray[np.int64]
_MAX = 1 << 62
#: So many times more different numbers than positions are sorted rather than counted.
_SPARSE = 4
#: Its powers are weights that hardly give two different rows one sum.
_ODD = 0x5851F42D4C957F2D


def alike(columns: Sequence[Numbers], count: int) -> tuple[Numbers, Numbers]:
    """Groups of `count` positions by columns of (count,) numbers from 0 on.

    Returned are the first position of each group, (groups,), and each position's group, (count,).
    Without columns, all positions are alike.
    """
    combined, size = np.zeros(count, np.int64), 1
    for column in columns:
        different = int(column.max(initial=0)) + 1
        if size * different > _MAX:
            firsts, combined = _grouped(combined, size)
            size = len(firsts)
        combined, size = combined * different + column, size * different
    return _grouped(combined, size)


def alike_rows(table: Numbers) -> tuple[Numbers, Numbers]:
    """Groups of rows that are equal, (k, width), as `alike` returns them."""
    # By a sum with odd weights first: sorting whole rows takes ten times as long.
    sums = (table * _weights(table.shape[1])).sum(axis=1)
    _, firsts, groups = np.unique(sums, return_index=True, return_inverse=True)
    if (table == table[firsts[groups]]).all():
        return firsts, groups
    _, firsts, groups = np.unique(table, axis=0, return_index=True, return_inverse=True)
    return firsts, groups.reshape(-1)


@lru_cache(64)
def _weights(width: int) -> Numbers:
    weights = np.array([pow(_ODD, at + 1, 1 << 63) for at in range(width)], np.int64)
    weights.setflags(write=False)
    return weights


def _grouped(combined: Numbers, size: int) -> tuple[Numbers, Numbers]:
    """Groups of equal numbers, which are from 0 to `size` - 1."""
    count = len(combined)
    if size > _SPARSE * count + 1:
        _, firsts, groups = np.unique(combined, return_index=True, return_inverse=True)
        return firsts, groups
    first = np.full(size, count)
    first[combined[::-1]] = np.arange(count - 1, -1, -1)  # of equal ones the last is kept
    there = np.flatnonzero(first < count)
    number = np.zeros(size, np.int64)
    number[there] = np.arange(len(there))
    return first[there], number[combined]


# All devices by number, and parts of them as columns: many devices are compared at once.
#
# Numbers are given once. A slice that changes gets new ones, and what was under the old ones stays
# until most numbers are of slices that are gone.


K = TypeVar("K", bound=Hashable)

DeviceFlags = NDArray[np.bool_]
#: Numbers of slices that are gone are kept while they are fewer than the others, and this many.
_SPARE = 1000
#: The most columns that are kept.
_MAX_COLUMNS = 256


class _Codes(Generic[K]):
    """A number for each different value, from 0."""

    def __init__(self) -> None:
        self._codes: dict[K, int] = {}

    def of(self, value: K) -> int:
        """The number of a value."""
        return self._codes.setdefault(value, len(self._codes))


class _EntryNumbers:
    """The devices that have an entry, and the number of its value, from 1."""

    __slots__ = ("_codes", "devices", "values")

    def __init__(self) -> None:
        self.devices, self.values = array("q"), array("q")
        self._codes: _Codes[Hashable] = _Codes()

    def put(self, device: int, value: Hashable) -> None:
        self.devices.append(device)
        self.values.append(1 + self._codes.of(value))

    def column(self, count: int) -> Numbers:
        column = np.zeros(count, np.int64)
        column[np.frombuffer(self.devices, np.int64)] = np.frombuffer(self.values, np.int64)
        return column


class DeviceTable:
    """The devices of all slices. Columns are (devices,) int64, flags bool."""

    def __init__(self) -> None:
        #: How many claims hold a device.
        self._held: Counter[DeviceKey] = Counter()
        self._slices: dict[str, tuple[ResourceSlice, int]] = {}
        #: Grows when devices get other numbers.
        self.epoch = 0
        self._clear()

    def _clear(self) -> None:
        self.devices: list[PooledDevice] = []
        self._numbers: dict[DeviceKey, tuple[int, ...]] = {}
        self._entries: dict[DeviceRead, _EntryNumbers] = {}
        self._columns: dict[DeviceRead, Numbers] = {}
        self._states: _Codes[Hashable] = _Codes()
        self._state = array("q")
        self._flags = bytearray()
        self._gone = 0

    # --- reading -------------------------------------------------------------------------------

    def first_number(self, item: ResourceSlice) -> int:
        """The number of the first device of a slice; the others follow."""
        return self._slices[item.name][1]

    def is_held(self, key: DeviceKey) -> bool:
        """Whether a claim holds the device."""
        return key in self._held

    @property
    def held(self) -> DeviceFlags:
        """The devices that claims hold."""
        return np.frombuffer(self._flags, np.bool_).copy()

    def states(self) -> Numbers:
        """A number for each device: equal for those with equal taints, unsupported fields, and
        choice between one node and several.
        """
        return np.frombuffer(self._state, np.int64).copy()

    def column(self, read: DeviceRead) -> Numbers:
        """A number for each device: equal for those that are equal in this."""
        known, count = self._columns.get(read), len(self.devices)
        if known is None or len(known) < count:
            entries = self._entries.get(read)
            if entries is None:
                return np.zeros(count, np.int64)
            if len(self._columns) >= _MAX_COLUMNS:
                self._columns.clear()
            known = self._columns[read] = entries.column(count)
        return known

    # --- changing ------------------------------------------------------------------------------

    def put(self, item: ResourceSlice) -> None:
        """Number the devices of a slice, which must not be there."""
        self._slices[item.name] = item, len(self.devices)
        for position, device in enumerate(item.devices):
            self._number(PooledDevice(item.key_of(device), device, item, position))

    def drop(self, item: ResourceSlice) -> None:
        """Forget a slice."""
        _, first = self._slices.pop(item.name)
        # Node selectors, which no server bounds, go at once. The rest waits for new numbers.
        bare = replace(item, nodes=None, devices=())
        for number, one in enumerate(self.devices[first : first + len(item.devices)], first):
            device = replace(one.device, nodes=None)
            self.devices[number] = one._replace(device=device, slice=bare)
            others = tuple(at for at in self._numbers[one.key] if at != first + one.position)
            if others:
                self._numbers[one.key] = others
            else:
                del self._numbers[one.key]
        self._gone += len(item.devices)
        if self._gone > _SPARE + len(self.devices) // 2:
            slices = [known for known, _ in self._slices.values()]
            self._clear()
            self.epoch += 1
            for kept in slices:
                self.put(kept)

    def hold(self, keys: Iterable[DeviceKey], sign: int) -> None:
        """A claim holds (sign 1) devices, or no longer (-1)."""
        for key in keys:
            self._held[key] += sign
            if not self._held[key]:
                del self._held[key]
            for number in self._numbers.get(key, ()):
                self._flags[number] = key in self._held

    def _number(self, one: PooledDevice) -> None:
        number = len(self.devices)
        self.devices.append(one)
        self._numbers[one.key] = (*self._numbers.get(one.key, ()), number)
        self._flags.append(one.key in self._held)
        device, nodes = one.device, one.slice.nodes_of(one.device)
        is_local = nodes is not None and nodes.name is not None
        self._state.append(self._states.of((device.taints, device.unsupported, is_local)))
        for read, value in _entries_of(one):
            entries = self._entries.get(read)
            if entries is None:
                entries = self._entries[read] = _EntryNumbers()
            entries.put(number, value)


def _entries_of(one: PooledDevice) -> Iterator[tuple[DeviceRead, Hashable]]:
    """What expressions may read of a device, with a value that stands for it."""
    device = one.device
    yield DeviceRead("driver"), one.key.driver
    if "allowMultipleAllocations" in device.unsupported:
        yield DeviceRead("allowMultipleAllocations"), True
    domains: dict[DeviceRead, None] = {}
    for attribute in device.attributes:
        domain = attribute.domain
        domains[DeviceRead("attributes", domain)] = None
        value = (attribute.number, attribute.flag, attribute.text, attribute.version)
        yield DeviceRead("attributes", domain, attribute.name), value
    for capacity in device.capacity:
        domains[DeviceRead("capacity", capacity.domain)] = None
        yield DeviceRead("capacity", capacity.domain, capacity.name), capacity.quantity
    for read in domains:
        yield read, True
