"""A second set of the tables, to try what would be if pods were placed, or were gone.

An overlay begins as the tables below it. What is added or removed in it stays in it: nothing enters
the ledger, its change logs, or an answer that is cached about it. `follow` ends all of that, at the
cost of the rows that differ. Columns that charges do not change are shared with the tables below.
"""

from collections.abc import Mapping, Sequence
from copy import copy

import numpy as np

from kubeshare_py.cluster.card_counts import count_cards, hold_back_cards, with_slots
from kubeshare_py.cluster.changes import ChangeLog
from kubeshare_py.cluster.charge import Charge
from kubeshare_py.cluster.columns import CHARGED_COLUMNS, Columns, IntArray
from kubeshare_py.cluster.native.native_gpus import (
    NONE,
    NativeGpus,
    Resources,
    as_array,
    to_hold_back,
)
from kubeshare_py.cluster.pods.pods_overlay import PodsOverlay
from kubeshare_py.cluster.reserved_places import count_reservation
from kubeshare_py.cluster.tables import Tables
from kubeshare_py.cluster.what_if import WhatIf
from kubeshare_py.domain.allocation import Allocation

_SHARED = tuple(
    name for name in Columns.__slots__ if name not in CHARGED_COLUMNS and name != "pods"
)
#: If more rows differ than this, all are copied.
_MAX_COPIED = 4096
#: So many rows are copied one by one, because that takes less time.
_FEW = 4


class Overlay:
    """Tables above other tables."""

    def __init__(self, below: Tables) -> None:
        self.below = below
        self.changed = ChangeLog()
        #: Rows in which something was tried.
        self._touched: dict[int, None] = {}
        #: By row, how many GPUs of native pods there are more than below.
        self._native: dict[int, NativeGpus] = {}
        self._left_out: Mapping[int, Sequence[Charge]] = {}
        self._seen = 0
        self.pods = PodsOverlay(below.columns.pods, below.columns.objects)
        self._copy_all()

    @property
    def relabelled(self) -> ChangeLog:
        """The log of the tables below: what is tried changes no node object."""
        return self.below.relabelled

    def differing(self) -> IntArray:
        """The rows, (k,) int64, that may differ from those below."""
        rows = {**self._touched, **dict.fromkeys(self._left_out)}
        return np.fromiter(rows, np.int64, len(rows))

    def follow(self) -> None:
        """Be like the tables below again, but for reservations that are left out."""
        below, columns = self.below.columns, self.columns
        self.pods.clear()
        is_laid_out = below.layout == columns.layout and below.resources is columns.resources
        # An overlay below has other arrays once it copied all rows, which may be few.
        is_same = is_laid_out and below.free is self._copied
        behind = self.below.changed.since(self._seen, _MAX_COPIED) if is_same else None
        if behind is None:
            self._copy_all()
        elif len(behind) or self._touched:
            self._copy({**dict.fromkeys(behind.tolist()), **self._touched})
        self._seen = self.below.changed.end

    def leave_out(self, reservations: Mapping[int, Sequence[Charge]]) -> None:
        """Leave these reservations out from now on, by row; `follow` shows the others again."""
        rows = {**self._left_out, **reservations}
        others = [row for row in rows if self._left_out.get(row) != reservations.get(row)]
        self._touched.update(dict.fromkeys(others))
        self._left_out = reservations

    def place(self, row: int, charge: Charge, slots: Sequence[int]) -> None:
        """Add a pod to a row; its cards are in these slots."""
        self._touched[row] = None
        self.changed.add(row)
        if charge.pod is not None:
            self.pods.add(row, charge.pod, 1)
        self._count(row, charge, 1, slots, charge.allocation)

    def remove(self, row: int, charge: Charge) -> None:
        """Remove what a pod holds of a row."""
        self._touched[row] = None
        self.changed.add(row)
        if charge.pod is not None:
            self.pods.add(row, charge.pod, -1)
        self._count(row, charge, -1, *with_slots(self.columns, row, charge.allocation))

    def native_on(self, row: int) -> NativeGpus:
        """The GPUs of a row that the kubelet gives to pods."""
        native = self.below.native_on(row)
        return native.plus(self._native[row], 1) if row in self._native else native

    def vector(self, resources: Resources, port: bool) -> IntArray:
        """A request as amounts by resource column, (resources,) int64; a pod is one of `pods`."""
        return self.below.vector(resources, port)

    def what_if(self, rows: IntArray) -> WhatIf:
        """Private copies of these rows, (k,) int64."""
        return WhatIf(self.columns, rows, as_array(self.native_on, rows))

    # --- inside --------------------------------------------------------------------------------

    def _count(
        self,
        row: int,
        charge: Charge,
        sign: int,
        slots: Sequence[int],
        allocation: Allocation | None,
    ) -> None:
        """Add (sign 1) or remove (-1) a charge, of whose cards `allocation` are in these slots."""
        columns, whole = self.columns, charge.allocation
        port = whole is not None and whole.port is not None
        free = columns.free[row]
        (np.subtract if sign > 0 else np.add)(free, self.vector(charge.resources, port), free)
        native = charge.native
        if native != NONE:
            self._native[row] = self._native.get(row, NONE).plus(native, sign)
        held_back = to_hold_back(columns, row, self.native_on(row))
        if whole is not None and whole.cards and allocation is not None:
            if any(card.tags for card in allocation.cards):
                self._number_apart()
            count_cards(columns, row, slots, allocation, sign, held_back)
        if native != NONE:
            hold_back_cards(columns, row, held_back)

    @property
    def _numbers_apart(self) -> bool:
        """Whether sets of tags have other numbers than below."""
        return self.columns.tag_sets is not self.below.columns.tag_sets

    def _number_apart(self) -> None:
        if not self._numbers_apart:
            self.columns.tag_sets = self.columns.tag_sets.copy()

    def _copy_all(self) -> None:
        below = self.below.columns
        self.columns = copy(below)
        self.columns.pods = self.pods
        for name in CHARGED_COLUMNS:
            setattr(self.columns, name, getattr(below, name).copy())
        self._pairs = [
            (getattr(self.columns, name), getattr(below, name)) for name in CHARGED_COLUMNS
        ]
        self._copied = below.free
        self._seen = self.below.changed.end
        self._touched.clear()
        self._native.clear()
        self.changed.add_all(np.arange(below.rows))
        for row in self._left_out:
            self._leave_out(row)

    def _copy(self, rows: Mapping[int, None]) -> None:
        if self._numbers_apart:
            rows = {**rows, **dict.fromkeys(self._left_out)}
        for name in _SHARED:
            setattr(self.columns, name, getattr(self.below.columns, name))
        if len(rows) <= _FEW:
            for own, theirs in self._pairs:
                for row in rows:
                    own[row] = theirs[row]
        else:
            index = np.fromiter(rows, np.int64, len(rows))
            for own, theirs in self._pairs:
                own[index] = theirs.take(index, 0)
        self.changed.add_all(np.fromiter(rows, np.int64, len(rows)))
        self._touched.clear()
        for row in rows:
            self._native.pop(row, None)
            if row in self._left_out:
                self._leave_out(row)

    def _leave_out(self, row: int) -> None:
        """Remove the reservations that are left out of a row, which was copied just now."""
        for charge in self._left_out[row]:
            slots, allocation = with_slots(self.columns, row, charge.allocation)
            if allocation is not None:
                count_reservation(self.columns, row, slots, allocation, -1)
            self._count(row, charge, -1, slots, allocation)
