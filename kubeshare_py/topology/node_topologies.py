"""All boards of a cluster, numbered; a column holds each row's number."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.topology.card_sets import CardSets
from kubeshare_py.topology.node_topology import NodeTopology, in_order, topology_of

#: The most boards beyond those in use, and cached descriptions, that are kept.
SPARE_BOARDS = 256
#: Sets of positions are kept in columns of 64 bits.
MAX_CARDS = 62


class NodeTopologies:
    """Gives nodes of equal hardware one number, and one CardSets in common.

    Number 0 is the board without cards. It also stands for boards with more than 62 cards, of which
    it is not known how they are joined.
    """

    def __init__(self) -> None:
        nothing = NodeTopology(())
        self.sets: list[CardSets] = [CardSets(nothing)]
        self._numbers: dict[NodeTopology, int] = {nothing: 0}
        self._known: dict[object, int] = {}
        self._most = SPARE_BOARDS

    def number(self, cards: Sequence[Gpu]) -> int:
        """The number of the board of these cards, which are all those of one node."""
        if len(cards) > MAX_CARDS:
            return 0
        ordered = in_order(cards)
        parents = sorted({card.parent for card in ordered if card.parent is not None})
        key = tuple(
            (card.index, card.links, card.numa_node, card.parent and parents.index(card.parent))
            for card in ordered
        )
        known = self._known.get(key)
        if known is None:
            if len(self._known) > 2 * self._most:
                self._known.clear()
            known = self._known[key] = self._numbered(topology_of(ordered))
        return known

    @property
    def is_crowded(self) -> bool:
        """Whether most of the boards may be out of use."""
        return len(self.sets) > self._most

    def renumber(self, column: NDArray[np.int64]) -> NDArray[np.int64]:
        """Drop the boards that are not in this column of numbers; the column with the new numbers.

        Both are (rows,) int64.
        """
        used = np.union1d(column, [0])
        self.sets = [self.sets[number] for number in used.tolist()]
        self._numbers = {sets.board: number for number, sets in enumerate(self.sets)}
        self._known.clear()
        self._most = 2 * len(self.sets) + SPARE_BOARDS
        renumbered: NDArray[np.int64] = np.searchsorted(used, column)
        return renumbered

    def _numbered(self, topology: NodeTopology) -> int:
        number = self._numbers.setdefault(topology, len(self.sets))
        if number == len(self.sets):
            self.sets.append(CardSets(topology))
        return number
