"""Numbers for the values of a column that has few different ones."""

from collections.abc import Hashable, Sequence
from typing import Any, Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T", bound=Hashable)
V = TypeVar("V")

#: The most values beyond those in use that are kept before numbers are given anew.
SPARE_VALUES = 1024


class ListView(Sequence[V]):
    """A list to read only; it shows what is added to the list later."""

    __slots__ = ("_values",)

    def __init__(self, values: list[V]) -> None:
        self._values = values

    @overload
    def __getitem__(self, index: int) -> V: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[V]: ...
    def __getitem__(self, index: Any) -> Any:
        return self._values[index]

    def __len__(self) -> int:
        return len(self._values)


class Numbering(Generic[T]):
    """A value's number is its index in `values`; number 0 is `first` and stays.

    Values that no row has any more are kept until there are many of them: nodes' owners may choose
    new values every second. `values` only grows until then, and is replaced by another list. So is
    `shown`, which is `values` to read only.
    """

    __slots__ = ("_most", "_numbers", "shown", "values")

    def __init__(self, first: T) -> None:
        self.values: list[T] = [first]
        self.shown: Sequence[T] = ListView(self.values)
        self._numbers: dict[T, int] = {first: 0}
        self._most = SPARE_VALUES

    def copy(self) -> "Numbering[T]":
        """The same numbers, to be continued apart from these."""
        twin = Numbering(self.values[0])
        twin.values = [*self.values]
        twin.shown = ListView(twin.values)
        twin._numbers, twin._most = dict(self._numbers), self._most
        return twin

    def number(self, value: T) -> int:
        """The number of a value; a new one if it has none."""
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self.values)
            self.values.append(value)
        return found

    @property
    def is_crowded(self) -> bool:
        """Whether most of the values may be out of use."""
        return len(self.values) > self._most

    def renumber(self, column: NDArray[np.int64]) -> NDArray[np.int64]:
        """Drop the values that are not in `column`; the column with the new numbers.

        Both are int64, of any shape: (rows,) or (rows, width).
        """
        used = np.union1d(column, [0])
        self.values = [self.values[number] for number in used.tolist()]
        self.shown = ListView(self.values)
        self._numbers = {value: number for number, value in enumerate(self.values)}
        self._most = 2 * len(self.values) + SPARE_VALUES
        renumbered: NDArray[np.int64] = np.searchsorted(used, column)
        return renumbered
