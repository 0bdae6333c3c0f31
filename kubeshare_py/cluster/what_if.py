"""What if some pods were not where they are: private copies of rows, to put questions to.

Nothing of it enters the tables. A node may have several of these rows, each with other pods gone.
"""

from dataclasses import dataclass

import numpy as np

from kubeshare_py.cluster.columns import (
    ABSENT,
    CROWDED,
    EXCLUSIVE,
    HELD_BACK,
    UNHEALTHY,
    Columns,
    IntArray,
)
from kubeshare_py.cluster.rows import SomeRows
from kubeshare_py.domain.gpu import WHOLE_MILLI

#: The columns that change with charges.
_OWN = (
    "free",
    "free_milli",
    "free_bytes",
    "tenants",
    "exclusive",
    "flags",
    "room",
    "share_room",
    "idle",
    "idle_cards",
    "keep",
    "gpu_free_milli",
    "gpu_used_percent",
)


@dataclass(frozen=True, slots=True)
class Amounts:
    """What pods hold of a row, a line each: of the node (k, resources), of its cards (k, width)."""

    free: IntArray
    milli: IntArray
    memory: IntArray
    tenants: IntArray
    exclusive: IntArray
    native: IntArray

    @staticmethod
    def none(lines: int, resources: int, width: int) -> "Amounts":
        """Lines to be filled in."""
        milli, memory, tenants, exclusive = np.zeros((4, lines, width), np.int64)
        free, native = np.zeros((lines, resources), np.int64), np.zeros(lines, np.int64)
        return Amounts(free, milli, memory, tenants, exclusive, native)


class WhatIf(SomeRows):
    """Rows to take pods from and to put pods on. Positions count these rows, not the tables'.

    Whoever changes amounts calls `derive` before the next question. The order in which idle cards
    should be broken is not worked out anew.
    """

    __slots__ = ("_native",)

    def __init__(self, columns: Columns, index: IntArray, native: IntArray) -> None:
        """`native`: GPUs of each row that the kubelet gave away by itself."""
        super().__init__(columns, index)
        self._native = native
        for name in _OWN:
            self.column(name)

    def take(self, positions: IntArray) -> "WhatIf":
        """Copies of some of these rows, as they are here."""
        taken = WhatIf.__new__(WhatIf)
        SomeRows.__init__(taken, self._columns, self.index.take(positions))
        taken._native = self._native.take(positions)
        for name in _OWN:
            taken._taken[name] = self._taken[name].take(positions, 0)
        return taken

    def add(self, positions: IntArray, amounts: Amounts, lines: IntArray, sign: int = 1) -> None:
        """Put pods on rows (sign 1) or take them away (-1); each row once."""
        own = self._taken
        own["free"][positions] -= sign * amounts.free.take(lines, 0)
        own["free_milli"][positions] -= sign * amounts.milli.take(lines, 0)
        own["free_bytes"][positions] -= sign * amounts.memory.take(lines, 0)
        own["tenants"][positions] += sign * amounts.tenants.take(lines, 0)
        own["exclusive"][positions] += sign * amounts.exclusive.take(lines, 0)
        self._native[positions] += sign * amounts.native.take(lines)

    def derive(self, positions: IntArray) -> None:
        """Bring along what follows from the amounts of these rows, as the tables do."""
        own = self._taken
        tenants, most = own["tenants"][positions], self.column("max_tenants")[positions]
        flags = own["flags"][positions] & (ABSENT | UNHEALTHY)
        flags |= np.where(own["exclusive"][positions] > 0, EXCLUSIVE, 0)
        flags |= np.where((most > 0) & (tenants >= most), CROWDED, 0)
        native = self._native[positions]
        if native.any():
            flags |= _held_back((flags == 0) & (tenants == 0), flags, native)
        closed = flags != 0
        free_milli, free_bytes = own["free_milli"][positions], own["free_bytes"][positions]
        capacity = np.maximum(self.column("capacity_bytes")[positions], 1)
        widest = ((free_bytes + 1) * WHOLE_MILLI - 1) // capacity
        widest = np.where(free_bytes < 0, -1, np.minimum(widest, WHOLE_MILLI))
        idle = np.where(closed, 0, tenants == 0)
        own["flags"][positions] = flags
        own["room"][positions] = np.where(
            closed, -1, np.maximum(np.minimum(free_milli, widest), -1)
        )
        own["share_room"][positions] = np.where(closed, -1, free_milli)
        own["idle"][positions] = idle
        own["idle_cards"][positions] = (idle * self.column("bit")[positions]).sum(1)
        own["keep"][positions] *= idle
        there = np.where(flags & ABSENT, 0, free_milli).sum(1)
        own["gpu_free_milli"][positions] = there
        whole = self.column("gpu_count")[positions] * WHOLE_MILLI
        used = whole - np.maximum(there, 0)
        own["gpu_used_percent"][positions] = used * 100 // np.maximum(whole, 1)


def _held_back(idle: IntArray, flags: IntArray, native: IntArray) -> IntArray:
    """The last idle cards, as many as the kubelet gave away; with fewer idle ones all cards."""
    after = np.cumsum(idle[:, ::-1], axis=1)[:, ::-1]
    some = idle & (after <= native[:, None])
    short = (idle.sum(1) < native)[:, None] & (flags & ABSENT == 0)
    held: IntArray = np.where(some | short, HELD_BACK, 0)
    return held
