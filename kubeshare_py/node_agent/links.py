"""How the cards of a node reach each other."""

from collections.abc import Iterable

from kubeshare_py.domain.card_reading import CardLink, CardReading, FarEnd, OwnLink


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
