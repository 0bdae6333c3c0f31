"""Private copies of rows, to answer what would fit if some pods were elsewhere.

Nothing of it enters the tables. A node may have several of these rows, each without other pods.
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
    "headroom",
    "share_headroom",
    "idle",
    "idle_cards",
    "break_order",
    "gpu_free_milli",
    "gpu_used_percent",
)


@dataclass(frozen=True, slots=True)
class Amounts:
    """Amounts that pods hold of rows, one line each; int64.

    Node resources are (k, resources), card amounts (k, width), and GPUs that the kubelet picked
    (k,). `milli` are shares in milli, `memory` is in bytes, `tenants` and `exclusive` count pods.
    """

    free: IntArray
    milli: IntArray
    memory: IntArray
    tenants: IntArray
    exclusive: IntArray
    native: IntArray

    @staticmethod
    def none(lines: int, resources: int, width: int) -> "Amounts":
        """k lines of zeros: `free` (k, resources), card amounts (k, width), `native` (k,)."""
        milli, memory, tenants, exclusive = np.zeros((4, lines, width), np.int64)
        free, native = np.zeros((lines, resources), np.int64), np.zeros(lines, np.int64)
        return Amounts(free, milli, memory, tenants, exclusive, native)


class WhatIf(SomeRows):
    """Rows from which pods can be removed and to which pods can be added.

    `positions` count these rows, not those of the tables: (n,) int64. After amounts changed,
    `derive` must be called before the next question. The order in which idle cards should be broken
    is not updated.
    """

    __slots__ = ("_native",)

    def __init__(self, columns: Columns, index: IntArray, native: IntArray) -> None:
        """`index` are rows of the tables, (k,).

        `native` the GPUs per row that the kubelet picked, (k,).
        """
        super().__init__(columns, index)
        self._native = native
        for name in _OWN:
            self.column(name)

    def take(self, positions: IntArray) -> "WhatIf":
        """Copies of the rows at `positions`, as they are here."""
        taken = WhatIf.__new__(WhatIf)
        SomeRows.__init__(taken, self._columns, self.index.take(positions))
        taken._native = self._native.take(positions)
        for name in _OWN:
            taken._taken[name] = self._taken[name].take(positions, 0)
        return taken

    def add(self, positions: IntArray, amounts: Amounts, lines: IntArray, sign: int = 1) -> None:
        """Add pods to rows (sign 1) or remove them (-1); each row at most once.

        `lines`, (n,) int64, are the lines of `amounts` for the `positions`.
        """
        own = self._taken
        own["free"][positions] -= sign * amounts.free.take(lines, 0)
        own["free_milli"][positions] -= sign * amounts.milli.take(lines, 0)
        own["free_bytes"][positions] -= sign * amounts.memory.take(lines, 0)
        own["tenants"][positions] += sign * amounts.tenants.take(lines, 0)
        own["exclusive"][positions] += sign * amounts.exclusive.take(lines, 0)
        self._native[positions] += sign * amounts.native.take(lines)

    def derive(self, positions: IntArray) -> None:
        """Update the derived columns of these rows, as the tables do."""
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
        own["headroom"][positions] = np.where(
            closed, -1, np.maximum(np.minimum(free_milli, widest), -1)
        )
        own["share_headroom"][positions] = np.where(closed, -1, free_milli)
        own["idle"][positions] = idle
        own["idle_cards"][positions] = (idle * self.column("position_bit")[positions]).sum(1)
        own["break_order"][positions] *= idle
        there = np.where(flags & ABSENT, 0, free_milli).sum(1)
        own["gpu_free_milli"][positions] = there
        whole = self.column("gpu_count")[positions] * WHOLE_MILLI
        used = whole - np.maximum(there, 0)
        own["gpu_used_percent"][positions] = used * 100 // np.maximum(whole, 1)


def _held_back(idle: IntArray, flags: IntArray, native: IntArray) -> IntArray:
    """The cards held back, (k, width): the last idle ones, as many as the kubelet picked.

    If fewer are idle, all cards are.
    """
    after = np.cumsum(idle[:, ::-1], axis=1)[:, ::-1]
    some = idle & (after <= native[:, None])
    short = (idle.sum(1) < native)[:, None] & (flags & ABSENT == 0)
    held: IntArray = np.where(some | short, HELD_BACK, 0)
    return held
