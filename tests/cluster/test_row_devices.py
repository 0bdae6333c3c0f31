"""The devices of rows by number; what changes is looked at again, and nothing else."""

import numpy as np

from kubeshare_py.cluster.changes import ChangeLog
from kubeshare_py.cluster.cluster_objects import ClusterObjects
from kubeshare_py.cluster.row_devices import RowDevices
from kubeshare_py.domain.device import DeviceKey, DeviceNodes
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.values import replace
from tests.making.devices import DRIVER, device, sliced

_ALL = np.arange(2)


class _Tables:
    """Two nodes with a card each."""

    def __init__(self) -> None:
        self.objects = ClusterObjects()
        self.names = [NodeName("n1"), NodeName("n2")]
        self.uuids = [[GpuUuid("GPU-1")], [GpuUuid("GPU-2")]]
        row_of = {name: row for row, name in enumerate(self.names)}
        self.devices = RowDevices(self.objects, self.names, row_of, self.uuids)
        self.renamed: ChangeLog = self.devices.renamed

    def found(self) -> list[list[str]]:
        """The names of the devices of each row."""
        table = self.objects.device_table
        numbers = self.devices.of(_ALL, {}).numbers
        return [
            [table.devices[number].key.device for number in row if number >= 0]
            for row in numbers.tolist()
        ]

    def slots(self) -> list[list[int]]:
        """The card slots of each row's devices."""
        slots: list[list[int]] = self.devices.of(_ALL, {}).slots[0].tolist()
        return slots


def test_rows_have_the_devices_of_their_slices() -> None:
    tables = _Tables()
    assert tables.found() == [[], []]

    tables.objects.put(sliced(device("a"), device("b")))
    assert tables.found() == [["a", "b"], []]
    tables.objects.put(sliced(device("c"), node="n2"))
    tables.objects.put(sliced(device("d")))
    assert tables.found() == [["d"], ["c"]]


def test_a_slice_of_all_nodes_concerns_every_row() -> None:
    tables = _Tables()
    shared = replace(sliced(device("net"), pool="net"), nodes=DeviceNodes(everywhere=True))
    tables.found()

    tables.objects.put(shared)
    assert tables.found() == [["net"], ["net"]]
    tables.objects.drop(shared.kind, shared.key)
    assert tables.found() == [[], []]


def test_devices_are_cards_while_the_row_has_the_card() -> None:
    tables = _Tables()
    tables.objects.put(sliced(device("a", uuid="GPU-0"), device("b", uuid="GPU-1")))
    assert tables.slots() == [[-1, 0], [-1, -1]]

    tables.uuids[0] = [GpuUuid("GPU-0"), GpuUuid("GPU-1")]
    tables.renamed.add(0)
    assert tables.slots() == [[0, 1], [-1, -1]]


def test_a_device_may_be_a_card_and_part_of_a_card() -> None:
    tables = _Tables()
    tables.uuids[0] = [GpuUuid("GPU-1"), GpuUuid("MIG-1")]
    tables.objects.put(sliced(device("a", parentUUID="GPU-1", uuid="MIG-1")))

    assert tables.devices.of(_ALL, {}).slots[:, 0, 0].tolist() == [0, 1]


def test_rows_tell_pools_apart_that_are_left_out() -> None:
    tables = _Tables()
    tables.objects.put(sliced(device("a"), device("a")))

    first, second = tables.devices.of(_ALL, {}).unusable.tolist()

    assert (first, second) == (1, 0)


def test_devices_are_numbered_before_claims_and_after() -> None:
    tables, key = _Tables(), DeviceKey(DRIVER, "n1", "a")
    tables.objects.device_table.hold((key,), 1)
    tables.objects.put(sliced(device("a"), device("b")))
    assert tables.objects.device_table.held.tolist() == [True, False]

    tables.objects.device_table.hold((key,), -1)
    assert tables.objects.device_table.held.tolist() == [False, False]
