"""Where a node's RDMA devices and cards are on PCI, by sysfs.

`/sys/class/infiniband` has RDMA devices of every kind, InfiniBand and RoCE
(https://docs.kernel.org/admin-guide/abi-stable-files.html). Paths are texts, because pathlib would
take most of a MiB on every node.
"""

import os
from collections.abc import Iterable

from kubeshare_py.domain.bounds import NUMA_NODE
from kubeshare_py.domain.card_reading import RdmaDevice
from kubeshare_py.node_agent.rdma import PciPlace, way_of

RDMA, PCI = "sys/class/infiniband", "sys/bus/pci/devices"
#: The most RDMA devices of a node that are reported; virtual functions are devices too.
MAX_DEVICES = 64


class PciDevices:
    """Looks at sysfs below `root`; where it is not readable, there is nothing."""

    def __init__(self, root: str) -> None:
        self._root = root.rstrip("/")

    def rdma(self) -> tuple[RdmaDevice, ...]:
        """The RDMA devices on PCI, by name; a device of software is on no bus."""
        folder = f"{self._root}/{RDMA}"
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            return ()
        found = (_device(name, f"{folder}/{name}/device") for name in names[:MAX_DEVICES])
        return tuple(one for one in found if one.way)

    def ways(self, buses: Iterable[str]) -> dict[str, PciPlace]:
        """The way to each of these PCI addresses."""
        return {bus: _way(f"{self._root}/{PCI}/{bus}") for bus in {*buses} if bus}


def _way(link: str) -> PciPlace:
    return way_of(os.path.realpath(link))


def _device(name: str, link: str) -> RdmaDevice:
    return RdmaDevice(name=name, way=_way(link), numa_node=_numa_node(f"{link}/numa_node"))


def _numa_node(path: str) -> int | None:
    """Linux writes -1 if it is unknown."""
    try:
        with open(path, encoding="ascii") as file:
            node = int(file.read(16))
    except (OSError, ValueError):
        return None
    return node if NUMA_NODE.allows(node) else None
