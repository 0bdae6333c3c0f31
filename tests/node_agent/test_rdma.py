"""How near cards are to RDMA devices, by where both are on PCI."""

import pytest

from kubeshare_py.domain.card_reading import BusPath, CardReading, NodeReading, RdmaDevice
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.node_agent.links import nearest, path_between, way_of, with_rdma

ROOT, PORT = "pci0000:00", "0000:00:01.0"
#: A switch below the root port: its upstream port, and a device at each downstream port.
SWITCH = (ROOT, PORT, "0000:01:00.0")
CARD = (*SWITCH, "0000:02:00.0", "0000:03:00.0")
BESIDE = (*SWITCH, "0000:02:04.0", "0000:04:00.0")
#: A second switch at a downstream port of the first.
BELOW = (*SWITCH, "0000:02:08.0", "0000:05:00.0", "0000:06:00.0", "0000:07:00.0")
OTHER_PORT = (ROOT, "0000:00:02.0", "0000:08:00.0")
OTHER_ROOT = ("pci0000:80", "0000:80:01.0", "0000:81:00.0")


@pytest.mark.parametrize(
    ("other", "path"),
    [
        (BESIDE, BusPath.PIX),
        (BELOW, BusPath.PXB),
        (OTHER_PORT, BusPath.PHB),
        (OTHER_ROOT, BusPath.SYS),
    ],
)
def test_what_lies_between_is_named_as_nvidia_smi_does(
    other: tuple[str, ...], path: BusPath
) -> None:
    assert path_between(CARD, other, one_numa_node=False) is path
    assert path_between(other, CARD, one_numa_node=False) is path


def test_host_bridges_of_one_numa_node_are_nearer_than_those_of_two() -> None:
    assert path_between(CARD, OTHER_ROOT, one_numa_node=True) is BusPath.NODE


@pytest.mark.parametrize(
    ("path", "way"),
    [
        ("/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0", (ROOT, PORT, "0000:01:00.0")),
        ("/host/sys/devices/pci0000:00/0000:00:01.0", (ROOT, PORT)),
        ("/sys/devices/virtual/infiniband/rxe0", ()),
        ("/sys/bus/pci/devices/0000:3b:00.0", ()),
        ("", ()),
    ],
)
def test_only_devices_on_pci_have_a_way(path: str, way: tuple[str, ...]) -> None:
    assert way_of(path) == way


def test_the_switch_of_a_device_is_its_upstream_port() -> None:
    assert RdmaDevice(name="mlx5_0", way=BESIDE).switch == "0000:01:00.0"
    assert RdmaDevice(name="mlx5_1", way=BELOW).switch == "0000:05:00.0"
    assert RdmaDevice(name="mlx5_2", way=OTHER_PORT).switch == ""
    assert RdmaDevice(name="mlx5_2", way=OTHER_PORT).bus == "0000:08:00.0"


def test_each_card_with_a_known_place_has_a_path_to_each_device() -> None:
    card = CardReading(
        uuid=GpuUuid("GPU-1"), index=0, model="A", memory_bytes=1, bus="0000:03:00.0", numa_node=1
    )
    lost = CardReading(uuid=GpuUuid("GPU-2"), index=1, model="A", memory_bytes=1, bus="x")
    devices = (
        RdmaDevice(name="mlx5_0", way=BESIDE),
        RdmaDevice(name="mlx5_1", way=OTHER_ROOT, numa_node=1),
    )
    found = with_rdma(NodeReading(cards=(card, lost)), devices, {"0000:03:00.0": CARD})
    assert [one.rdma for one in found.cards] == [
        (("mlx5_0", BusPath.PIX), ("mlx5_1", BusPath.NODE)),
        (),
    ]
    assert found.rdma == devices


def test_the_nearest_counts() -> None:
    assert nearest([BusPath.SYS, BusPath.PHB, BusPath.NODE]) is BusPath.PHB
    assert nearest([]) is None
