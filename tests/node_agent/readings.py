"""Readings for tests: a call says only what the test is about."""

from typing import Any

from kubeshare_py.domain.card_reading import CardReading, DriverError, NodeReading
from kubeshare_py.domain.identity import GpuUuid

GIB = 2**30


def a_card(uuid: str = "GPU-a", **fields: Any) -> CardReading:
    """A card that says hardly anything."""
    given: dict[str, Any] = {"index": 0, "model": "A100", "memory_bytes": 40 * GIB, **fields}
    if "parent" in given:
        given["parent"] = GpuUuid(given["parent"])
    return CardReading(uuid=GpuUuid(uuid), **given)


def a_reading(*cards: CardReading | str, **fields: Any) -> NodeReading:
    """A reading of these cards, or of cards with these uuids."""
    whole = tuple(a_card(card) if isinstance(card, str) else card for card in cards)
    return NodeReading(cards=whole, **{"driver": "1", **fields})


def an_error(uuid: str = "GPU-a", code: str = "xid-79", **fields: Any) -> DriverError:
    """One that is the card's."""
    return DriverError(uuid=GpuUuid(uuid), code=code, **fields)
