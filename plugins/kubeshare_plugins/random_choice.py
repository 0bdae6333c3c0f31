"""Score and CardScore: any node and card that fits, by a seeded generator."""

import numpy as np

from kubeshare_py.plugin import MAX_SCORE, BestCards, CardRank, IntArray, Rows, RowScore, Shape

# Large, so that two cards hardly ever draw the same number.
_RANKS = 1 << 30


class Random:
    """A baseline to compare policies with. The same seed and history give the same choices.

    Every decision draws one of all nodes that fit, each with equal probability; hence the
    normaliser. A number per node, kept until the node changes, would not do: nodes that drew low
    would wait for ever, and one node after the other would be filled.
    """

    name = "Random"

    def __init__(self, seed: int = 0) -> None:
        self._numbers = np.random.default_rng(seed)

    def score(self, shape: Shape) -> RowScore | None:
        """0 for every row: the draw needs all rows that fit."""
        return None if shape.policy is not None else _nothing

    def normaliser(self, raw: IntArray) -> IntArray:
        """100 for one row, 0 for the others; (k,) int64."""
        points = np.zeros_like(raw)
        if len(raw):
            points[self._numbers.integers(len(raw))] = MAX_SCORE
        return points

    def card_score(self, shape: Shape) -> CardRank | None:
        """A number for each card, drawn anew when its node changes."""
        if shape.policy is not None:
            return None

        def draw(rows: Rows) -> IntArray:
            return self._numbers.integers(0, _RANKS, rows.flags.shape)

        return draw


def _nothing(rows: Rows, cards: BestCards | None) -> IntArray:
    return np.zeros(len(rows.index), np.int64)
