"""Numbers for the values of a column that has few distinct ones."""

from collections.abc import Hashable
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T", bound=Hashable)

#: Values beyond those in use that may be kept, before they are numbered anew.
SPARE_VALUES = 1024


class Numbering(Generic[T]):
    """Each value's number is its place in `values`; number 0 is `first` and stays.

    Values that no row has any more stay too, until they are many: who chooses the values may
    choose others every second. `values` only grows until then, and is another list after.
    """

    __slots__ = ("_most", "_numbers", "values")

    def __init__(self, first: T) -> None:
        self.values: list[T] = [first]
        self._numbers: dict[T, int] = {first: 0}
        self._most = SPARE_VALUES

    def number(self, value: T) -> int:
        """The number of a value, a new one if it has none."""
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self.values)
            self.values.append(value)
        return found

    @property
    def is_crowded(self) -> bool:
        """Whether most of the values may not be in use any more."""
        return len(self.values) > self._most

    def renumber(self, column: NDArray[np.int64]) -> NDArray[np.int64]:
        """Forget what is not in this column of numbers; the column with the new numbers."""
        used = np.union1d(column, [0])
        self.values = [self.values[number] for number in used.tolist()]
        self._numbers = {value: number for number, value in enumerate(self.values)}
        self._most = 2 * len(self.values) + SPARE_VALUES
        renumbered: NDArray[np.int64] = np.searchsorted(used, column)
        return renumbered
