"""Score and CardScore: fill what is in use already, so that whole cards and nodes stay free."""

import numpy as np

from kubeshare_py.cluster.columns import CPU, MEMORY, IntArray
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.points import CardRank, Cards, Depends, Normaliser, RowScore

#: Points of a card by the thousandths that are free on it: 0 for an idle one.
_BY_FREE = np.array([50 + (WHOLE_MILLI - free) // 20 for free in range(WHOLE_MILLI)] + [0])


class BinPack:
    """The fullest shared card that fits first, then the fullest node.

    A share on a card that others use already: 50…100 by how full that card is. Else: 0…50 by how
    much of the node's GPUs is in use (whole cards 0…100). Pods without GPUs: by cpu and memory.
    """

    name = "BinPack"
    depends = Depends.ROW
    normaliser: Normaliser | None = None

    def score(self, shape: Shape) -> RowScore | None:
        """Which question depends on what the pod claims."""
        if shape.claim is None:
            return _machine_fill
        return _gpu_fill if shape.claim.count > 1 else _share_fill

    def card_score(self, shape: Shape) -> CardRank | None:
        """The fuller the better; idle cards last."""
        return _card_fill


def _card_fill(rows: Rows) -> IntArray:
    return WHOLE_MILLI - rows.column("free_milli")


def _gpu_fill(rows: Rows, cards: Cards | None) -> IntArray:
    return rows.column("gpu_used_percent")


def _share_fill(rows: Rows, cards: Cards | None) -> IntArray:
    assert cards is not None
    shared = _BY_FREE.take(cards.of(rows.column("free_milli")), mode="clip")
    best: IntArray = np.maximum(shared, rows.column("gpu_used_percent") // 2)
    return best


def _machine_fill(rows: Rows, cards: Cards | None) -> IntArray:
    """Mean of used cpu and memory in percent, as kube-scheduler's MostAllocated."""
    offered = rows.column("allocatable")[:, [CPU, MEMORY]]
    capacity = np.maximum(offered, 1)
    used = np.clip(offered - rows.column("free")[:, [CPU, MEMORY]], 0, capacity)
    filled: IntArray = (used * 100 // capacity).sum(1) // 2
    return filled
