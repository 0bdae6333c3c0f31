"""The cluster as plugins see it: columns of the rows that they are asked about.

Node columns have the shape (k,) for k asked rows, card columns (k, width); all are int64 unless
said otherwise. They are copies or views, and must not be written to. Units are those of `columns`.
"""

from collections.abc import Collection, Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import Columns, IntArray
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.node import Taint
from kubeshare_py.domain.readiness import ReadinessReport
from kubeshare_py.topology.card_sets import CardSets


class Rows(Protocol):
    """The asked rows; arrays are (k,) int64, or (k, width) for cards, as the module describes."""

    @property
    def index(self) -> IntArray:
        """The numbers of the rows in the tables, (k,)."""

    def column(self, name: str) -> IntArray:
        """A column of `Columns` by name, for the asked rows: (k,), (k, width) or (k, resources)."""

    def labels(self, key: str) -> tuple[IntArray, list[str | None]]:
        """A label: the number of each row's value, (k,), and the values; None is "not set"."""

    def label_numbers(self, key: str) -> tuple[IntArray, Mapping[str | None, int]]:
        """A label: the number of each row's value, (k,), and the number of each value.

        The mapping stays the same object and new values are appended to it; it is replaced when the
        first node gets the label. Do not change it.
        """

    def named(self, names: Collection[str]) -> NDArray[np.bool_]:
        """Which of the asked rows are nodes of these names; (k,) bool."""

    def taints(self) -> tuple[IntArray, list[tuple[Taint, ...]]]:
        """Taints: the number of each row's set, (k,), and the sets.

        The list stays the same object and new sets are appended to it; it is replaced when numbers
        change. So with models and readiness. Do not change it.
        """

    def models(self) -> tuple[IntArray, list[str]]:
        """Card models: the number of each card's model, (k, width), and the names.

        "" is no card.
        """

    def readiness(self) -> tuple[IntArray, list[ReadinessReport]]:
        """The number of each card's readiness, (k, width), and the values of readiness."""

    @property
    def names(self) -> list[NodeName | None]:
        """Node names; None for rows that are not in use."""

    @property
    def resources(self) -> dict[str, int]:
        """The column of each resource in `free` and `allocatable`. Do not change it.

        Resources that no node offers have no column. The mapping is replaced when a resource gets a
        column or loses it.
        """

    @property
    def boards(self) -> list[CardSets]:
        """The choices on each board, indexed by the column `board`. Do not change it."""


class SomeRows:
    """A few rows, copied out of the tables.

    `index` are their numbers in the tables, (k,) int64; arrays are (k,), or (k, width) for cards.
    """

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
        """See `Rows.labels`."""
        label = self._columns.label(key)
        return label.codes.take(self.index), list(label.values)

    def label_numbers(self, key: str) -> tuple[IntArray, Mapping[str | None, int]]:
        """See `Rows.label_numbers`."""
        label = self._columns.label(key)
        return label.codes.take(self.index), label.values

    def named(self, names: Collection[str]) -> NDArray[np.bool_]:
        """Which of the asked rows are nodes of these names."""
        return self._columns.named(names).take(self.index)

    def taints(self) -> tuple[IntArray, list[tuple[Taint, ...]]]:
        """See `Rows.taints`."""
        return self._columns.taint_set.take(self.index), self._columns.taint_sets.values

    def models(self) -> tuple[IntArray, list[str]]:
        """See `Rows.models`."""
        return self.column("model"), self._columns.model_names

    def readiness(self) -> tuple[IntArray, list[ReadinessReport]]:
        """See `Rows.readiness`."""
        return self.column("readiness"), self._columns.readiness_sets

    @property
    def names(self) -> list[NodeName | None]:
        """Node names; None for rows that are not in use."""
        names = self._columns.names
        return [names[row] for row in self.index.tolist()]

    @property
    def resources(self) -> dict[str, int]:
        """See `Rows.resources`."""
        return self._columns.resources

    @property
    def boards(self) -> list[CardSets]:
        """See `Rows.boards`."""
        return self._columns.boards.sets


class AllRows:
    """Every row, as views of the tables; arrays are (rows,), or (rows, width) for cards."""

    __slots__ = ("_columns",)

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    @property
    def index(self) -> IntArray:
        """The numbers of all rows, (rows,)."""
        return np.arange(self._columns.rows)

    def column(self, name: str) -> IntArray:
        """A column of `Columns` by name."""
        column: IntArray = getattr(self._columns, name)
        return column

    def labels(self, key: str) -> tuple[IntArray, list[str | None]]:
        """See `Rows.labels`."""
        label = self._columns.label(key)
        return label.codes, list(label.values)

    def label_numbers(self, key: str) -> tuple[IntArray, Mapping[str | None, int]]:
        """See `Rows.label_numbers`."""
        label = self._columns.label(key)
        return label.codes, label.values

    def named(self, names: Collection[str]) -> NDArray[np.bool_]:
        """Which rows are nodes of these names."""
        return self._columns.named(names)

    def taints(self) -> tuple[IntArray, list[tuple[Taint, ...]]]:
        """See `Rows.taints`."""
        return self._columns.taint_set, self._columns.taint_sets.values

    def models(self) -> tuple[IntArray, list[str]]:
        """See `Rows.models`."""
        return self.column("model"), self._columns.model_names

    def readiness(self) -> tuple[IntArray, list[ReadinessReport]]:
        """See `Rows.readiness`."""
        return self.column("readiness"), self._columns.readiness_sets

    @property
    def names(self) -> list[NodeName | None]:
        """Node names; None for rows that are not in use."""
        return self._columns.names

    @property
    def resources(self) -> dict[str, int]:
        """See `Rows.resources`."""
        return self._columns.resources

    @property
    def boards(self) -> list[CardSets]:
        """See `Rows.boards`."""
        return self._columns.boards.sets
