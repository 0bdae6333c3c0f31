"""An upper bound of how many pods of a shape fit into the cluster at once, row by row."""

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.rows import AllRows, Rows, SomeRows
from kubeshare_py.cluster.what_if import WhatIf
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.boundary import PluginFailed
from kubeshare_py.framework.evaluation_cost import ASKING
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.framework.points import MAX_PODS, RowHeadroom
from kubeshare_py.framework.result_cache import SHAPES_KEPT


@dataclass(slots=True)
class RowBounds:
    """The bound of each row, (rows,) int64, as of change number `seen` of the tables."""

    questions: list[RowHeadroom]
    layout: int
    seen: int
    rows: IntArray


class Headroom:
    """Bounds for one profile; only rows that changed are asked about again.

    All arrays are (rows,) int64, in pods. When the evaluator forgets a shape, so do these.
    """

    def __init__(self, ledger: Ledger, evaluator: Evaluator) -> None:
        """The evaluator may be one of an overlay: the bounds are then those of its tables."""
        self._ledger = ledger
        self._evaluator = evaluator
        self._tables = evaluator.tables
        self._known: OrderedDict[Shape, RowBounds] = OrderedDict()
        #: By shape: the ledger's capacity number, and the bound of each row as of it.
        self._if_empty: OrderedDict[Shape, tuple[int, IntArray]] = OrderedDict()
        #: All rows without pods, as of these change numbers of the ledger.
        self._emptied: tuple[tuple[int, ...], WhatIf] | None = None
        evaluator.forget_too = self.forget

    def knows(self, shape: Shape) -> bool:
        """Whether a bound for the shape is cached."""
        return shape in self._known or shape in self._if_empty

    def forget(self, shape: Shape) -> None:
        """Drop all that is cached about a shape, because no pod with it waits any more."""
        self._known.pop(shape, None)
        self._if_empty.pop(shape, None)

    def total(self, shape: Shape) -> int:
        """An upper bound of how many pods of this shape fit now.

        0 exactly when no row has room for it alone, also when that is because a plugin failed. What
        depends on the whole cluster is left out, because pods that are placed before may change it.
        """
        return int(self.rows(shape).sum())

    def if_empty(self, shape: Shape) -> IntArray:
        """An upper bound of how many pods of the shape each row would take if it were empty."""
        ledger = self._ledger
        known = self._if_empty.get(shape)
        if known is None or known[0] != ledger.capacities:
            rows = self._emptied_rows()
            try:
                bound = _bound(
                    self._evaluator.bounds(shape), rows, self._evaluator.own_keys_on(shape, rows)
                )
            except PluginFailed:
                return np.zeros(ledger.columns.rows, np.int64)
            known = self._if_empty[shape] = (ledger.capacities, bound)
            if len(self._if_empty) > SHAPES_KEPT:
                self._if_empty.popitem(last=False)
        self._if_empty.move_to_end(shape)
        return known[1]

    def rows(self, shape: Shape) -> IntArray:
        """An upper bound of how many pods of the shape each row takes now.

        The array must not be changed, and is valid until the next change of the tables.
        """
        keys = self._evaluator.own_keys(shape)
        if shape not in self._evaluator.failed:
            try:
                return self._refreshed(shape, keys)
            except PluginFailed as failure:
                self._evaluator.fail(shape, failure)
        self._known.pop(shape, None)
        return np.zeros(len(keys), np.int64)

    def _emptied_rows(self) -> WhatIf:
        """All rows without pods; several shapes are asked about at the same moment."""
        ledger = self._ledger
        now = ledger.capacities, ledger.changed.end, ledger.relabelled.end
        if self._emptied is None or self._emptied[0] != now:
            rows = ledger.what_if(np.arange(ledger.columns.rows))
            rows.empty()
            self._emptied = now, rows
        return self._emptied[1]

    def _refreshed(self, shape: Shape, keys: IntArray) -> IntArray:
        tables = self._tables
        columns, end = tables.columns, tables.changed.end
        known = self._known.get(shape)
        changed = None
        if known is None:
            known = self._known[shape] = self._unasked(shape, keys)
            if len(self._known) > SHAPES_KEPT:
                self._known.popitem(last=False)
        if known.layout == columns.layout:
            changed = tables.changed.since(known.seen, columns.rows)
        if changed is None:
            self._evaluator.work.other += ASKING + columns.rows
            known.rows = _bound(known.questions, AllRows(columns), keys)
        elif len(changed):
            self._ask(known, changed, keys)
        known.layout, known.seen = columns.layout, end
        self._known.move_to_end(shape)
        return known.rows

    def _ask(self, known: RowBounds, index: IntArray, keys: IntArray) -> None:
        """Ask about these rows, (k,), again; `keys` are those of all rows."""
        self._evaluator.work.other += ASKING + len(index)
        rows = SomeRows(self._tables.columns, index)
        known.rows[index] = _bound(known.questions, rows, keys.take(index))

    def _unasked(self, shape: Shape, keys: IntArray) -> RowBounds:
        """The questions about a shape, and what is known without asking them: nothing."""
        return RowBounds(self._evaluator.bounds(shape), -1, 0, keys)


def _bound(questions: list[RowHeadroom], rows: Rows, keys: IntArray) -> IntArray:
    """0 where the shape does not fit; else the lowest bound of the plugins, and at least 1."""
    bound: IntArray = np.full(len(keys), MAX_PODS, np.int64)
    for question in questions:
        bound = np.minimum(bound, question(rows))
    return np.where(keys >= 0, np.maximum(bound, 1), 0)
