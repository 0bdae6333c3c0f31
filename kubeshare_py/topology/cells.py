"""KubeShare's cells: the topology file that describes them, and the cards of nodes in them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Annotated, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from kubeshare_py.domain.gpu import Gpu, PeerLink
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.printable import MAX_SAID, beginning
from kubeshare_py.domain.quantity import CELL_PRIORITY

# KubeShare's cells: where cards are, as a topology file describes it.
#
# A leaf is a card; some cell above it is a node; cells above that, such as racks, have no node. Ids
# are built as in KubeShare 2.0, so that `sharedgpu/cell_id` means the same.


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell and those in it. `type` is one of the file's cell types, or a leaf's card model.

    `id` is unique among leaves only, because a node may be listed once for each of its sockets.
    `node` is "" above nodes. `priority` is that of a leaf, higher is better, and 0 for other cells.
    `field` is the cell's path in the file.
    """

    id: str
    type: str
    node: NodeName
    priority: int = 0
    field: str
    children: tuple["Cell", ...] = ()

    def leaves(self) -> Iterator["Cell"]:
        """Its cards, in the file's order."""
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves()


@dataclass(frozen=True, slots=True)
class Cells:
    """A topology file: its roots, and notes about oddities that do not prevent its use."""

    roots: tuple[Cell, ...] = ()
    notes: tuple[str, ...] = ()


# Reads KubeShare's topology file (`kubeshare-config.yaml`); errors name the path of the field.
#
# `cellTypes` define what a type of cell consists of, down to a card's model; `cells` list the
# cells.


#: The range that KubeShare documents and does not enforce.
PRIORITIES = range(101)
#: Far more than any cluster has; a file that multiplies to more is a mistake.
MAX_CELLS = 1_000_000
#: The deepest nesting of cells; a rack of nodes of sockets of cards has four levels.
MAX_LEVELS = 32

_Read = TypeVar("_Read")


class CellsError(ValueError):
    """A topology file cannot be used; the text begins with the path of the field."""

    def __init__(self, text: str) -> None:
        """A long text, which repeats what the file says, is cut."""
        super().__init__(beginning(text, 2 * MAX_SAID))


class _CellsStruct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Refuses unknown fields, so that a typo is an error."""


class CellType(_CellsStruct, frozen=True):
    """The children of cells of a type. The last type's children are cards of a model."""

    child_cell_type: Annotated[str, Meta(min_length=1)]
    child_cell_number: Annotated[int, Meta(ge=1, le=100_000)]
    child_cell_priority: Annotated[int, Meta(ge=CELL_PRIORITY.least, le=CELL_PRIORITY.most)] = 0
    is_node_level: bool = False


class _ListedCell(_CellsStruct, frozen=True):
    cell_type: str = ""
    cell_id: str = ""
    cell_children: tuple["_ListedCell", ...] = ()


class _CellsDocument(_CellsStruct, frozen=True):
    cell_types: dict[str, object] = {}
    cells: tuple[_ListedCell, ...] = ()


def read_cells(document: object) -> Cells:
    """The cells of a decoded YAML document; None stands for an empty one.

    Model names may have spaces, as `nvidia-smi -L` prints them, or dashes, as the collector does.
    Raises CellsError.
    """
    read = _converted(document if document is not None else {}, _CellsDocument, "")
    types = {
        name: _converted(value, CellType, f"cellTypes.{name}")
        for name, value in read.cell_types.items()
    }
    _check_types(types)
    reader = _CellsReader(types)
    roots = tuple(reader.root(number, listed) for number, listed in enumerate(read.cells))
    return Cells(roots, tuple(_odd_priorities(types)) + tuple(reader.notes))


def _converted(value: object, kind: type[_Read], path: str) -> _Read:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        rule, _, inner = str(error).partition(" - at `$")
        where = (path + inner.rstrip("`")).lstrip(".")
        raise CellsError(f"{where or 'cells file'}: {rule}") from error


@dataclass(slots=True)
class _UnfinishedCell:
    """A cell whose children are not complete yet."""

    id: str
    type: str
    node: str
    where: str
    priority: int
    listed: tuple[_ListedCell, ...] = ()
    children: list["_UnfinishedCell"] = field(default_factory=list)

    def cell(self) -> Cell:
        return Cell(
            id=self.id,
            type=self.type,
            node=NodeName(self.node),
            priority=self.priority,
            field=self.where,
            children=tuple(child.cell() for child in self.children),
        )


class _CellsReader:
    """Builds roots level by level: ids count across a level of a root, not within a parent."""

    def __init__(self, types: Mapping[str, CellType]) -> None:
        self._types = types
        self._made = 0
        self.notes: list[str] = []

    def root(self, number: int, listed: _ListedCell) -> Cell:
        where = f"cells[{number}]"
        if listed.cell_type not in self._types:
            known = ", ".join(sorted(self._types)) or "none"
            raise CellsError(f"{where}.cellType: no type {listed.cell_type!r}; there are {known}")
        if not any(
            self._types[name].is_node_level for name in _below(self._types, listed.cell_type)
        ):
            raise CellsError(
                f"{where}.cellType: neither {listed.cell_type} nor a type in it has isNodeLevel"
            )
        draft = self._draft(listed.cell_type, listed, f"{number + 1}", "", where)
        level = [draft]
        while level:
            below: list[_UnfinishedCell] = []
            for parent in level:
                below += self._children(parent, len(below))
            level = below
        return draft.cell()

    def _children(self, parent: _UnfinishedCell, before: int) -> list[_UnfinishedCell]:
        """The cells in a parent; `before` is the number of cells before it on the same level."""
        kind = self._types.get(parent.type)
        if kind is None:
            if parent.listed:
                raise CellsError(f"{parent.where}.cellChildren: a card has no children")
            return []
        listed = parent.listed or (_ListedCell(),) * kind.child_cell_number
        if len(listed) != kind.child_cell_number:
            self.notes.append(
                f"{parent.where}.cellChildren: {len(listed)} are listed, "
                f"cellTypes.{parent.type} has {kind.child_cell_number}"
            )
        self._made += len(listed)
        if self._made > MAX_CELLS:
            raise CellsError(f"{parent.where}: more than {MAX_CELLS} cells")
        for at, child in enumerate(listed):
            where = f"{parent.where}.cellChildren[{at}]"
            if child.cell_type not in ("", kind.child_cell_type):
                raise CellsError(
                    f"{where}.cellType: cells in a {parent.type} are of type {kind.child_cell_type}"
                )
            name = f"{before + at + 1}"
            draft = self._draft(kind.child_cell_type, child, name, parent.id, where, parent.node)
            draft.priority = 0 if draft.type in self._types else kind.child_cell_priority
            parent.children.append(draft)
        return parent.children

    def _draft(
        self, kind: str, listed: _ListedCell, number: str, above: str, where: str, node: str = ""
    ) -> _UnfinishedCell:
        known = self._types.get(kind)
        name = listed.cell_id or number
        if known is not None and known.is_node_level:
            if not listed.cell_id:
                raise CellsError(f"{where}.cellId: must be the name of a node")
            node = name.rpartition("/")[2]
        return _UnfinishedCell(
            id=f"{above}/{name}" if above else name,
            type=kind if known is not None else kind.replace(" ", "-"),
            node=node,
            where=where,
            priority=0,
            listed=listed.cell_children,
        )


def _check_types(types: Mapping[str, CellType]) -> None:
    for name in types:
        below = [*_below(types, name)]
        nodes = [one for one in below if types[one].is_node_level]
        if len(nodes) > 1:
            raise CellsError(
                f"cellTypes.{nodes[0]}.isNodeLevel: {nodes[1]} in it is a node already"
            )


def _below(types: Mapping[str, CellType], name: str) -> Iterator[str]:
    """A type and the types in it, down to the last one before the model."""
    seen: set[str] = set()
    while name in types:
        if name in seen:
            raise CellsError(f"cellTypes.{name}.childCellType: {name} is in itself")
        seen.add(name)
        if len(seen) > MAX_LEVELS:
            raise CellsError(f"cellTypes.{name}: more than {MAX_LEVELS} levels")
        yield name
        name = types[name].child_cell_type


def _odd_priorities(types: Mapping[str, CellType]) -> Iterator[str]:
    for name, kind in types.items():
        if kind.child_cell_priority not in PRIORITIES:
            priority = kind.child_cell_priority
            yield f"cellTypes.{name}.childCellPriority: {priority} is outside 0…100, used as it is"


# Matches the leaves of KubeShare's cells on one node with the node's cards.


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
    for node_field in again:
        yield (
            f"{node_field}: node {leaf.node} is listed in {first} already, and has no further "
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
