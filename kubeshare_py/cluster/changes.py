"""Which rows changed, in order: a reader asks again only for what changed since it last looked."""

import numpy as np
from numpy.typing import NDArray


class ChangeLog:
    """A ring of row numbers. A reader keeps `end` and later asks for what came `since`."""

    def __init__(self, size: int = 1 << 15) -> None:
        self._ring = np.zeros(size, np.int64)
        self._size = size
        self.end = 0

    def add(self, row: int) -> None:
        """Row changed."""
        self._ring[self.end % self._size] = row
        self.end += 1

    def add_all(self, rows: NDArray[np.int64]) -> None:
        """These rows changed."""
        places = np.arange(self.end, self.end + len(rows)) % self._size
        self._ring[places] = rows
        self.end += len(rows)

    def since(self, position: int, at_most: int) -> NDArray[np.int64] | None:
        """Rows that changed since `position`, repeats included; None when more than `at_most`.

        None also when the ring has forgotten: then everything may have changed.
        """
        count = self.end - position
        if count > at_most or count > self._size:
            return None
        start = position % self._size
        stop = start + count
        if stop <= self._size:
            return self._ring[start:stop]
        return np.concatenate((self._ring[start:], self._ring[: stop - self._size]))
