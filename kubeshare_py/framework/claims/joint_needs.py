"""What several claims of a pod need of one node together, and what its cards have in all.

Only necessary conditions: a row that meets them all may still be too small. Arrays have the shape
(k,) for k rows, or (k, width) for their cards.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.request import CardRelation, GpuClaim
from kubeshare_py.framework.claims.claim_fit import asked_bytes, asked_milli

_MOST = np.iinfo(np.int64).max


class JointAmount(Enum):
    """What is compared: numbers of cards, shares in milli, or bytes."""

    CARDS = "cards"
    SHARE = "share"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class JointNeed:
    """How much the claims need at least on each row, and how much there is; (k,) both."""

    amount: JointAmount
    needed: IntArray
    there: IntArray


def joint_needs(
    shape: Shape, rows: Rows, fitting: Sequence[NDArray[np.bool_]], *, free: bool
) -> Iterator[JointNeed]:
    """The needs of a shape of several claims, of what is `free`, or of whole cards.

    `fitting` are, for each claim, the cards that it alone may be put on, (k, width) each.
    """
    share = rows.free_milli if free else rows.capacity_milli
    memory = rows.free_bytes if free else rows.capacity_bytes
    if shape.relation is CardRelation.SAME_CARD:
        takes_all = np.logical_and.reduce(fitting)
        takes_all &= sum(_milli(claim, rows) for claim in shape.claims) <= share
        takes_all &= sum(_bytes(claim, rows) for claim in shape.claims) <= memory
        there: IntArray = takes_all.sum(1)
        yield JointNeed(JointAmount.CARDS, np.full(len(there), shape.claims[0].count), there)
        return
    every = np.logical_or.reduce(fitting)
    cards: IntArray = every.sum(1)
    apart = shape.relation is CardRelation.DIFFERENT_CARDS
    own = [claim.count for claim in shape.claims if claim.exclusive or apart]
    shared = [claim.count for claim in shape.claims if not claim.exclusive and not apart]
    needed = np.full(len(cards), sum(own) + max(shared, default=0))
    yield JointNeed(JointAmount.CARDS, needed, cards)
    for amount, column, part_of in (
        (JointAmount.SHARE, share, _milli),
        (JointAmount.MEMORY, memory, _bytes),
    ):
        least = np.zeros(len(cards), np.int64)
        for claim, fits in zip(shape.claims, fitting, strict=True):
            of_each = np.where(fits, part_of(claim, rows), _MOST).min(1)
            # A claim of more cards than there are is another reason.
            count = min(claim.count, fits.shape[1])
            least += count * np.where(fits.any(1), of_each, 0)
        yield JointNeed(amount, least, np.where(every, column, 0).sum(1))


def _milli(claim: GpuClaim, rows: Rows) -> IntArray | int:
    """What one part of the claim takes of each card's share."""
    return rows.capacity_milli if claim.exclusive else asked_milli(claim)(rows)


def _bytes(claim: GpuClaim, rows: Rows) -> IntArray | int:
    """What one part of the claim takes of each card's memory."""
    if claim.exclusive:
        return rows.capacity_bytes
    return asked_bytes(claim, asked_milli(claim)(rows), rows)
