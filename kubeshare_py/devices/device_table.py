"""All devices by number, and parts of them as columns: many devices are compared at once.

Numbers are given once. A slice that changes gets new ones, and what was under the old ones stays
until most numbers are of slices that are gone.
"""

from array import array
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.devices.alike import Numbers
from kubeshare_py.devices.device_pools import PooledDevice
from kubeshare_py.devices.device_reads import DeviceRead
from kubeshare_py.domain.devices.device import DeviceKey, ResourceSlice

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
