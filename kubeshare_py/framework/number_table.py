"""A number for each of a few values of cards, such as their models, computed once per value."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import numpy as np

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.rows import Rows

T = TypeVar("T")


class NumberTable(Generic[T]):
    """The numbers of values, for one question of one ledger, which numbers values.

    Numbers stay while the ledger gives the same list of values, which only grows.
    """

    __slots__ = ("_codes_of", "_first", "_number_of", "_numbers", "_values")

    def __init__(
        self,
        codes_of: Callable[[Rows], tuple[IntArray, Sequence[T]]],
        number_of: Callable[[T], int],
        first: int,
    ) -> None:
        """`codes_of` gives each card's index into a list of values, (k, width) int64, and the list.

        `number_of` gives a value's number; `first` is the number of index 0.
        """
        self._codes_of = codes_of
        self._number_of = number_of
        self._first: IntArray = np.array([first], np.int64)
        self._numbers = self._first
        self._values: Sequence[T] = ()

    def of(self, rows: Rows) -> IntArray:
        """The number of each card of the rows, (k, width) int64."""
        codes, values = self._codes_of(rows)
        if values is not self._values:
            self._values, self._numbers = values, self._first
        known = len(self._numbers)
        if known < len(values):
            more = [self._number_of(value) for value in values[known:]]
            self._numbers = np.append(self._numbers, np.array(more, np.int64))
        return self._numbers[codes]


class ModelTable(NumberTable[str]):
    """The numbers of card models, for one question of one ledger."""

    __slots__ = ()

    def __init__(self, number_of: Callable[[str], int], empty: int = 0) -> None:
        """`number_of` gets each model's full name; `empty` is the number of empty slots."""
        super().__init__(_models, number_of, empty)


def _models(rows: Rows) -> tuple[IntArray, Sequence[str]]:
    return rows.models()
