"""KubeShare's cells: which cards are where, as its topology file says it.

A leaf is a card; some cell above it is a node; what is above that, racks for example, has no node.
Ids are made as KubeShare 2.0 makes them, so that `sharedgpu/cell_id` means the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kubeshare_py.domain.identity import NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell and those in it. `type` is one of the file's cell types, of a leaf the card's model.

    `id` is unique among leaves only: a node may be there several times, once for each of its
    sockets. `node` is "" above nodes. `priority` is that of the leaf, higher is better; 0 for other
    cells. `field` is where the file says it.
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
    """A topology file: its roots, and what is odd about it but can be used."""

    roots: tuple[Cell, ...] = ()
    notes: tuple[str, ...] = ()
