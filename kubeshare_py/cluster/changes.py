"""A log of changed rows: a reader asks again only about rows that changed since its last look."""

import numpy as np
from numpy.typing import NDArray


class ChangeLog:
    """A ring of row numbers. A reader keeps `end`, and later asks for the rows logged `since` then.

    Rows are (n,) int64.
    """

    def __init__(self, size: int = 1 << 15) -> None:
        self._ring = np.zeros(size, np.int64)
        self._size = size
        self.end = 0

    def add(self, row: int) -> None:
        """Log one changed row."""
        self._ring[self.end % self._size] = row
        self.end += 1

    def add_all(self, rows: NDArray[np.int64]) -> None:
        """Log changed rows, (n,)."""
        # (n,): a ring. If n is above its size, later rows overwrite earlier ones; `since` refuses
        # then.
        places = np.arange(self.end, self.end + len(rows)) % self._size
        self._ring[places] = rows
        self.end += len(rows)

    def since(self, position: int, at_most: int) -> NDArray[np.int64] | None:
        """The rows that changed since `position`, (n,), with repeats.

        None if they are more than `at_most`.

        Also None if the ring no longer has them: then every row may have changed.
        """
        count = self.end - position
        if count > at_most or count > self._size:
            return None
        start = position % self._size
        stop = start + count
        if stop <= self._size:
            return self._ring[start:stop]
        # The part asked for goes over the end of the ring: a copy, where it is a view otherwise.
        return np.concatenate((self._ring[start:], self._ring[: stop - self._size]))
