"""A node's cards as a graph: ways between them, and the groups that are joined well.

Imported where cards are joined at all: networkx, on which all of this rests, takes as much CPU as a
seventh of the scheduler's start.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

import networkx as nx

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.topology.node_topology import MAX_FOR_CLIQUES
from kubeshare_py.topology.wiring import (
    BUS_PERCENT,
    BUS_SPEED,
    MAX_NVLINKS,
    SAME_CARD,
    SAME_NUMA_NODE,
    nvlinks,
    speed,
)

# The cards of one node as a graph: NVLink, NVSwitch, PCIe switches and bridges, NUMA, node.
#
# Vertices are pairs: ("card", position), ("nvswitch", n), ("PIX", n) … ("SYS", n) for what joins
# cards over the bus, ("numa", number), ("parent", n) for a card that is divided, ("node", 0). Edges
# carry `bandwidth` in MB/s, both directions summed. Positions count the given cards.


Vertex = tuple[str, int]
#: Kind and bandwidth (MB/s) between two positions, the lower one first.
Pairs = dict[tuple[int, int], tuple[str, int]]

NODE: Vertex = ("node", 0)


def card_graph(cards: Sequence[Gpu]) -> nx.Graph:
    """The graph of these cards, which are all those of one node."""
    graph = nx.Graph()
    graph.add_node(NODE)
    graph.add_nodes_from(_card(position) for position in range(len(cards)))
    pairs = _pairs(cards)
    _add_nvlinks(graph, pairs)
    tops = _add_bus(graph, pairs, [at for at, card in enumerate(cards) if card.parent is None])
    for top, below in [*tops, *_divided(graph, cards)]:
        _add_above(graph, top, {cards[at].numa_node for at in below})
    return graph


def bandwidths(graph: nx.Graph, count: int) -> tuple[tuple[int, ...], ...]:
    """The best bandwidth of each pair of `count` cards, in MB/s, over ways without a third card.

    0 where nothing is known, and from a card to itself.
    """
    found = [[0] * count for _ in range(count)]
    ways = [_bus_ways(graph, position, count) for position in range(count)]
    for one, other in combinations(range(count), 2):
        direct = graph.get_edge_data(_card(one), _card(other), {"bandwidth": 0})["bandwidth"]
        best = max(direct, ways[one][other], _switched(graph, one, other))
        found[one][other] = found[other][one] = best
    return tuple(tuple(row) for row in found)


def _card(position: int) -> Vertex:
    return ("card", position)


def _pairs(cards: Sequence[Gpu]) -> Pairs:
    """The links that cards report of each other; where two differ, the slower one counts."""
    whole = {card.index: at for at, card in enumerate(cards) if card.parent is None}
    pairs: Pairs = {}
    for one, card in enumerate(cards):
        for link in card.links if card.parent is None else ():
            other = whole.get(link.peer, one)
            join = link.kind, speed(link)
            if other != one and join[1]:
                ends = (min(one, other), max(one, other))
                pairs[ends] = min(pairs.get(ends, join), join, key=lambda it: (it[1], it[0]))
    return pairs


def _add_nvlinks(graph: nx.Graph, pairs: Pairs) -> None:
    """Add links from card to card, and a switch where a card has too many to be its own."""
    own = {ends: join for ends, join in pairs.items() if nvlinks(join[0])}
    counts: dict[int, int] = {}
    for ends, (kind, _) in own.items():
        for end in ends:
            counts[end] = counts.get(end, 0) + nvlinks(kind)
    switched = nx.Graph()
    for ends, (_, most) in sorted(own.items()):
        if all(counts[end] > MAX_NVLINKS for end in ends):
            switched.add_edge(*ends, bandwidth=most)
        else:
            graph.add_edge(*map(_card, ends), bandwidth=most)
    for number, members in enumerate(_components(switched)):
        for member in sorted(members):
            most = max(edge["bandwidth"] for _, _, edge in switched.edges(member, data=True))
            graph.add_edge(_card(member), ("nvswitch", number), bandwidth=most)


def _add_bus(graph: nx.Graph, pairs: Pairs, whole: list[int]) -> list[tuple[Vertex, list[int]]]:
    """Add a vertex for each group of cards that a switch or bridge joins, from near to far.

    Returns the uppermost vertices and the cards below each.
    """
    bus = {ends: join for ends, join in pairs.items() if not nvlinks(join[0])}
    groups: list[tuple[Vertex, list[int]]] = [(_card(at), [at]) for at in whole]
    near = nx.Graph()
    near.add_nodes_from(whole)
    for kind, percent in BUS_PERCENT.items():
        of_kind = {ends: most for ends, (word, most) in bus.items() if word == kind}
        near.add_edges_from(of_kind)
        joined = []
        for number, members in enumerate(_components(near)):
            below = [group for group in groups if group[1][0] in members]
            vertex = below[0][0]
            if len(below) > 1:
                vertex = (kind, number)
                for child, inside in below:
                    # Less than the driver says the farther the cards are: see BUS_PERCENT.
                    speed = _fastest_way_out(of_kind, inside) * percent // 100
                    graph.add_edge(child, vertex, bandwidth=speed)
            joined.append((vertex, sorted(members)))
        groups = joined
    return groups


def _fastest_way_out(links: dict[tuple[int, int], int], inside: Iterable[int]) -> int:
    """The fastest way (MB/s) out of these cards, by links of one kind."""
    within = set(inside)
    ways = [most for ends, most in links.items() if len(within.intersection(ends)) == 1]
    return max(ways, default=BUS_SPEED)


def _divided(graph: nx.Graph, cards: Sequence[Gpu]) -> Iterator[tuple[Vertex, list[int]]]:
    """Add a vertex for each divided card; yields it with its instances."""
    parents = sorted({card.parent for card in cards if card.parent is not None})
    for number, parent in enumerate(parents):
        below = [at for at, card in enumerate(cards) if card.parent == parent]
        for at in below:
            graph.add_edge(_card(at), ("parent", number), bandwidth=SAME_CARD)
        yield ("parent", number), below


def _add_above(graph: nx.Graph, top: Vertex, numa_nodes: set[int | None]) -> None:
    """Join an uppermost vertex by NUMA node only, because nothing else is known above it."""
    (numa,) = numa_nodes if len(numa_nodes) == 1 else (None,)
    if numa is not None:
        graph.add_edge(top, ("numa", numa), bandwidth=SAME_NUMA_NODE)
        top = ("numa", numa)
    graph.add_edge(top, NODE, bandwidth=0)


def _bus_ways(graph: nx.Graph, position: int, count: int) -> list[int]:
    """The bandwidth to every card over the bus, which is a tree: there is only one way."""
    found = [0] * count
    above = nx.subgraph_view(graph, filter_edge=_is_bus)
    for vertex, way in nx.single_source_shortest_path(above, _card(position)).items():
        if vertex[0] == "card" and vertex[1] != position:
            found[vertex[1]] = min(
                above.edges[edge]["bandwidth"] for edge in nx.utils.pairwise(way)
            )
    return found


def _is_bus(one: Vertex, other: Vertex) -> bool:
    kinds = {one[0], other[0]}
    return kinds != {"card"} and "nvswitch" not in kinds


def _switched(graph: nx.Graph, one: int, other: int) -> int:
    """The bandwidth over a common switch, that of the slower of both links; 0 without one."""
    shared = [
        vertex
        for vertex in nx.common_neighbors(graph, _card(one), _card(other))
        if vertex[0] == "nvswitch"
    ]
    ends = [
        graph.edges[_card(end), vertex]["bandwidth"] for vertex in shared for end in (one, other)
    ]
    return min(ends, default=0)


def _components(graph: nx.Graph) -> list[set[int]]:
    return sorted(nx.connected_components(graph), key=min)


# Which cards of a board reach each other with at least some bandwidth.


def joined_groups(bandwidth: Sequence[Sequence[int]], least: int) -> Iterator[list[int]]:
    """Disjoint groups of two or more positions, the largest first.

    `bandwidth` and `least` are in MB/s. Each pair of a group has at least `least`; on large boards
    a way of such pairs suffices.
    """
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


def _total(bandwidth: Sequence[Sequence[int]], cards: Iterable[int]) -> int:
    return sum(bandwidth[one][other] for one, other in combinations(cards, 2))
