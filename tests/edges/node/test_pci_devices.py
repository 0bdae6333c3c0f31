"""RDMA devices and cards in a tree like sysfs."""

from pathlib import Path

from kubeshare_py.edges.node.card_child import MAX_DEVICES, PciDevices
from tests.edges.node.sysfs import put_card, put_rdma

PORT = "pci0000:00/0000:00:01.0"


def test_a_node_without_rdma_has_none(tmp_path: Path) -> None:
    assert PciDevices(str(tmp_path)).rdma() == ()
    assert PciDevices(str(tmp_path)).ways(["0000:03:00.0", ""]) == {"0000:03:00.0": ()}


def test_devices_have_their_places_and_numa_nodes(tmp_path: Path) -> None:
    put_rdma(tmp_path, "mlx5_1", f"{PORT}/0000:04:00.0", numa=-1)
    put_rdma(tmp_path, "mlx5_0", f"{PORT}/0000:03:00.0", numa=1)
    put_card(tmp_path, f"{PORT}/0000:05:00.0")
    pci = PciDevices(str(tmp_path))
    assert [(one.name, one.bus, one.numa_node) for one in pci.rdma()] == [
        ("mlx5_0", "0000:03:00.0", 1),
        ("mlx5_1", "0000:04:00.0", None),
    ]
    assert pci.ways(["0000:05:00.0"]) == {
        "0000:05:00.0": ("pci0000:00", "0000:00:01.0", "0000:05:00.0")
    }


def test_a_device_of_software_is_on_no_bus(tmp_path: Path) -> None:
    (tmp_path / "sys/class/infiniband/rxe0").mkdir(parents=True)
    put_rdma(tmp_path, "siw0", "virtual/net/lo")
    assert PciDevices(str(tmp_path)).rdma() == ()


def test_of_many_devices_the_first_count(tmp_path: Path) -> None:
    for number in range(MAX_DEVICES + 9):
        put_rdma(tmp_path, f"mlx5_{number:03}", f"{PORT}/0000:04:{number:02x}.0")
    found = PciDevices(str(tmp_path)).rdma()
    assert [one.name for one in found] == [f"mlx5_{number:03}" for number in range(MAX_DEVICES)]
