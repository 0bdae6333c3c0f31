"""Score and CardScore: the emptiest card of the emptiest node, for low latency."""

import numpy as np

from kubeshare_py.plugin import (
    CPU,
    MEMORY,
    WHOLE_MILLI,
    BestCards,
    ByHeadroom,
    CardRank,
    IntArray,
    Normaliser,
    Rows,
    RowScore,
    Shape,
)

_EMPTIEST = ByHeadroom(np.arange(WHOLE_MILLI + 1))


class Spread:
    """Shares: mostly by how empty the card is, then by how empty the node's GPUs are."""

    name = "Spread"
    normaliser: Normaliser | None = None

    def score(self, shape: Shape) -> RowScore | None:
        """The question depends on whether the pod claims no card, one or several."""
        if shape.policy is not None:
            return None
        if not shape.claims:
            return _machine_room
        return _share_room if shape.claim is not None and shape.claim.count == 1 else _gpu_room

    def card_score(self, shape: Shape) -> CardRank | None:
        """The emptier the better."""
        return None if shape.policy is not None else _EMPTIEST


def _gpu_room(rows: Rows, cards: BestCards | None) -> IntArray:
    """The free share of the node's GPUs in percent."""
    return 100 - rows.gpu_used_percent


def _share_room(rows: Rows, cards: BestCards | None) -> IntArray:
    assert cards is not None
    return cards.of(rows.headroom) * 8 // 100 + _gpu_room(rows, None) // 5


def _machine_room(rows: Rows, cards: BestCards | None) -> IntArray:
    """The mean of free cpu and memory in percent, as kube-scheduler's LeastAllocated; (k,)."""
    capacity = np.maximum(rows.allocatable[:, [CPU, MEMORY]], 1)
    free = np.minimum(np.maximum(rows.free[:, [CPU, MEMORY]], 0), capacity)
    room: IntArray = (free * 100 // capacity).sum(1) // 2
    return room
