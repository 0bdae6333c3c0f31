"""`kubeshare-collector --once`: the cards of one node, and how they reach each other.

Plain columns: rich, which kubectl's tables use, is 2 MiB that a collector on every node can do
without.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from kubeshare_py.domain.card_reading import CardLink, CardReading, JudgedCard
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.readiness import as_labels
from kubeshare_py.terminal.amounts import memory

_NOTHING, _GAP = "-", "  "
_HEADER = ("CARD", "UUID", "MODEL", "MEMORY", "USED", "BUSY", "NUMA", "BUS", "STATE")


def node_cards(
    node: NodeName, driver: str, cards: Sequence[JudgedCard], links: Sequence[CardLink]
) -> str:
    """A row for each card, MIG instances below theirs, and the matrix of links."""
    about = f"driver {driver}" if driver else "no driver"
    lines = [f"{node}: {about}, {len(cards)} cards and instances"]
    if cards:
        lines += ["", *_aligned([_HEADER, *(_cells(card) for card in cards)])]
    lines += _isolation(cards)
    if links:
        lines += ["", *_aligned(_matrix([card.reading for card in cards], links))]
    return "\n".join(lines) + "\n"


def _cells(card: JudgedCard) -> list[str]:
    reading = card.reading
    cells = (
        str(reading.index) if reading.parent is None else "",
        reading.uuid,
        reading.profile or reading.model,
        memory(reading.memory_bytes) if reading.memory_bytes else None,
        None if reading.used_bytes is None else memory(reading.used_bytes),
        None if reading.busy_percent is None else f"{reading.busy_percent}%",
        None if reading.numa_node is None else str(reading.numa_node),
        reading.bus,
        _state(card),
    )
    return [_NOTHING if cell is None else cell for cell in cells]


def _state(card: JudgedCard) -> str:
    if card.faults:
        return ", ".join(card.faults)
    return "divided" if card.reading.divided else "healthy"


def _isolation(cards: Sequence[JudgedCard]) -> Iterator[str]:
    """Which back-ends are ready, as far as the node can see, for cards that are alike."""
    alike = Counter(as_labels(card.readiness) for card in cards if card.is_listed)
    for labels, count in sorted(alike.items(), key=lambda item: (-item[1], item[0])):
        if labels:
            words = ", ".join(f"{backend} {word}" for backend, word in labels)
            yield f"isolation of {count} of them: {words}"


def _matrix(cards: Sequence[CardReading], links: Sequence[CardLink]) -> list[list[str]]:
    kinds = {(link.uuid, link.peer): link.kind for link in links}
    whole = [card for card in cards if card.parent is None]
    rows = [["", *(str(card.index) for card in whole)]]
    for one in whole:
        words = [
            "X" if one is other else kinds.get((one.uuid, other.uuid), _NOTHING) for other in whole
        ]
        rows.append([str(one.index), *words])
    return rows


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
