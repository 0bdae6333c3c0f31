"""The reservations of waiting pods, and the columns that tell them from what pods hold."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.charge import Charge
from kubeshare_py.cluster.columns import ABSENT, Columns
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.identity import NodeName, PodUid


class ReservedPlaces:
    """Reservations by pod and by node; `changes` counts how often one was added or removed."""

    __slots__ = ("changes", "of", "on")

    def __init__(self) -> None:
        self.of: dict[PodUid, Charge] = {}
        self.on: dict[NodeName, dict[PodUid, Charge]] = {}
        self.changes = 0

    def put(self, uid: PodUid, charge: Charge) -> None:
        """Add the reservation of a pod that has none."""
        self.changes += 1
        self.of[uid] = charge
        self.on.setdefault(charge.node, {})[uid] = charge

    def pop(self, uid: PodUid) -> None:
        """Remove a reservation."""
        self.changes += 1
        node = self.of.pop(uid).node
        del self.on[node][uid]
        if not self.on[node]:
            del self.on[node]

    def allocations_on(self, node: NodeName) -> list[Allocation]:
        """The allocations of the reservations on a node."""
        there = self.on.get(node, {}).values()
        return [charge.allocation for charge in there if charge.allocation]


def count_reservation(
    columns: Columns, row: int, slots: Sequence[int], allocation: Allocation, sign: int
) -> None:
    """Add (sign 1) or remove (-1) a reservation in the columns of reservations only."""
    for slot, card in zip(slots, allocation.cards, strict=True):
        columns.reserved_milli[row, slot] += sign * card.milli
        columns.reserved_bytes[row, slot] += sign * card.memory_bytes
        columns.reservations[row, slot] += sign


def is_overdrawn(columns: Columns, row: int, slot: int) -> bool:
    """Whether pods, without reservations, hold more of a card than it has."""
    milli = columns.free_milli.item(row, slot) + columns.reserved_milli.item(row, slot)
    memory = columns.free_bytes.item(row, slot) + columns.reserved_bytes.item(row, slot)
    return milli < 0 or memory < 0


def is_intruded(columns: Columns, row: int, slot: int) -> bool:
    """Whether several pods hold a card that is exclusive to one of them, or to a reservation."""
    held = columns.tenants.item(row, slot) - columns.reservations.item(row, slot)
    return held > 1 and columns.exclusive.item(row, slot) > 0


def intruded(columns: Columns) -> NDArray[np.bool_]:
    """`is_intruded` for each card; (rows, width) bool."""
    held = columns.tenants - columns.reservations
    several: NDArray[np.bool_] = (held > 1) & (columns.flags & ABSENT == 0)
    return several & (columns.exclusive > 0)


def overdrawn(columns: Columns) -> NDArray[np.bool_]:
    """`is_overdrawn` for each card; (rows, width) bool."""
    milli = columns.free_milli + columns.reserved_milli
    memory = columns.free_bytes + columns.reserved_bytes
    over: NDArray[np.bool_] = ((milli < 0) | (memory < 0)) & (columns.flags & ABSENT == 0)
    return over
