"""How near a node's cards are to its RDMA devices, by their places on PCI.

A place is the way from the root complex to the device, as sysfs has it: `pci0000:00`, a root port,
the upstream and the downstream port of each switch, and the device
(https://docs.kernel.org/PCI/sysfs-pci.html). What lies between two devices is named as by
`nvidia-smi topo -m`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kubeshare_py.domain.card_reading import PATHS, BusPath, CardReading, NodeReading, RdmaDevice

#: PCI addresses from the root complex to a device; empty if unknown.
PciPlace = tuple[str, ...]

_DEVICES = "/devices/"
#: Below the upstream port of a common switch: a downstream port, and the device.
_AT_ONE_SWITCH = 2


def way_of(path: str) -> PciPlace:
    """The way to a device from its real path in sysfs; empty if it is not on PCI."""
    way = tuple(path.rpartition(_DEVICES)[2].split("/"))
    return way if len(way) > 1 and way[0].startswith("pci") else ()


def path_between(one: PciPlace, other: PciPlace, *, one_numa_node: bool) -> BusPath:
    """What lies between two devices; `one_numa_node`: they are known to be near the same one."""
    common = 0
    for first, second in zip(one, other, strict=False):
        if first != second:
            break
        common += 1
    if not common:
        return BusPath.NODE if one_numa_node else BusPath.SYS
    if common == 1:
        return BusPath.PHB
    below = max(len(one), len(other)) - common
    return BusPath.PIX if below <= _AT_ONE_SWITCH else BusPath.PXB


def with_rdma(
    reading: NodeReading, devices: Sequence[RdmaDevice], ways: Mapping[str, PciPlace]
) -> NodeReading:
    """The reading with the node's RDMA devices; `ways` are those of cards, by PCI address."""
    if not devices:
        return reading
    cards = tuple(_near(card, devices, ways.get(card.bus, ())) for card in reading.cards)
    return replace(reading, cards=cards, rdma=tuple(devices))


def nearest(paths: Iterable[BusPath]) -> BusPath | None:
    """The nearest; None of none."""
    return min(paths, key=PATHS.index, default=None)


def _near(card: CardReading, devices: Sequence[RdmaDevice], way: PciPlace) -> CardReading:
    if not way:
        return card
    return replace(
        card,
        rdma=tuple(
            (
                one.name,
                path_between(
                    way,
                    one.way,
                    one_numa_node=card.numa_node is not None and card.numa_node == one.numa_node,
                ),
            )
            for one in devices
        ),
    )
