"""A row of amounts by card: a column for each card, or one list if that is too wide."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.text import Text

from kubeshare_py.terminal.cards import ordered
from kubeshare_py.terminal.grid import GridColumn, Row, grid
from kubeshare_py.views.view import CardView

#: Stands for the index of cards that are not in the inventory.
NO_INDEX = "?"
_SHORTEST_NAME = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    """The leading cells, one amount for each card index, and the last cell."""

    lead: tuple[str, ...]
    by_card: Mapping[str, str]
    tail: str


def index_label(card: CardView) -> str:
    """The header of this card's column."""
    return str(card.index) if card.index >= 0 else NO_INDEX


def by_index(cards: Iterable[CardView]) -> dict[str, list[CardView]]:
    """Cards under their index, in order; those without an index together."""
    found: dict[str, list[CardView]] = {}
    for card in ordered(cards):
        found.setdefault(index_label(card), []).append(card)
    return found


def card_matrix(
    rows: Sequence[MatrixRow],
    *,
    heads: tuple[str, ...],
    amount: str,
    empty: str,
    width: int | None,
) -> list[Text]:
    """Lines with a column `GPU0(amount)` for each card; `empty` where a row has no such card.

    A terminal too narrow for that gets one list per row instead: `0:amount 1:amount`.
    """
    labels = sorted({label for row in rows for label in row.by_card}, key=_in_order)
    *leading, last = heads
    names = [GridColumn(header=head) for head in leading]
    wide = grid(
        [
            *names,
            *(GridColumn(header=f"GPU{label}({amount})") for label in labels),
            GridColumn(header=last),
        ],
        [
            Row(cells=[*row.lead, *(row.by_card.get(label, empty) for label in labels), row.tail])
            for row in rows
        ],
        None,
    )
    if width is None or all(line.cell_len <= width for line in wide):
        return wide
    return grid(
        [GridColumn(header=head, least=_SHORTEST_NAME) for head in leading]
        + [GridColumn(header=last)],
        [
            Row(
                cells=[*row.lead, row.tail],
                flow=" ".join(f"{label}:{one}" for label, one in row.by_card.items()),
            )
            for row in rows
        ],
        width,
        flow_header=f"GPU:{amount}",
    )


def _in_order(label: str) -> tuple[bool, int]:
    return (label == NO_INDEX, 0 if label == NO_INDEX else int(label))
