"""A tree like Linux's sysfs, with RDMA devices and cards on PCI."""

from pathlib import Path


def put_rdma(root: Path, name: str, place: str, numa: int | None = None) -> None:
    """An RDMA device; `place` is its path below /sys/devices."""
    device = _device(root, place)
    if numa is not None:
        (device / "numa_node").write_text(f"{numa}\n")
    own = root / "sys/class/infiniband" / name
    own.mkdir(parents=True, exist_ok=True)
    (own / "device").symlink_to(device)


def put_card(root: Path, place: str) -> None:
    """Any PCI device, as the bus lists it."""
    device = _device(root, place)
    bus = root / "sys/bus/pci/devices"
    bus.mkdir(parents=True, exist_ok=True)
    (bus / device.name).symlink_to(device)


def _device(root: Path, place: str) -> Path:
    device = root / "sys/devices" / place
    device.mkdir(parents=True, exist_ok=True)
    return device
