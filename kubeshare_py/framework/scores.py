"""Normalisers for scores that only mean something beside the other rows that fit.

They cost time in proportion to the rows that fit, at every decision; no plugin of the default
profile uses one.
"""

from dataclasses import dataclass

import numpy as np

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.framework.points import Normaliser, RowScore

MAX_SCORE = 100


@dataclass(frozen=True, slots=True)
class Normalised:
    """A question whose answers are normalised over the rows that fit."""

    score: RowScore
    normaliser: Normaliser
    weight: int


def maximum(raw: IntArray) -> IntArray:
    """Share of the highest, as kube-scheduler's DefaultNormalizeScore: 0 stays 0."""
    highest = raw.max(initial=0)
    return raw * MAX_SCORE // highest if highest > 0 else np.zeros_like(raw)


def reverse(raw: IntArray) -> IntArray:
    """The same, less is better: 0 becomes 100."""
    return MAX_SCORE - maximum(raw)
