"""How far two nodes are from each other, as their labels and their cards' fabric say.

For two nodes and, flattened to columns, for one node and all others at once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.topology.places import LABELS

REGION, ZONE, RACK, CLIQUE = LABELS

IntArray = NDArray[np.int64]


class Distance(IntEnum):
    """The narrowest that two nodes have in common; less is nearer."""

    SAME_NODE = 0
    #: Their cards are joined by NVLink (NVL72 and the like).
    SAME_FABRIC = 1
    SAME_RACK = 2
    SAME_ZONE = 3
    SAME_REGION = 4
    ELSEWHERE = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a node is; "" is what nobody says, and in common with nobody.

    A fabric's name is its own all over the world; a rack's counts within its zone, a zone's
    within its region.
    """

    fabric: str = ""
    rack: str = ""
    zone: str = ""
    region: str = ""


def place_of(labels: Mapping[str, str], fabric: str = "") -> Place:
    """A node's place by its labels; `fabric` is what its collector says of the clique, if it does.

    The collector has it from the driver, now; the label is from when somebody labelled the node.
    """
    return Place(
        fabric=fabric or labels.get(CLIQUE, ""),
        rack=labels.get(RACK, ""),
        zone=labels.get(ZONE, ""),
        region=labels.get(REGION, ""),
    )


def distance(one: Place, other: Place) -> Distance:
    """Between two different nodes; a node is `SAME_NODE` with itself only."""
    if one.fabric and one.fabric == other.fabric:
        return Distance.SAME_FABRIC
    if one.region != other.region:
        return Distance.ELSEWHERE
    if one.zone == other.zone:
        if one.rack and one.rack == other.rack:
            return Distance.SAME_RACK
        if one.zone:
            return Distance.SAME_ZONE
    return Distance.SAME_REGION if one.region else Distance.ELSEWHERE


def place_columns(places: Iterable[Place]) -> IntArray:
    """A row for each node, with numbers for its fabric, rack, zone and region; -1 where unknown.

    Equal numbers in a column are one place: two racks of one name in two zones have two.
    """
    numbers: dict[tuple[str, ...], int] = {}

    def number(name: str, *within: str) -> int:
        return numbers.setdefault((name, *within), len(numbers)) if name else -1

    return np.array(
        [
            (
                number(at.fabric, "fabric"),
                number(at.rack, at.zone, at.region, "rack"),
                number(at.zone, at.region, "zone"),
                number(at.region, "region"),
            )
            for at in places
        ],
        np.int64,
    ).reshape(-1, 4)


def distances_from(columns: IntArray, row: int) -> IntArray:
    """From the node in one row to those of all rows: what `distance` says of each."""
    here = columns[row]
    found = np.full(len(columns), Distance.ELSEWHERE, np.int64)
    for level in range(columns.shape[1] - 1, -1, -1):
        if here[level] >= 0:
            found[columns[:, level] == here[level]] = Distance.SAME_FABRIC + level
    found[row] = Distance.SAME_NODE
    return found
