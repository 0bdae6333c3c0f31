"""Score and CardScore: cards near an RDMA device, for pods that ask for one."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.framework.card_groups import WORTHLESS, Fitting, fitting_cards, nth_best
from kubeshare_py.plugin import (
    MAX_SCORE,
    WHOLE_MILLI,
    BestCards,
    CardPreselection,
    CardRank,
    GpuClaim,
    IntArray,
    Normaliser,
    Rows,
    RowScore,
    Shape,
)

#: Points of one step nearer; `Rows.rdma` has at most five.
_STEP = MAX_SCORE // 5


class RdmaProximity:
    """100 points for cards at the PCIe switch of an RDMA device, and 20 fewer for each step away.

    Several cards have the points of the farthest of them. Only for pods with one of `resources`,
    such as `rdma/hca`: cards of other pods are chosen by other policies.
    """

    name = "RdmaProximity"
    normaliser: Normaliser | None = None

    def __init__(self, resources: Sequence[str] = ("rdma/hca",)) -> None:
        self._resources = frozenset(resources)

    def score(self, shape: Shape) -> RowScore | None:
        """Only for pods with cards and an RDMA device."""
        if not self._asks(shape):
            return None
        if shape.claim is not None and shape.claim.count == 1:
            return _best_card
        return partial(_farthest, [(fitting_cards(one), one.count) for one in shape.claims])

    def card_score(self, shape: Shape) -> CardRank | CardPreselection | None:
        """Weighs more than policies that fill cards."""
        claim = shape.claim
        if claim is None or not self._asks(shape):
            return None
        if claim.count > 1:
            return CardPreselection(partial(_nearest_cards, claim))
        return lambda rows: rows.rdma * WHOLE_MILLI

    def _asks(self, shape: Shape) -> bool:
        return bool(shape.claims) and any(
            amount and name in self._resources for name, amount in shape.resources
        )


def _best_card(rows: Rows, cards: BestCards | None) -> IntArray:
    assert cards is not None
    return cards.of(rows.rdma) * _STEP


def _farthest(
    claims: Sequence[tuple[Fitting, int]], rows: Rows, cards: BestCards | None
) -> IntArray:
    """The points of the farthest of each claim's nearest cards, and of the worst claim."""
    found = [
        nth_best(np.where(fitting_of(rows), rows.rdma, WORTHLESS), count).ravel()
        for fitting_of, count in claims
    ]
    points: IntArray = np.maximum(np.minimum.reduce(found), 0) * _STEP
    return points


def _nearest_cards(claim: GpuClaim, rows: Rows, fits: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The cards that are at least as near as the farthest of the nearest `count`."""
    near = np.where(fits, rows.rdma[0], WORTHLESS)
    least = nth_best(near[np.newaxis], claim.count).item()
    return fits & (near >= least)
