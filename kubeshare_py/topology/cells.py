"""KubeShare's cells: where cards are, as a topology file describes it.

A leaf is a card; some cell above it is a node; cells above that, such as racks, have no node. Ids
are built as in KubeShare 2.0, so that `sharedgpu/cell_id` means the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kubeshare_py.domain.identity import NodeName


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
