"""A number for each card model, worked out once per name: answers about models for many cards."""

from collections.abc import Callable

import numpy as np

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.rows import Rows


class ModelTable:
    """Belongs to one question of one ledger: models are numbered there, and only ever added."""

    __slots__ = ("_number_of", "_numbers")

    def __init__(self, number_of: Callable[[str], int], empty: int = 0) -> None:
        """`number_of` is put to each model's full name; `empty` is the number of empty slots."""
        self._number_of = number_of
        self._numbers: IntArray = np.array([empty], np.int64)

    def of(self, rows: Rows) -> IntArray:
        """The numbers of the rows' cards; shape (k, width)."""
        codes, names = rows.models()
        known = len(self._numbers)
        if known < len(names):
            more = [self._number_of(name) for name in names[known:]]
            self._numbers = np.append(self._numbers, np.array(more, np.int64))
        return self._numbers.take(codes)
