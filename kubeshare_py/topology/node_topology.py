"""A node's cards as a board: cards without names, and their bandwidths.

Nodes of equal hardware have equal boards, and share the results computed for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kubeshare_py.domain.gpu import Gpu

#: Larger boards consist of divided instances: searching cliques may take long there, and every
#: island is a component.
MAX_FOR_CLIQUES = 16


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
    if not any(
        card.links or card.numa_node is not None or card.parent is not None for card in cards
    ):
        return NodeTopology(((0,) * len(cards),) * len(cards))
    # Imported late: see its head.
    from kubeshare_py.topology.card_graph import bandwidths, card_graph  # noqa: PLC0415

    ordered = in_order(cards)
    return NodeTopology(bandwidths(card_graph(ordered), len(ordered)))


def in_order(cards: Sequence[Gpu]) -> list[Gpu]:
    """The cards in the order of the board's positions: by index, then by uuid."""
    return sorted(cards, key=lambda card: (card.index, card.uuid))
