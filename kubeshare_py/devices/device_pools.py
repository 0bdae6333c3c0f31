"""The devices of a cluster, by the nodes that they may be used from.

Rules: a pool counts in its newest generation, and once all of its slices are there.
https://kubernetes.io/docs/reference/kubernetes-api/resource/v1/resource-slice-v1/
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kubeshare_py.domain.devices.device import Device, DeviceKey, DeviceNodes, ResourceSlice
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import NodeTerm

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
