"""Matches the leaves of KubeShare's cells on one node with the node's cards."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import NamedTuple

from kubeshare_py.domain.gpu import Gpu, PeerLink
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.topology.cells import Cell, Cells

#: A leaf's path: the number of the root, then of each child on the way.
CellPath = tuple[int, ...]

#: Below the cell with all cards of a node. If cards are directly in it, all are equally near.
_LEVELS_THAT_TELL = 2


@dataclass(frozen=True, slots=True)
class CardsInCells:
    """Cards with their cells, and notes about what the file lists and the node does not have."""

    cards: tuple[Gpu, ...]
    notes: tuple[str, ...]


class Leaf(NamedTuple):
    """A leaf, its path, and the field of the file that lists its node."""

    path: CellPath
    cell: Cell
    node_field: str


Leaves = Mapping[NodeName, Sequence[Leaf]]


def leaves_by_node(cells: Cells) -> Leaves:
    """The leaves of all roots, by node, in the file's order."""
    found: dict[NodeName, list[Leaf]] = {}
    for at, root in enumerate(cells.roots):
        for leaf in _leaves(root, (at,), ""):
            found.setdefault(leaf.cell.node, []).append(leaf)
    return found


def with_cells(leaves: Leaves, node: NodeName, cards: Sequence[Gpu]) -> CardsInCells:
    """The cards of one node with the id and priority of their cells.

    As in KubeShare, the first card by index is the last leaf of its model. If no card has a link to
    another, cells within the node say which cards are near each other. A card without a leaf gets
    no cell, and a leaf may have no card. A node may be listed several times, once for each of its
    sockets; if it has too few cards for that, the first place that lists it counts.
    """
    there = leaves.get(node, ())
    left = sorted(cards, key=lambda card: (card.index, card.uuid))
    taken: dict[GpuUuid, Leaf] = {}
    notes: list[str] = []
    listed: dict[str, str] = {}
    for root in dict.fromkeys(leaf.path[0] for leaf in there):
        wanted = [leaf for leaf in there if leaf.path[0] == root]
        model = wanted[0].cell.type
        matching = [card for card in left if card.model == model and card.uuid not in taken]
        first = listed.setdefault(model, wanted[0].node_field)
        filled = _filled(wanted, len(matching))
        taken.update(zip((card.uuid for card in matching), reversed(filled), strict=False))
        if len(matching) < len(wanted):
            notes += _too_few(wanted, filled, matching, first, cards)
    alone = [card for card in left if card.uuid not in taken]
    if there and alone:
        uuids = ", ".join(one.uuid for one in alone)
        notes.append(f"{_at(there[0].cell)}: {uuids} are in no cell")
    if any(card.links for card in cards):
        return CardsInCells(tuple(_placed(card, taken) for card in cards), tuple(notes))
    joined = _joined(cards, taken)
    return CardsInCells(tuple(_placed(card, taken) for card in joined), tuple(notes))


def _leaves(cell: Cell, path: CellPath, node_field: str) -> Iterator[Leaf]:
    node_field = node_field or (cell.field if cell.node else "")
    if not cell.children:
        yield Leaf(path, cell, node_field)
    for at, child in enumerate(cell.children):
        yield from _leaves(child, (*path, at), node_field)


def _filled(wanted: Sequence[Leaf], count: int) -> Sequence[Leaf]:
    """The leaves of the first places that list the node, as many as `count` cards begin to fill."""
    places = [leaf.node_field for leaf in wanted]
    starts = (at for at in range(1, len(places)) if places[at] != places[at - 1])
    return wanted[: next((at for at in starts if at >= count > 0), len(wanted))]


def _too_few(
    wanted: Sequence[Leaf],
    filled: Sequence[Leaf],
    matching: Sequence[Gpu],
    first: str,
    cards: Sequence[Gpu],
) -> Iterator[str]:
    """Why there are more leaves than cards: the node is listed twice, or has other cards."""
    again = dict.fromkeys(leaf.node_field for leaf in wanted[len(filled) :])
    if not matching and first != wanted[0].node_field:
        again = dict.fromkeys(leaf.node_field for leaf in wanted)
    leaf = wanted[0].cell
    for field in again:
        yield (
            f"{field}: node {leaf.node} is listed in {first} already, and has no further "
            f"{leaf.type}: the first place counts"
        )
    if len(matching) < len(filled) and wanted[0].node_field not in again:
        yield _missing(filled[::-1], len(matching), cards)


def _placed(card: Gpu, taken: Mapping[GpuUuid, Leaf]) -> Gpu:
    if card.uuid not in taken:
        return card
    cell = taken[card.uuid].cell
    return replace(card, cell_id=cell.id, cell_priority=cell.priority)


def _joined(cards: Sequence[Gpu], taken: Mapping[GpuUuid, Leaf]) -> Iterator[Gpu]:
    """The cards with links as their cells imply them."""
    widest = _shared([leaf.path for leaf in taken.values()]) if taken else 0
    for card in cards:
        links = (
            PeerLink(other.index, kind, 0)
            for other in cards
            if other.uuid != card.uuid and other.uuid in taken and card.uuid in taken
            for kind in [_nearness(taken[card.uuid].path, taken[other.uuid].path, widest)]
            if kind
        )
        yield replace(card, links=tuple(links))


def _nearness(one: CellPath, other: CellPath, widest: int) -> str:
    """How near two leaves are, as a link's word; "" where cells do not distinguish them.

    `widest` is the number of steps that all leaves of the node have in common.
    """
    apart, most = len(one) - _shared((one, other)), len(one) - widest
    if most < _LEVELS_THAT_TELL:
        return ""
    if apart == 1:
        return "PIX"
    return "SYS" if apart == most else "NODE"


def _shared(paths: Sequence[CellPath]) -> int:
    """How many first steps all paths have in common."""
    steps = zip(*paths, strict=False)
    return next((at for at, step in enumerate(steps) if len({*step}) > 1), min(map(len, paths)))


def _missing(leaves: Sequence[Leaf], found: int, cards: Sequence[Gpu]) -> str:
    leaf = leaves[0].cell
    says = f"{_at(leaf)}: node {leaf.node} has {found} of {len(leaves)} {leaf.type}"
    models = sorted({card.model for card in cards if card.model != leaf.type})
    if not models:
        return says
    near = get_close_matches(leaf.type, models, n=1, cutoff=0.7)
    return f"{says}; " + (f"is it {near[0]}?" if near else f"its cards are {' and '.join(models)}")


def _at(leaf: Cell) -> str:
    """The field of the cell that a leaf is in."""
    return leaf.field.rpartition(".cellChildren")[0]
