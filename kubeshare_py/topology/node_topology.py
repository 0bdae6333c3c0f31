"""A node's cards without names.

Nodes of equal hardware have equal boards, and share the results computed for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.topology.card_graph import bandwidths, card_graph


@dataclass(frozen=True, slots=True)
class NodeTopology:
    """`bandwidth[a][b]` is between two positions, in MB/s, both directions summed; 0 where unknown.

    It is symmetric, and 0 from a position to itself.
    """

    bandwidth: tuple[tuple[int, ...], ...]

    @property
    def count(self) -> int:
        """The number of cards."""
        return len(self.bandwidth)


def topology_of(cards: Sequence[Gpu]) -> NodeTopology:
    """The board of these cards, which are all those of one node."""
    ordered = in_order(cards)
    return NodeTopology(bandwidths(card_graph(ordered), len(ordered)))


def in_order(cards: Sequence[Gpu]) -> list[Gpu]:
    """The cards in the order of the board's positions: by index, then by uuid."""
    return sorted(cards, key=lambda card: (card.index, card.uuid))
