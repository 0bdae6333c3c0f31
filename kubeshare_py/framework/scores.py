"""Normalisers, for scores that have a meaning only relative to the other rows that fit.

They cost time in proportion to the rows that fit, at every decision; those that depend on node
objects alone do only while their raw scores differ. Raw scores and answers are (k,) int64.
"""

from dataclasses import dataclass

import numpy as np

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.framework.points import Normaliser, RowScore

MAX_SCORE = 100


@dataclass(frozen=True, slots=True)
class Normalised:
    """A plugin's question, whose answers are normalised over the rows that fit."""

    name: str
    score: RowScore
    normaliser: Normaliser
    weight: int


def maximum(raw: IntArray) -> IntArray:
    """The percentage of the highest score, (k,), as kube-scheduler's DefaultNormalizeScore.

    0 stays 0.

    Source: pkg/scheduler/framework/plugins/helper/normalize_score.go.
    """
    highest = raw.max(initial=0)
    # (k,), whole numbers as Go divides them: raw scores are 0 or more.
    return raw * MAX_SCORE // highest if highest > 0 else np.zeros_like(raw)


def reverse(raw: IntArray) -> IntArray:
    """`maximum` reversed, (k,): lower is better, and 0 becomes 100."""
    return MAX_SCORE - maximum(raw)
