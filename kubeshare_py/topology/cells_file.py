"""Reads KubeShare's topology file (`kubeshare-config.yaml`); errors name the path of the field.

`cellTypes` define what a type of cell consists of, down to a card's model; `cells` list the cells.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from kubeshare_py.domain.bounds import CELL_PRIORITY
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.printable import MAX_SAID, beginning
from kubeshare_py.topology.cells import Cell, Cells

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
