"""The rows as they would be if no pod held anything: what a shape could ever fit on."""

import numpy as np

from kubeshare_py.cluster.columns import ABSENT, UNHEALTHY, Columns, IntArray
from kubeshare_py.cluster.rows import AllRows

#: Columns that are 0 on an empty node.
_NOTHING = (
    "tenants",
    "exclusive",
    "gpu_used_percent",
    "reserved_milli",
    "reserved_bytes",
    "reservations",
)
#: Columns that equal another column on an empty node.
_WHOLE = {"free": "allocatable", "free_milli": "capacity_milli", "free_bytes": "capacity_bytes"}


class EmptyRows(AllRows):
    """Every row, as if empty; the columns of how cards are joined stay as they are now."""

    __slots__ = ()

    def __init__(self, columns: Columns) -> None:
        super().__init__(columns)

    def column(self, name: str) -> IntArray:
        """A column of `Columns` by name, as it would be: (rows,) or (rows, width), int64."""
        flags: IntArray = super().column("flags") & (ABSENT | UNHEALTHY)
        if name in _WHOLE:
            name = _WHOLE[name]
        if name in _NOTHING:
            return np.zeros_like(super().column(name))
        if name == "flags":
            return flags
        if name == "idle":
            idle: IntArray = (flags == 0).astype(np.int64)
            return idle
        if name in ("headroom", "share_headroom"):
            room: IntArray = np.where(flags == 0, super().column("capacity_milli"), -1)
            return room
        return super().column(name)
