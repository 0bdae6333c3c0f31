"""Score and CardScore: KubeShare 2.0's formula for pods of priority 0 and below.

KubeShare sums over a node's healthy cards of the wanted model. Here in integers: with n cards, p
the priority of each one's cell (0 without a cells file), u the thousandths used of it, F idle ones,

    (sum of p + sum of u / 10 - 100 F / n) / n

truncated toward zero. Of the node's cards the one with most of p + u / 10 is taken.
Enable it beside KubeShareGuarantee: each scores its own class of pods.
"""

import numpy as np

from kubeshare_py.plugin import (
    ABSENT,
    MAX_SCORE,
    UNHEALTHY,
    WHOLE_MILLI,
    BestCards,
    CardRank,
    IntArray,
    Rows,
    RowScore,
    Shape,
)

#: A point is ten thousandths of a card.
TENFOLD = 10


def normalise(raw: IntArray) -> IntArray:
    """KubeShare's NormalizeScore, (k,): a negative lowest becomes 0, and above 100 it scales."""
    if not len(raw):
        return raw
    shifted = raw - min(int(raw.min()), 0)
    lowest, highest = int(shifted.min()), int(shifted.max())
    if highest <= MAX_SCORE:
        return shifted
    scaled: IntArray = MAX_SCORE * (shifted - lowest) // ((highest - lowest) or MAX_SCORE)
    return scaled


class KubeShareOpportunistic:
    """Pods of priority 0 and below: fill cards in use, on nodes with few idle cards."""

    name = "KubeShareOpportunistic"
    normaliser = staticmethod(normalise)

    def score(self, shape: Shape) -> RowScore | None:
        """Only for pods with a claim and without a guarantee."""
        if not shape.claims or shape.guarantee or shape.policy is not None:
            return None

        def ask(rows: Rows, cards: BestCards | None) -> IntArray:
            counted, used = used_cards(shape, rows)
            total, idle = used.sum(1), (counted & (used == 0)).sum(1)
            cells = counted.sum(1)
            points = cells * (tenfold_priorities(counted, rows) + total) - WHOLE_MILLI * idle
            return truncated(points, TENFOLD * cells * cells)

        return ask

    def card_score(self, shape: Shape) -> CardRank | None:
        """The fullest card that fits."""
        if shape.guarantee or shape.policy is not None:
            return None
        return lambda rows: TENFOLD * rows.cell_priority + rows.capacity_milli - rows.free_milli


def used_cards(shape: Shape, rows: Rows) -> tuple[IntArray, IntArray]:
    """Which cards count (0 or 1), and the used milli of each; (k, width) int64 both."""
    counted = (rows.flags & (ABSENT | UNHEALTHY)) == 0
    if shape.claims and all(claim.models or claim.preferred for claim in shape.claims):
        numbers, names = rows.models()
        taken = [any(claim.takes(name) for claim in shape.claims) for name in names]
        counted &= np.array(taken)[numbers]
    used = rows.capacity_milli - np.clip(rows.free_milli, 0, rows.capacity_milli)
    return counted.astype(np.int64), np.where(counted, used, 0)


def tenfold_priorities(counted: IntArray, rows: Rows) -> IntArray:
    """Ten times the sum of the counted cards' cell priorities, (k,) int64.

    `counted` is (k, width), 0 or 1.
    """
    priorities: IntArray = TENFOLD * (counted * rows.cell_priority).sum(1)
    return priorities


def truncated(points: IntArray, divisor: IntArray) -> IntArray:
    """Division toward zero of (k,) integers; 0 where there are no cards."""
    quotient: IntArray = np.sign(points) * (np.abs(points) // np.maximum(divisor, 1))
    return quotient
