"""Places several claims one after the other, the largest first: for claims beyond exact searches.

A place that is found takes no more than there is. A row may be missed on which another order would
have found one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import IntArray
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

    def __init__(
        self, layout: ClaimLayout, amounts: Sequence[UnitAmounts], free: tuple[IntArray, IntArray]
    ) -> None:
        """`amounts` are those of the layout's kinds; `free` are milli and bytes, (k, width)."""
        self._layout = layout
        self._free_milli, self._free_bytes = (column.copy() for column in free)
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
        """Place the units of a kind; their slots, (units, k).

        Units that take a card each get the best ones at once, others one after the other.
        """
        if kind.most == 1:
            return self._on_best(asked, kind.units, self._is_alone(kind)).T
        return np.array([self._on_best(asked, 1, alone=False)[:, 0] for _ in range(kind.units)])

    def _is_alone(self, kind: Kind) -> bool:
        exclusive = self._layout.distinct[kind.asks[0]].exclusive
        return exclusive or self._layout.relation is CardRelation.DIFFERENT_CARDS

    def _on_best(self, asked: UnitAmounts, count: int, alone: bool) -> IntArray:
        """Take a unit each of the `count` best cards that have room; their slots, (k, count)."""
        may = asked.fits & ~self._closed
        if alone:
            may &= self._used == 0
        else:
            room = (self._free_milli >= asked.milli) & (self._free_bytes >= asked.memory)
            may &= (self._used == 0) | room
        if count > may.shape[1]:
            self.found[:] = False
            return np.zeros((len(may), count), np.int64)
        ranked = np.where(may, asked.worth, -1)
        slots: IntArray
        if count == 1:
            slots = ranked.argmax(1)[:, None]
        else:
            slots = np.argsort(-ranked, axis=1, kind="stable")[:, :count]
        at = self._lines[:, None], slots
        self.found &= may[at].all(1)
        self._free_milli[at] -= asked.milli[at]
        self._free_bytes[at] -= asked.memory[at]
        self._used[at] += 1
        self._closed[at] |= alone
        return slots
