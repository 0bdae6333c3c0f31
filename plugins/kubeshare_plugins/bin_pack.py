"""Score and CardScore: fill cards and nodes in use, so that whole cards and nodes stay free."""

import numpy as np

from kubeshare_py.plugin import (
    CPU,
    MEMORY,
    WHOLE_MILLI,
    ArgumentError,
    BestCards,
    ByHeadroom,
    CardRank,
    IntArray,
    Normaliser,
    Rows,
    RowScore,
    Shape,
)

_FULLEST = ByHeadroom(WHOLE_MILLI - np.arange(WHOLE_MILLI + 1))
#: Points of a row by the room (milli) of its best card; 0 for an idle card.
_SHARED = np.array([50 + (WHOLE_MILLI - room) // 20 for room in range(WHOLE_MILLI)] + [0])

#: The values of the argument `pods`.
ALL_PODS, WITH_GPUS = "All", "WithGpus"


class BinPack:
    """The fullest shared card that fits first, then the fullest node.

    For a share on a card in use: 50…100 points by how full that card is. For a share on an idle
    card: 0…50 by the used part of the node's GPUs. For whole cards: 0…100 by that part. For pods
    without GPUs: 0…100 by cpu and memory; with `pods: WithGpus` it has no say about them.
    """

    name = "BinPack"
    normaliser: Normaliser | None = None

    def __init__(self, pods: str = ALL_PODS) -> None:
        """Raises ArgumentError unless `pods` is All or WithGpus."""
        if pods not in (ALL_PODS, WITH_GPUS):
            raise ArgumentError(f"pods: must be {ALL_PODS} or {WITH_GPUS}, not {pods!r}")
        self._is_for_all = pods == ALL_PODS

    def score(self, shape: Shape) -> RowScore | None:
        """The question depends on whether the pod claims no card, one or several."""
        if shape.policy is not None:
            return None
        if not shape.claims:
            return _machine_fill if self._is_for_all else None
        return _share_fill if shape.claim is not None and shape.claim.count == 1 else _gpu_fill

    def card_score(self, shape: Shape) -> CardRank | None:
        """The fuller the better; idle cards last."""
        return None if shape.policy is not None else _FULLEST


def _gpu_fill(rows: Rows, cards: BestCards | None) -> IntArray:
    return rows.gpu_used_percent


def _share_fill(rows: Rows, cards: BestCards | None) -> IntArray:
    assert cards is not None
    shared = _SHARED.take(cards.of(rows.headroom), mode="clip")
    best: IntArray = np.maximum(shared, rows.gpu_used_percent >> 1)
    return best


def _machine_fill(rows: Rows, cards: BestCards | None) -> IntArray:
    """The mean of used cpu and memory in percent, as kube-scheduler's MostAllocated; (k,)."""
    offered = rows.allocatable[:, [CPU, MEMORY]]
    capacity = np.maximum(offered, 1)
    used = np.minimum(np.maximum(offered - rows.free[:, [CPU, MEMORY]], 0), capacity)
    filled: IntArray = (used * 100 // capacity).sum(1) // 2
    return filled
