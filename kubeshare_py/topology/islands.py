"""Islands: cards that reach each other faster than others reach them, as sets of positions.

Position p is bit 1 << p.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

import networkx as nx

from kubeshare_py.topology.rings import PositionSet

#: Larger boards consist of divided instances: searching cliques may take long there, and every
#: island is a component.
MAX_FOR_CLIQUES = 16

Matrix = Sequence[Sequence[int]]


def islands(bandwidth: Matrix) -> tuple[tuple[PositionSet, ...], ...]:
    """The islands at each level, widest level first, where every card reaches every other.

    A level is a bandwidth that occurs (MB/s). Its islands are sets of two or more cards in which
    each pair has at least that bandwidth. The largest are found first, so that a cube mesh is two
    quads and not a ring of pairs. Levels with the same islands as the level before are left out.
    """
    cards = range(len(bandwidth))
    found: list[tuple[PositionSet, ...]] = []
    for least in sorted({bandwidth[one][other] for one, other in combinations(cards, 2)}):
        level = tuple(sorted(_bits(group) for group in _groups(bandwidth, least)))
        if level and level not in found:
            found.append(level)
    return tuple(found)


def intact(levels: Iterable[Sequence[PositionSet]], idle: PositionSet) -> list[list[PositionSet]]:
    """The islands of which all cards are idle, level by level; `idle` is a set of positions."""
    return [[island for island in level if island & idle == island] for level in levels]


def broken(intact_islands: Iterable[Sequence[PositionSet]], taken: PositionSet) -> tuple[int, ...]:
    """How many intact islands lose some of their cards but not all, level by level."""
    return tuple(
        sum(island & taken not in (0, island) for island in level) for level in intact_islands
    )


def _groups(bandwidth: Matrix, least: int) -> Iterator[list[int]]:
    """Disjoint groups of two or more cards."""
    graph = nx.Graph()
    cards = range(len(bandwidth))
    graph.add_nodes_from(cards)
    graph.add_edges_from(
        pair for pair in combinations(cards, 2) if bandwidth[pair[0]][pair[1]] >= least
    )
    if len(cards) > MAX_FOR_CLIQUES:
        yield from (sorted(group) for group in nx.connected_components(graph) if len(group) > 1)
        return
    while graph.number_of_edges():
        cliques = (sorted(clique) for clique in nx.find_cliques(graph))
        best = min(cliques, key=lambda one: (-len(one), -_total(bandwidth, one), one))
        yield best
        graph.remove_nodes_from(best)


def _total(bandwidth: Matrix, cards: Iterable[int]) -> int:
    return sum(bandwidth[one][other] for one, other in combinations(cards, 2))


def _bits(cards: Iterable[int]) -> PositionSet:
    return PositionSet(sum(1 << card for card in cards))
