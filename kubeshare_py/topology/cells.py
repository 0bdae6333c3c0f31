"""KubeShare's cells: which cards are where, as its topology file says it.

A leaf is a card; some cell above it is a node; what is above that, racks for example, has no node.
Ids are made as KubeShare 2.0 makes them, so that `sharedgpu/cell_id` means the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kubeshare_py.domain.identity import NodeName

_ANOTHER_NAME = 100
#: Longer ones are names: node names may be made of digits.
_MOST_DIGITS = 9


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


def cell_distance(one: str, other: str) -> int:
    """KubeShare's distance of two cells, by their ids: by where they are in the file, that is.

    Segment by segment from the right: the difference of two numbers, else 0 for equal ones and 100
    for others. What the longer id has left adds its numbers, and 100 for each name.
    """
    ones, others = one.split("/")[::-1], other.split("/")[::-1]
    shorter = min(len(ones), len(others))
    left = ones[shorter:] + others[shorter:]
    aligned = zip(ones[:shorter], others[:shorter], strict=True)
    return sum(_apart(*pair) for pair in aligned) + sum(_length(segment) for segment in left)


def _apart(one: str, other: str) -> int:
    if _is_number(one) and _is_number(other):
        return abs(int(one) - int(other))
    return 0 if one == other else _ANOTHER_NAME


def _length(segment: str) -> int:
    return int(segment) if _is_number(segment) else _ANOTHER_NAME


def _is_number(segment: str) -> bool:
    return segment.isascii() and segment.isdecimal() and len(segment) <= _MOST_DIGITS
