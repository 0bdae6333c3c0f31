"""Lifts and lays the same reservations together, at the cost of what changed between iterations.

Both states of their rows are remembered: with these reservations and without. A row that did not
change since is written from memory, and the others are counted anew.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.changes import ChangeLog
from kubeshare_py.cluster.charge import Charge
from kubeshare_py.cluster.columns import CHARGED_COLUMNS, Columns, IntArray
from kubeshare_py.domain.identity import PodUid

#: If more rows changed than this, all are counted anew.
MOST_CHANGED = 4096


class ReservationSwitch:
    """The reservations of `uids`; invalid once one of them is moved or dissolved."""

    def __init__(
        self,
        columns: Columns,
        changed: ChangeLog,
        uids: Sequence[PodUid],
        charges: Mapping[PodUid, Charge],
    ) -> None:
        self.uids = list(uids)
        self._columns = columns
        self._changed = changed
        self._by_row: dict[int, dict[PodUid, Charge]] = {}
        for uid in uids:
            charge = charges[uid]
            self._by_row.setdefault(columns.row_of[charge.node], {})[uid] = charge
        self._rows = np.array(list(self._by_row), np.int64)
        #: By sign: the rows as they were when the reservations were last laid (1) and lifted (-1).
        self._looks: dict[int, list[IntArray]] = {}
        #: Rows for which both are right, unless they changed after `_end`.
        self._known = np.zeros(len(self._rows), np.bool_)
        self._end = 0

    def turn(
        self, sign: int, count: Callable[[int, dict[PodUid, Charge], int], bool]
    ) -> list[PodUid]:
        """Lay (sign 1) or lift (-1) the reservations; the uids that `count` did not see.

        `count` does it for one row, and returns whether the columns alone remember it.
        """
        looks = self._look()
        # A table that grew has other columns than the remembered ones.
        shapes = [look.shape for look in self._looks.get(sign, ())]
        is_like_before = shapes == [look.shape for look in looks]
        fresh = self._fresh() if is_like_before else np.zeros(len(self._rows), np.bool_)
        rows = self._rows[fresh]
        for name, look in zip(
            CHARGED_COLUMNS, self._looks[sign] if len(rows) else (), strict=False
        ):
            getattr(self._columns, name)[rows] = look[fresh]
        self._changed.add_all(rows)
        unseen: list[PodUid] = []
        for position, (row, charges) in enumerate(self._by_row.items()):
            if fresh[position]:
                unseen += charges
            else:
                self._known[position] = count(row, charges, sign)
        self._looks = {-sign: looks, sign: self._look()}
        self._end = self._changed.end
        return unseen

    def _fresh(self) -> NDArray[np.bool_]:
        changed = self._changed.since(self._end, MOST_CHANGED)
        if changed is None:
            return np.zeros(len(self._rows), np.bool_)
        return self._known & ~np.isin(self._rows, changed)

    def _look(self) -> list[IntArray]:
        return [getattr(self._columns, name)[self._rows] for name in CHARGED_COLUMNS]
