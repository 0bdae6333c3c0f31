"""The reservations of waiting pods, and the columns that tell them from what pods hold."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.charge import Charge
from kubeshare_py.cluster.columns import ABSENT, Columns
from kubeshare_py.cluster.derived import derive_card, derive_node
from kubeshare_py.cluster.joined import derive_order
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.identity import NodeName, PodUid


class ReservedPlaces:
    """Reservations by pod and by node. Those in `lifted` do not count at the moment."""

    __slots__ = ("lifted", "of", "on")

    def __init__(self) -> None:
        self.of: dict[PodUid, Charge] = {}
        self.on: dict[NodeName, dict[PodUid, Charge]] = {}
        self.lifted: set[PodUid] = set()

    def put(self, uid: PodUid, charge: Charge) -> None:
        """Add the reservation of a pod that has none."""
        self.of[uid] = charge
        self.on.setdefault(charge.node, {})[uid] = charge

    def pop(self, uid: PodUid) -> bool:
        """Remove a reservation; whether it was lifted."""
        node = self.of.pop(uid).node
        del self.on[node][uid]
        if not self.on[node]:
            del self.on[node]
        lifted = uid in self.lifted
        self.lifted.discard(uid)
        return lifted

    def laid_on(self, node: NodeName) -> list[Allocation]:
        """The allocations of the reservations on a node that count."""
        there = self.on.get(node, {})
        return [
            charge.allocation
            for uid, charge in there.items()
            if charge.allocation and uid not in self.lifted
        ]


def count_reservation(
    columns: Columns, row: int, slots: Sequence[int], allocation: Allocation, sign: int
) -> None:
    """Add (sign 1) or remove (-1) a reservation in the columns of reservations only."""
    for slot, card in zip(slots, allocation.cards, strict=True):
        columns.reserved_milli[row, slot] += sign * card.milli
        columns.reserved_bytes[row, slot] += sign * card.memory_bytes
        columns.reservations[row, slot] += sign


def count_together(
    columns: Columns, row: int, allocations: Sequence[Allocation], sign: int
) -> bool:
    """Add (sign 1) or remove (-1) reservations of one row in all columns of its cards.

    False, and nothing is written, if one of the cards has no slot.
    """
    slot_of = {uuid: slot for slot, uuid in enumerate(columns.uuids[row])}
    width = len(slot_of)
    sums = [[0] * width for _ in range(4)]
    milli, memory, tenants, exclusive = sums
    for allocation in allocations:
        for card in allocation.cards:
            slot = slot_of.get(card.uuid, width)
            if slot == width:
                return False
            milli[slot] += card.milli
            memory[slot] += card.memory_bytes
            tenants[slot] += 1
            exclusive[slot] += allocation.exclusive
    amounts = sign * np.array(sums, np.int64)
    columns.reserved_milli[row, :width] += amounts[0]
    columns.reserved_bytes[row, :width] += amounts[1]
    columns.reservations[row, :width] += amounts[2]
    columns.free_milli[row, :width] -= amounts[0]
    columns.free_bytes[row, :width] -= amounts[1]
    columns.tenants[row, :width] += amounts[2]
    columns.exclusive[row, :width] += amounts[3]
    was_idle = columns.idle[row].tolist()
    for slot in [slot for slot in range(width) if tenants[slot]]:
        derive_card(columns, row, slot)
    there = columns.flags[row, :width] & ABSENT == 0
    columns.gpu_free_milli[row] -= int(amounts[0][there].sum())
    if was_idle != columns.idle[row].tolist():
        derive_order(columns, row)
    derive_node(columns, row)
    return True


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
