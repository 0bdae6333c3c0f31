"""`kubeshare-collector --once`: the cards of one node, and how they reach each other."""

from collections.abc import Sequence

from rich.text import Text

from kubeshare_py.domain.card_reading import CardLink, CardReading, JudgedCard
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.terminal.amounts import memory
from kubeshare_py.terminal.grid import Column, Row, grid, joined, printable

_NOTHING = "-"
_COLUMNS = (
    Column(header="CARD"),
    Column(header="UUID"),
    Column(header="MODEL", least=12),
    Column(header="MEMORY", right=True),
    Column(header="USED", right=True),
    Column(header="BUSY", right=True),
    Column(header="NUMA", right=True),
    Column(header="BUS"),
    Column(header="STATE"),
)


def node_cards(
    node: NodeName, driver: str, cards: Sequence[JudgedCard], links: Sequence[CardLink]
) -> Text:
    """A row for each card, MIG instances below theirs, and the matrix of links."""
    about = f"driver {driver}" if driver else "no driver"
    lines = [Text(f"{printable(node)}: {about}, {len(cards)} cards and instances", style="bold")]
    if cards:
        rows = [Row(cells=_cells(card), style="red" if card.faults else "") for card in cards]
        lines += [Text(), *grid(_COLUMNS, rows, None)]
    if links:
        lines += [Text(), *_matrix([card.reading for card in cards], links)]
    return joined(lines)


def _cells(card: JudgedCard) -> list[str]:
    reading = card.reading
    told = (
        str(reading.index) if reading.parent is None else "",
        printable(reading.uuid),
        printable(reading.profile or reading.model),
        memory(reading.memory_bytes),
        None if reading.used_bytes is None else memory(reading.used_bytes),
        None if reading.busy_percent is None else f"{reading.busy_percent}%",
        None if reading.numa_node is None else str(reading.numa_node),
        reading.bus,
        _state(card),
    )
    return [_NOTHING if cell is None else cell for cell in told]


def _state(card: JudgedCard) -> str:
    if card.faults:
        return ", ".join(card.faults)
    return "divided" if card.reading.divided else "healthy"


def _matrix(cards: Sequence[CardReading], links: Sequence[CardLink]) -> list[Text]:
    kinds = {(link.uuid, link.peer): link.kind for link in links}
    whole = [card for card in cards if card.parent is None]
    columns = [Column(header=""), *(Column(header=str(card.index)) for card in whole)]
    rows = [
        Row(
            cells=[
                str(one.index),
                *(
                    "X" if one is other else kinds.get((one.uuid, other.uuid), _NOTHING)
                    for other in whole
                ),
            ]
        )
        for one in whole
    ]
    return grid(columns, rows, None)
