"""Which resources have a column: the fixed ones, and those that a node offers now.

Pods may ask for any name, and nodes may offer other names every second. So a column ends with the
last node that offers its resource, and another resource gets its place. What pods hold of a
resource without a column is kept by row, and counted as soon as there is a column.
"""

from collections import Counter
from collections.abc import Iterable
from types import MappingProxyType

import numpy as np

from kubeshare_py.cluster.columns import FIXED_RESOURCES, Columns
from kubeshare_py.cluster.native.native_gpus import Resources

#: How many columns are added at once.
_SPARE = 4


class Offered:
    """Opens and closes the resource columns of `columns`.

    `columns.resources` is replaced, never changed: a reader that keeps it sees by its identity that
    columns came or went.
    """

    __slots__ = ("_columns", "_nodes", "_vacant", "unoffered")

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._nodes: Counter[str] = Counter()
        self._vacant: list[int] = []
        #: Amounts held of resources without a column, by resource and row; never 0.
        self.unoffered: dict[str, dict[int, int]] = {}

    def offer(self, names: Iterable[str]) -> None:
        """One more node offers these resources."""
        names = sorted({*names}.difference(FIXED_RESOURCES))
        self._nodes.update(names)
        fresh = [name for name in names if name not in self._columns.resources]
        if fresh:
            self._open(fresh)

    def withdraw(self, names: Iterable[str]) -> None:
        """One node fewer offers these resources; `allocatable` of its row is 0 already."""
        names = sorted({*names}.difference(FIXED_RESOURCES))
        self._nodes.subtract(names)
        gone = [name for name in names if not self._nodes[name]]
        for name in gone:
            del self._nodes[name]
        if gone:
            self._close(gone)

    def hold(self, row: int, resources: Resources, sign: int) -> None:
        """Pods hold these amounts of resources without a column on a row (1), or no longer (-1)."""
        for name, amount in resources:
            rows = self.unoffered.setdefault(name, {})
            rows[row] = rows.get(row, 0) + sign * amount
            if not rows[row]:
                del rows[row]
            if not rows:
                del self.unoffered[name]

    def _open(self, names: list[str]) -> None:
        columns = self._columns
        resources = dict(columns.resources)
        for name in names:
            if not self._vacant:
                self._widen()
            column = resources[name] = self._vacant.pop()
            for row, amount in self.unoffered.pop(name, {}).items():
                columns.free[row, column] = -amount
        columns.resources = MappingProxyType(resources)

    def _close(self, names: list[str]) -> None:
        columns = self._columns
        resources = dict(columns.resources)
        for name in names:
            column = resources.pop(name)
            free = columns.free[:, column]
            rows = np.flatnonzero(free)
            if len(rows):
                held = zip(rows.tolist(), (-free[rows]).tolist(), strict=True)
                self.unoffered[name] = dict(held)
            free.fill(0)
            self._vacant.append(column)
        columns.resources = MappingProxyType(resources)

    def _widen(self) -> None:
        columns = self._columns
        old = columns.free.shape[1]
        wider = ((0, 0), (0, _SPARE))
        columns.allocatable = np.pad(columns.allocatable, wider)
        columns.free = np.pad(columns.free, wider)
        self._vacant.extend(range(old + _SPARE - 1, old - 1, -1))
