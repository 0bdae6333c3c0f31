"""One row of the cluster while the claims of one pod take its cards, one after another.

The tables do not change: these are the few columns of the cards that differ then.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import HELD_BACK, IntArray
from kubeshare_py.cluster.derived import flags_of, room
from kubeshare_py.cluster.rows import Rows


class TakenCards:
    """What claims took of the cards of `base`, which is one row."""

    def __init__(self, base: Rows) -> None:
        self._base = base
        shape = base.flags.shape
        self._milli: IntArray = np.zeros(shape, np.int64)
        self._bytes: IntArray = np.zeros(shape, np.int64)
        #: How many claims have a part of each card, and how many all of it; (1, width).
        self._uses: IntArray = np.zeros(shape, np.int64)
        self._exclusive: IntArray = np.zeros(shape, np.int64)

    def take(
        self,
        slots: Sequence[int],
        milli: IntArray | int,
        memory: IntArray | int,
        *,
        exclusive: bool,
    ) -> None:
        """A claim takes these cards: `milli` and `memory` (bytes) of each, (1, width) or one
        number.
        """
        at = list(slots)
        for total, asked in ((self._milli, milli), (self._bytes, memory)):
            total[0, at] += np.broadcast_to(asked, total.shape)[0, at]
        self._uses[0, at] += 1
        self._exclusive[0, at] += int(exclusive)

    def rows(self) -> Rows:
        """The row as it is for the next claim; a claim counts as a pod of its own."""
        base = self._base
        if not self._uses.any():
            return base
        tenants, exclusive = base.tenants + self._uses, base.exclusive + self._exclusive
        # Cards stay held back: which ones, the tables know.
        flags = base.flags & HELD_BACK | flags_of(
            base.flags, tenants, base.max_tenants, exclusive, base.excluding
        )
        free_milli, free_bytes = base.free_milli - self._milli, base.free_bytes - self._bytes
        with_share = np.maximum(base.share_bytes, 1)
        headroom, share_headroom, idle = room(
            flags, tenants, free_milli, free_bytes, with_share, np.minimum
        )
        return _WithoutTaken(
            base,
            tenants=tenants,
            exclusive=exclusive,
            flags=flags,
            free_milli=free_milli,
            free_bytes=free_bytes,
            headroom=headroom,
            share_headroom=share_headroom,
            idle=idle,
            idle_cards=(idle * base.position_bit).sum(1),
            break_order=base.break_order * idle,
        )


class _WithoutTaken(Rows):
    """The row `base` with other values of some columns."""

    __slots__ = ()

    def __init__(self, base: Rows, **columns: NDArray[Any]) -> None:
        super().__init__(base._columns, None)
        self.__dict__["base"] = base
        for name, values in columns.items():
            values.setflags(write=False)
            self.__dict__[name] = values

    @property
    def index(self) -> IntArray:
        """The number of the row in the tables, (1,)."""
        base: Rows = self.__dict__["base"]
        return base.index

    def _pick(self, column: NDArray[Any]) -> NDArray[Any]:
        return column.take(self.index, 0)

    def _take(self, name: str) -> NDArray[Any]:
        values: NDArray[Any] = getattr(self.__dict__["base"], name)
        return values.view()
