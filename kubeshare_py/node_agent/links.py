"""How the cards of a node reach each other, and how near they are to its RDMA devices."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kubeshare_py.domain.card_reading import (
    PATHS,
    BusPath,
    CardLink,
    CardReading,
    FarEnd,
    NodeReading,
    OwnLink,
    RdmaDevice,
)


def card_links(cards: Iterable[CardReading]) -> tuple[CardLink, ...]:
    """One link for each ordered pair of whole cards whose connection the driver reports.

    NVLinks win over the bus, as in `nvidia-smi topo -m`. A divided card has none: its instances
    reach no other card directly.
    """
    whole = [_End(card) for card in cards if card.parent is None]
    pairs = ((one, other) for one in whole for other in whole if one is not other)
    return tuple(link for one, other in pairs if (link := _link(one, other)) is not None)


class _End:
    """One card's end of its links."""

    def __init__(self, card: CardReading) -> None:
        self.card = card
        self.paths = dict(card.paths)
        #: The number and speed (MB/s) of links to switches, and to each bus address.
        self.switched = _sum(link for link in card.links if link.far_end is FarEnd.SWITCH)
        direct = [link for link in card.links if link.far_end is FarEnd.CARD]
        self.direct = {
            bus: _sum(link for link in direct if link.bus == bus)
            for bus in {link.bus for link in direct}
        }


def _link(one: _End, other: _End) -> CardLink | None:
    uuid, peer = one.card.uuid, other.card.uuid
    if not one.card.divided and not other.card.divided:
        count, speed = one.direct.get(other.card.bus) or _switched(one, other)
        if count:
            return CardLink(uuid=uuid, peer=peer, kind=f"NV{count}", speed=speed)
    path = one.paths.get(peer)
    if path is None:
        return None
    speed = min(one.card.bus_speed or 0, other.card.bus_speed or 0)
    return CardLink(uuid=uuid, peer=peer, kind=path.value, speed=speed)


def _switched(one: _End, other: _End) -> tuple[int, int]:
    """Over switches every card reaches every other, as fast as the slower of the two."""
    if not _share_a_fabric(one.card, other.card):
        return 0, 0
    return min(one.switched, other.switched)


def _share_a_fabric(one: CardReading, other: CardReading) -> bool:
    """Whether two cards share a fabric; without a fabric manager a node has one."""
    if one.fabric is None and other.fabric is None:
        return True
    if one.fabric is None or other.fabric is None:
        return False
    return one.fabric.is_ready and one.fabric == other.fabric


def _sum(links: Iterable[OwnLink]) -> tuple[int, int]:
    speeds = [link.speed for link in links]
    return len(speeds), sum(speeds)


# How near a node's cards are to its RDMA devices, by their places on PCI.
#
# A place is the way from the root complex to the device, as sysfs has it: `pci0000:00`, a root
# port, the upstream and the downstream port of each switch, and the device
# (https://docs.kernel.org/PCI/sysfs-pci.html). What lies between two devices is named as by
# `nvidia-smi topo -m`.


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
