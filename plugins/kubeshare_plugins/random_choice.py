"""Score and CardScore: any node and card that fits, by a seeded generator."""

import numpy as np

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.points import CardRank, Cards, Depends, Normaliser, RowScore


class Random:
    """A baseline to compare policies with. The same seed and history give the same choices.

    A row's number is drawn when the row is asked about: a node that was just used gets a new one.
    """

    name = "Random"
    depends = Depends.ROW
    normaliser: Normaliser | None = None

    def __init__(self, seed: int = 0) -> None:
        self._numbers = np.random.default_rng(seed)

    def score(self, shape: Shape) -> RowScore | None:
        """A number per row."""

        def draw(rows: Rows, cards: Cards | None) -> IntArray:
            return self._numbers.integers(0, 101, len(rows.index))

        return draw

    def card_score(self, shape: Shape) -> CardRank | None:
        """A number per card."""

        def draw(rows: Rows) -> IntArray:
            return self._numbers.integers(0, 101, rows.column("flags").shape)

        return draw
