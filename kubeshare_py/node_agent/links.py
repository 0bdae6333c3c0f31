"""How the cards of a node reach each other."""

from collections.abc import Iterable

from kubeshare_py.domain.card_reading import CardLink, CardReading, FarEnd, OwnLink


def card_links(cards: Iterable[CardReading]) -> tuple[CardLink, ...]:
    """One for each ordered pair of whole cards of which the driver says how they are joined.

    Own links win over the bus, as in `nvidia-smi topo -m`. A card that is divided has no use of
    them: instances reach nobody else directly.
    """
    whole = [card for card in cards if card.parent is None]
    pairs = ((one, other) for one in whole for other in whole if one.uuid != other.uuid)
    return tuple(link for one, other in pairs if (link := _link(one, other)) is not None)


def _link(one: CardReading, other: CardReading) -> CardLink | None:
    count, speed = _direct(one, other) or _switched(one, other) or (0, 0)
    if count and not one.divided and not other.divided:
        return CardLink(uuid=one.uuid, peer=other.uuid, kind=f"NV{count}", speed=speed)
    path = dict(one.paths).get(other.uuid)
    if path is None:
        return None
    speed = min(one.bus_speed or 0, other.bus_speed or 0)
    return CardLink(uuid=one.uuid, peer=other.uuid, kind=path.value, speed=speed)


def _direct(one: CardReading, other: CardReading) -> tuple[int, int] | None:
    links = [link for link in one.links if link.far_end is FarEnd.CARD and link.bus == other.bus]
    return _sum(links) if links else None


def _switched(one: CardReading, other: CardReading) -> tuple[int, int] | None:
    """Over switches everybody reaches everybody, as fast as the slower of the two."""
    if not _share_a_fabric(one, other):
        return None
    ends = [
        _sum([link for link in card.links if link.far_end is FarEnd.SWITCH])
        for card in (one, other)
    ]
    return min(ends)


def _share_a_fabric(one: CardReading, other: CardReading) -> bool:
    """Drivers without a fabric manager of clusters name none: then a node has one fabric."""
    if one.fabric is None and other.fabric is None:
        return True
    if one.fabric is None or other.fabric is None:
        return False
    return one.fabric.is_ready and one.fabric == other.fabric


def _sum(links: list[OwnLink]) -> tuple[int, int]:
    return len(links), sum(link.speed for link in links)
