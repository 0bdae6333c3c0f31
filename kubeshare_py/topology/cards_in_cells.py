"""Which card is which leaf: KubeShare's cells of one node, and the cards that are there."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from kubeshare_py.domain.gpu import Gpu, PeerLink
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.topology.cells import Cell, Cells

#: Where a leaf is: the number of the root, then of each child on the way.
Path = tuple[int, ...]
Leaves = Mapping[NodeName, Sequence[tuple[Path, Cell]]]

#: Below the cell that has all cards of a node: with cards directly in it, all are equally near.
_LEVELS_THAT_TELL = 2


@dataclass(frozen=True, slots=True)
class CardsInCells:
    """Cards that know their cells, and what the file says that is not there."""

    cards: tuple[Gpu, ...]
    notes: tuple[str, ...]


def leaves_by_node(cells: Cells) -> Leaves:
    """The leaves of all roots, in the file's order."""
    found: dict[NodeName, list[tuple[Path, Cell]]] = {}
    for at, root in enumerate(cells.roots):
        for path, leaf in _leaves(root, (at,)):
            found.setdefault(leaf.node, []).append((path, leaf))
    return found


def with_cells(leaves: Leaves, node: NodeName, cards: Sequence[Gpu]) -> CardsInCells:
    """The cards of one node with the id and priority of their cells.

    As in KubeShare the first card, by index, is the last leaf of its model. If no card has a link
    to another, cells within the node tell which are near each other. Cards without a leaf, and
    leaves without a card, stay alone.
    """
    there = leaves.get(node, ())
    left = sorted(cards, key=lambda card: (card.index, card.uuid))
    taken: dict[GpuUuid, tuple[Path, Cell]] = {}
    notes: list[str] = []
    for root in dict.fromkeys(path[0] for path, _ in there):
        wanted = [(path, leaf) for path, leaf in reversed(there) if path[0] == root]
        model = wanted[0][1].type
        matching = [card for card in left if card.model == model and card.uuid not in taken]
        taken.update(zip((card.uuid for card in matching), wanted, strict=False))
        if len(matching) < len(wanted):
            notes.append(_missing(wanted, len(matching), cards))
    alone = [card for card in left if card.uuid not in taken]
    if there and alone:
        notes.append(f"{_at(there[0][1])}: {', '.join(one.uuid for one in alone)} are in no cell")
    told = any(card.links for card in cards)
    return CardsInCells(tuple(_placed(card, taken, cards, told) for card in cards), tuple(notes))


def _leaves(cell: Cell, path: Path) -> Iterator[tuple[Path, Cell]]:
    if not cell.children:
        yield path, cell
    for at, child in enumerate(cell.children):
        yield from _leaves(child, (*path, at))


def _placed(
    card: Gpu, taken: dict[GpuUuid, tuple[Path, Cell]], cards: Sequence[Gpu], told: bool
) -> Gpu:
    if card.uuid not in taken:
        return card
    path, leaf = taken[card.uuid]
    links = card.links
    if not told:
        paths = [path for path, _ in taken.values()]
        links = tuple(
            PeerLink(other.index, kind, 0)
            for other in cards
            if other.uuid != card.uuid and other.uuid in taken
            for kind in [_nearness(path, taken[other.uuid][0], paths)]
            if kind
        )
    return replace(card, links=links, cell_id=leaf.id, cell_priority=leaf.priority)


def _nearness(one: Path, other: Path, paths: Sequence[Path]) -> str:
    """How near two leaves are, in the words of links; "" where cells do not tell them apart."""
    widest = _shared(paths)
    apart, most = len(one) - _shared((one, other)), len(one) - widest
    if most < _LEVELS_THAT_TELL:
        return ""
    if apart == 1:
        return "PIX"
    return "SYS" if apart == most else "NODE"


def _shared(paths: Sequence[Path]) -> int:
    """How many steps all of them have in common."""
    steps = zip(*paths, strict=False)
    return next((at for at, step in enumerate(steps) if len({*step}) > 1), min(map(len, paths)))


def _missing(leaves: Sequence[tuple[Path, Cell]], found: int, cards: Sequence[Gpu]) -> str:
    leaf = leaves[0][1]
    says = f"{_at(leaf)}: node {leaf.node} has {found} of {len(leaves)} {leaf.type}"
    models = sorted({card.model for card in cards if card.model != leaf.type})
    if not models:
        return says
    near = get_close_matches(leaf.type, models, n=1, cutoff=0.7)
    return f"{says}; " + (f"is it {near[0]}?" if near else f"its cards are {' and '.join(models)}")


def _at(leaf: Cell) -> str:
    """Where the file lists the cell that a leaf is in."""
    return leaf.field.rpartition(".cellChildren")[0]
