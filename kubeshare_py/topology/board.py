"""A node's cards without names: nodes of equal hardware have equal boards and share what is
worked out for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.topology.card_graph import bandwidths, card_graph


@dataclass(frozen=True, slots=True)
class Board:
    """`bandwidth[a][b]` between two positions in MB/s, both directions summed; 0 where unknown.

    Symmetric; a position has 0 with itself.
    """

    bandwidth: tuple[tuple[int, ...], ...]

    @property
    def count(self) -> int:
        """How many cards."""
        return len(self.bandwidth)


def board_of(cards: Sequence[Gpu]) -> Board:
    """The board that these cards are, all those of one node."""
    ordered = in_order(cards)
    return Board(bandwidths(card_graph(ordered), len(ordered)))


def in_order(cards: Sequence[Gpu]) -> list[Gpu]:
    """The cards in the order of a board's positions: by index, then by uuid."""
    return sorted(cards, key=lambda card: (card.index, card.uuid))
