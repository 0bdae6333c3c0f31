"""Filters and scores from one plain function of one node.

A column plugin answers for all rows with a few array operations; these call Python for each row.
The first question about a shape is one call per node: at 5,000 nodes more than an iteration of the
scheduler should take (docs/plugins.md has numbers). After that it is one call per row that changed.
This is fine for hundreds of nodes and for trying an idea; a plugin that proves itself is better
written in columns (see `points`).
"""

from collections.abc import Callable

import numpy as np

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.adapters.node_state import (
    NodeState,
    checked_fit,
    checked_points,
    each_node,
)
from kubeshare_py.framework.points import BestCards, Depends, Normaliser, RowFilter, RowScore
from kubeshare_py.framework.reasons import ReasonTable


class PerNodeFilter:
    """A filter from a function that says whether a shape fits a node.

    `reason` is what people read where it does not ("node(s) had no fast disk"); `resolvable` says
    whether evicting pods from the node could help. The function must be pure.
    """

    depends = Depends.ROW

    def __init__(
        self,
        name: str,
        fits: Callable[[Shape, NodeState], bool],
        *,
        reason: str,
        resolvable: bool = False,
    ) -> None:
        self.name = name
        self._fits = fits
        self._reason = reason
        self._resolvable = resolvable

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        """Put the function to each row."""
        mask = reasons.register(self.name, self._reason, resolvable=self._resolvable)

        def ask(rows: Rows) -> IntArray:
            return _each(rows, lambda node: 0 if checked_fit(self._fits(shape, node)) else mask)

        return ask


class PerNodeScore:
    """A score from a function that says how good a node is for a shape, 0…100.

    Answers outside of that range are cut. The function must be pure.
    """

    normaliser: Normaliser | None = None

    def __init__(self, name: str, points: Callable[[Shape, NodeState], int]) -> None:
        self.name = name
        self._points = points

    def score(self, shape: Shape) -> RowScore | None:
        """Put the function to each row."""

        def ask(rows: Rows, cards: BestCards | None) -> IntArray:
            return _each(rows, lambda node: checked_points(self._points(shape, node)))

        return ask


def _each(rows: Rows, answer: Callable[[NodeState], int]) -> IntArray:
    """The answer for every row with a node, 0 for the others; raises NodeFailed."""
    answers = np.zeros(len(rows.present), np.int64)

    def ask(at: int, node: NodeState) -> None:
        answers[at] = answer(node)

    each_node(rows, ask)
    return answers
