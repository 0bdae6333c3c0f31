"""A node's cards without names: nodes of equal hardware have equal boards and share what is
worked out for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.topology.card_graph import bandwidths, card_graph


@dataclass(frozen=True, slots=True)
class Board:
    """`bandwidth[a][b]` between two positions in MB/s, both directions summed; 0 where unknown.

    `numa[a]` is the NUMA node that is near a position, None where nobody says. Symmetric.
    """

    bandwidth: tuple[tuple[int, ...], ...]
    numa: tuple[int | None, ...]

    @property
    def count(self) -> int:
        """How many cards."""
        return len(self.numa)


def positions(cards: Sequence[Gpu]) -> tuple[GpuUuid, ...]:
    """The cards' uuids in the order of a board's positions: by index, then by uuid."""
    return tuple(card.uuid for card in _in_order(cards))


def board_of(cards: Sequence[Gpu]) -> Board:
    """The board that these cards are, all those of one node."""
    ordered = _in_order(cards)
    return Board(
        bandwidth=bandwidths(card_graph(ordered), len(ordered)),
        numa=tuple(card.numa_node for card in ordered),
    )


class Boards:
    """Numbers for boards, so that columns can say which board a row is. Each is worked out once."""

    def __init__(self) -> None:
        self.boards: list[Board] = []
        self._numbers: dict[Board, int] = {}
        self._known: dict[object, int] = {}

    def number(self, cards: Sequence[Gpu]) -> int:
        """The number of these cards' board."""
        ordered = _in_order(cards)
        parents = sorted({card.parent for card in ordered if card.parent is not None})
        key = tuple(
            (card.index, card.links, card.numa_node, card.parent and parents.index(card.parent))
            for card in ordered
        )
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._numbered(board_of(ordered))
        return known

    def _numbered(self, board: Board) -> int:
        number = self._numbers.setdefault(board, len(self.boards))
        if number == len(self.boards):
            self.boards.append(board)
        return number


def _in_order(cards: Sequence[Gpu]) -> list[Gpu]:
    return sorted(cards, key=lambda card: (card.index, card.uuid))
