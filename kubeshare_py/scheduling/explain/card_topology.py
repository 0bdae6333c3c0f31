"""How a node's cards are joined, for people: from the boards that decisions are based on.

Reads; decides nothing.
"""

from collections.abc import Iterable
from itertools import combinations

from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.topology.node_topology import in_order
from kubeshare_py.topology.rings import PositionSet, members
from kubeshare_py.views.view import IslandView, LinkView, RingView, TopologyView


def node_topology(ledger: Ledger, name: NodeName) -> TopologyView | None:
    """The links, NUMA nodes and islands of a node; None if its cards are unknown."""
    columns, row = ledger.columns, ledger.columns.row_of[name]
    sets = columns.boards.sets[columns.board.item(row)]
    cards = in_order(ledger.inventory.get(name, ()))
    if not cards or sets.board.count != len(cards):
        return None
    uuids = [card.uuid for card in cards]
    idle = columns.idle_cards.item(row)
    return TopologyView(
        cards=tuple(uuids),
        numa_nodes=tuple(card.numa_node for card in cards),
        links=tuple(_links(ledger, row, cards, range(len(cards)))),
        islands=tuple(
            IslandView(
                bandwidth=min(
                    sets.board.bandwidth[one][other] for one, other in combinations(inside, 2)
                ),
                cards=tuple(uuids[at] for at in inside),
                intact=island & idle == island,
            )
            for level in sets.islands
            for island in level
            for inside in [members(island)]
        ),
    )


def ring(ledger: Ledger, name: NodeName, uuids: Iterable[GpuUuid]) -> RingView | None:
    """How several cards of a node are joined; None if some of them are not known any more."""
    columns, row = ledger.columns, ledger.columns.row_of.get(name)
    chosen = {*uuids}
    if row is None or len(chosen) <= 1:
        return None
    cards = in_order(ledger.inventory.get(name, ()))
    sets = columns.boards.sets[columns.board.item(row)]
    places = [at for at, card in enumerate(cards) if card.uuid in chosen]
    if sets.board.count != len(cards) or len(places) != len(chosen):
        return None
    return RingView(
        slowest_hop=sets.slowest_hop(PositionSet(sum(1 << at for at in places))),
        links=tuple(_links(ledger, row, cards, places)),
    )


def _links(ledger: Ledger, row: int, cards: list[Gpu], places: Iterable[int]) -> Iterable[LinkView]:
    columns = ledger.columns
    bandwidth = columns.boards.sets[columns.board.item(row)].board.bandwidth
    for one, other in combinations(places, 2):
        kind = _kind(cards[one], cards[other]) or _kind(cards[other], cards[one])
        if kind or bandwidth[one][other]:
            yield LinkView(
                uuid=cards[one].uuid,
                peer=cards[other].uuid,
                kind=kind,
                bandwidth=bandwidth[one][other],
            )


def _kind(one: Gpu, other: Gpu) -> str:
    """The word of `nvidia-smi topo -m`; "" if unknown."""
    if one.parent is not None or other.parent is not None:
        return ""
    return next((link.kind for link in one.links if link.peer == other.index), "")
