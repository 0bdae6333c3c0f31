"""Places several claims one after the other, the largest first: for claims beyond exact searches.

A place that is found takes no more than there is. A row may be missed on which another order would
have found one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.domain.request import CardRelation
from kubeshare_py.framework.claims.joint_layout import ClaimLayout, Kind


@dataclass(slots=True)
class UnitAmounts:
    """What one unit asks of each card, all (k, width): which fit, milli, bytes, and its rank."""

    fits: NDArray[np.bool_]
    milli: IntArray
    memory: IntArray
    worth: IntArray


class GreedyPlacement:
    """One attempt on k rows: `found` says which rows have a place, (k,) bool.

    `units` are the slots of each kind's units, (units, k) int64 for each kind; arbitrary on rows
    without a place.
    """

    def __init__(self, layout: ClaimLayout, amounts: Sequence[UnitAmounts], rows: Rows) -> None:
        """`amounts` are those of the layout's kinds."""
        self._layout = layout
        self._free_milli = rows.free_milli.copy()
        self._free_bytes = rows.free_bytes.copy()
        self._used = np.zeros_like(self._free_milli)
        self._closed = np.zeros(self._used.shape, np.bool_)
        self._lines = np.arange(len(self._used))
        self.found: NDArray[np.bool_] = np.ones(len(self._used), np.bool_)
        self.units: list[IntArray] = [np.zeros(0, np.int64) for _ in layout.kinds]
        for number in sorted(range(len(layout.kinds)), key=self._order):
            self.units[number] = self._placed(layout.kinds[number], amounts[number])

    def _order(self, number: int) -> tuple[bool, int, int, int]:
        """Exclusive claims first, then by what one unit asks, then by the number of units."""
        kind = self._layout.kinds[number]
        claim = self._layout.distinct[kind.asks[0]]
        return not claim.exclusive, -claim.milli, -(claim.memory_bytes or 0), -kind.units

    def _placed(self, kind: Kind, asked: UnitAmounts) -> IntArray:
        """Place the units of a kind one by one; their slots, (units, k)."""
        exclusive = self._layout.distinct[kind.asks[0]].exclusive
        alone = exclusive or self._layout.relation is CardRelation.DIFFERENT_CARDS
        own, slots = np.zeros_like(self._used), []
        for _ in range(kind.units):
            may = asked.fits & ~self._closed & (own < kind.most)
            if alone:
                may &= self._used == 0
            else:
                room = (self._free_milli >= asked.milli) & (self._free_bytes >= asked.memory)
                may &= (self._used == 0) | room
            slot = np.where(may, asked.worth, -1).argmax(1)
            self.found &= may[self._lines, slot]
            at = self._lines, slot
            self._free_milli[at] -= asked.milli[at]
            self._free_bytes[at] -= asked.memory[at]
            self._used[at] += 1
            self._closed[at] |= alone
            own[at] += 1
            slots.append(slot)
        return np.array(slots)
