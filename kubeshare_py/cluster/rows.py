"""What plugins see of the cluster: columns of the rows that they are asked about.

Arrays have one entry per asked row (k), cards one line per row: (k, width). They are copies or
views that must not be written to. Amounts as in `columns`.
"""

from collections.abc import Collection, Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import Columns, IntArray
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.node import Taint
from kubeshare_py.domain.readiness import Told
from kubeshare_py.topology.card_sets import CardSets


class Rows(Protocol):
    """The asked rows. `index` are their numbers in the tables."""

    @property
    def index(self) -> IntArray:
        """Row numbers, shape (k,)."""

    def column(self, name: str) -> IntArray:
        """A column of `Columns` by name, for the asked rows."""

    def labels(self, key: str) -> tuple[IntArray, list[str | None]]:
        """A label: for each row the number of its value, and the values (None: not set)."""

    def label_numbers(self, key: str) -> tuple[IntArray, Mapping[str | None, int]]:
        """A label: for each row the number of its value, and each value's number.

        The same mapping is given again, with values that came since at its end; another one once
        the first node has the label. Not to be changed.
        """

    def named(self, names: Collection[str]) -> NDArray[np.bool_]:
        """Which of the asked rows are nodes of these names; shape (k,)."""

    def taints(self) -> tuple[IntArray, list[tuple[Taint, ...]]]:
        """Taints: for each row the number of its set, and the sets.

        The same list is given again, with sets that came since at its end; another one once
        numbers change. So with models and readiness. Not to be changed.
        """

    def models(self) -> tuple[IntArray, list[str]]:
        """Card models: for each card the number of its model, and the names (empty: no card)."""

    def readiness(self) -> tuple[IntArray, list[Told]]:
        """For each card the number of what is told of isolation back-ends, and all of that."""

    @property
    def names(self) -> list[NodeName | None]:
        """Node names; None for rows that are not in use."""

    @property
    def resources(self) -> dict[str, int]:
        """Which column of `free` and `allocatable` is which resource; not to be changed.

        Resources that no node offers have none. The same mapping is given again until a resource
        gets a column, or loses its own: then another one.
        """

    @property
    def boards(self) -> list[CardSets]:
        """The choices on each board, by the numbers of column `board`; not to be changed."""


class SomeRows:
    """A few rows, copied out of the tables."""

    __slots__ = ("_columns", "_taken", "index")

    def __init__(self, columns: Columns, index: IntArray) -> None:
        self._columns = columns
        self.index = index
        self._taken: dict[str, IntArray] = {}

    def column(self, name: str) -> IntArray:
        """A column of `Columns` by name, for the asked rows."""
        taken = self._taken.get(name)
        if taken is None:
            taken = self._taken[name] = getattr(self._columns, name).take(self.index, 0)
        return taken

    def labels(self, key: str) -> tuple[IntArray, list[str | None]]:
        """A label: for each row the number of its value, and the values (None: not set)."""
        label = self._columns.label(key)
        return label.codes.take(self.index), list(label.values)

    def label_numbers(self, key: str) -> tuple[IntArray, Mapping[str | None, int]]:
        """A label: for each row the number of its value, and each value's number."""
        label = self._columns.label(key)
        return label.codes.take(self.index), label.values

    def named(self, names: Collection[str]) -> NDArray[np.bool_]:
        """Which of the asked rows are nodes of these names."""
        return self._columns.named(names).take(self.index)

    def taints(self) -> tuple[IntArray, list[tuple[Taint, ...]]]:
        """Taints: for each row the number of its set, and the sets."""
        return self._columns.taint_set.take(self.index), self._columns.taint_sets.values

    def models(self) -> tuple[IntArray, list[str]]:
        """Card models: for each card the number of its model, and the names (empty: no card)."""
        return self.column("model"), self._columns.model_names

    def readiness(self) -> tuple[IntArray, list[Told]]:
        """For each card the number of what is told of isolation back-ends, and all of that."""
        return self.column("readiness"), self._columns.readiness_sets

    @property
    def names(self) -> list[NodeName | None]:
        """Node names; None for rows that are not in use."""
        names = self._columns.names
        return [names[row] for row in self.index.tolist()]

    @property
    def resources(self) -> dict[str, int]:
        """Which column of `free` and `allocatable` is which resource; not to be changed."""
        return self._columns.resources

    @property
    def boards(self) -> list[CardSets]:
        """The choices on each board, by the numbers of column `board`; not to be changed."""
        return self._columns.boards.sets


class AllRows:
    """Every row, as views of the tables."""

    __slots__ = ("_columns",)

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    @property
    def index(self) -> IntArray:
        """Row numbers, shape (k,)."""
        return np.arange(self._columns.rows)

    def column(self, name: str) -> IntArray:
        """A column of `Columns` by name."""
        column: IntArray = getattr(self._columns, name)
        return column

    def labels(self, key: str) -> tuple[IntArray, list[str | None]]:
        """A label: for each row the number of its value, and the values (None: not set)."""
        label = self._columns.label(key)
        return label.codes, list(label.values)

    def label_numbers(self, key: str) -> tuple[IntArray, Mapping[str | None, int]]:
        """A label: for each row the number of its value, and each value's number."""
        label = self._columns.label(key)
        return label.codes, label.values

    def named(self, names: Collection[str]) -> NDArray[np.bool_]:
        """Which rows are nodes of these names."""
        return self._columns.named(names)

    def taints(self) -> tuple[IntArray, list[tuple[Taint, ...]]]:
        """Taints: for each row the number of its set, and the sets."""
        return self._columns.taint_set, self._columns.taint_sets.values

    def models(self) -> tuple[IntArray, list[str]]:
        """Card models: for each card the number of its model, and the names (empty: no card)."""
        return self.column("model"), self._columns.model_names

    def readiness(self) -> tuple[IntArray, list[Told]]:
        """For each card the number of what is told of isolation back-ends, and all of that."""
        return self.column("readiness"), self._columns.readiness_sets

    @property
    def names(self) -> list[NodeName | None]:
        """Node names; None for rows that are not in use."""
        return self._columns.names

    @property
    def resources(self) -> dict[str, int]:
        """Which column of `free` and `allocatable` is which resource; not to be changed."""
        return self._columns.resources

    @property
    def boards(self) -> list[CardSets]:
        """The choices on each board, by the numbers of column `board`; not to be changed."""
        return self._columns.boards.sets
