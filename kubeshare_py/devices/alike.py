"""Groups of positions that are equal in some columns, so that one of each has to be asked."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
_MAX = 1 << 62
#: So many times more different numbers than positions are sorted rather than counted.
_SPARSE = 4
#: Its powers are weights that hardly give two different rows one sum.
_ODD = 0x5851F42D4C957F2D


def alike(columns: Sequence[Numbers], count: int) -> tuple[Numbers, Numbers]:
    """Groups of `count` positions by columns of (count,) numbers from 0 on.

    Returned are the first position of each group, (groups,), and each position's group, (count,).
    Without columns, all positions are alike.
    """
    combined, size = np.zeros(count, np.int64), 1
    for column in columns:
        different = int(column.max(initial=0)) + 1
        if size * different > _MAX:
            firsts, combined = _grouped(combined, size)
            size = len(firsts)
        combined, size = combined * different + column, size * different
    return _grouped(combined, size)


def alike_rows(table: Numbers) -> tuple[Numbers, Numbers]:
    """Groups of rows that are equal, (k, width), as `alike` returns them."""
    # By a sum with odd weights first: sorting whole rows takes ten times as long.
    sums = (table * _weights(table.shape[1])).sum(axis=1)
    _, firsts, groups = np.unique(sums, return_index=True, return_inverse=True)
    if (table == table[firsts[groups]]).all():
        return firsts, groups
    _, firsts, groups = np.unique(table, axis=0, return_index=True, return_inverse=True)
    return firsts, groups.reshape(-1)


@lru_cache(64)
def _weights(width: int) -> Numbers:
    weights = np.array([pow(_ODD, at + 1, 1 << 63) for at in range(width)], np.int64)
    weights.setflags(write=False)
    return weights


def _grouped(combined: Numbers, size: int) -> tuple[Numbers, Numbers]:
    """Groups of equal numbers, which are from 0 to `size` - 1."""
    count = len(combined)
    if size > _SPARSE * count + 1:
        _, firsts, groups = np.unique(combined, return_index=True, return_inverse=True)
        return firsts, groups
    first = np.full(size, count)
    first[combined[::-1]] = np.arange(count - 1, -1, -1)  # of equal ones the last is kept
    there = np.flatnonzero(first < count)
    number = np.zeros(size, np.int64)
    number[there] = np.arange(len(there))
    return first[there], number[combined]
