"""Which devices may be used from each row of the tables, as numbers of the device table.

A row is looked at again when its node, its cards or slices that concern it changed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.changes import ChangeLog
from kubeshare_py.cluster.cluster_objects import ClusterObjects
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.pod import NodeTerm

#: Which of k asked rows satisfy node selector terms, (k,) bool, by the terms.
TermFlags = Mapping[tuple[NodeTerm, ...], NDArray[np.bool_]]
#: More selectors than this are judged anew for every question.
_MAX_SELECTORS = 62


@dataclass(frozen=True, slots=True)
class NumberedDevices:
    """Devices of k rows. A row has as many as it has; the rest of `width` is -1.

    `numbers` are those of the device table, (k, width). `slots` are the card slots of the row that
    a device is, nearly always one, (cards, k, width), -1 for none. `unusable` is a number for the
    row's pools that are left out, (k,): equal for equal sentences, 0 for none.
    """

    numbers: NDArray[np.int64]
    slots: NDArray[np.int64]
    unusable: NDArray[np.int64]


class RowDevices:
    """Follows slices, nodes and cards when it is asked. Rows are those of the tables."""

    def __init__(
        self,
        objects: ClusterObjects,
        names: Sequence[NodeName | None],
        row_of: Mapping[NodeName, int],
        uuids: Sequence[Sequence[GpuUuid]],
    ) -> None:
        """`names`, `row_of` and `uuids` are the tables', which change in place."""
        self._objects, self._names, self._row_of, self._uuids = objects, names, row_of, uuids
        #: Rows that got another node or other cards.
        self.renamed = ChangeLog()
        self._seen = 0
        self._epoch = -1
        self._unusable_codes: dict[tuple[str, ...], int] = {(): 0}
        self._clear(0, 1)

    def _clear(self, rows: int, width: int) -> None:
        self._numbers = np.full((rows, width), -1)
        self._slots = np.full((1, rows, width), -1)
        self._unusable = np.zeros(rows, np.int64)
        self._pattern = np.zeros(rows, np.int64)
        self._stale = np.ones(rows, np.bool_)

    def of(self, index: NDArray[np.int64], terms: TermFlags) -> NumberedDevices:
        """The devices of these rows, (k,), for which node selectors of slices hold or not."""
        self._follow()
        pattern = np.zeros(len(index), np.int64)
        if len(terms) > _MAX_SELECTORS:
            self._stale[index] = True
        else:
            for at, flags in enumerate(terms.values()):
                pattern |= flags.astype(np.int64) << at
        for position in np.flatnonzero(
            # (k,): rows that changed, or whose node now matches other selectors of slices.
            self._stale[index] | (self._pattern[index] != pattern)
        ).tolist():
            self._look(index.item(position), position, terms)
            self._pattern[index[position]] = pattern[position]
        # The most devices of an asked row: others of the cluster may have many more, and each would
        # cost a column of -1 in all that follows.
        used = int((self._numbers[index] >= 0).sum(axis=1).max(initial=1))
        return NumberedDevices(
            self._numbers[index, :used], self._slots[:, index, :used], self._unusable[index]
        )

    def _follow(self) -> None:
        """Mark what changed since the last question."""
        changed = self._objects.device_pools.take_changed()
        renamed = self.renamed.since(self._seen, len(self._names))
        self._seen = self.renamed.end
        table, rows = self._objects.device_table, len(self._names)
        if changed is None or renamed is None or self._epoch != table.epoch:
            self._epoch = table.epoch
            self._clear(rows, self._numbers.shape[1])
            return
        if rows > len(self._stale):
            self._clear(rows, self._numbers.shape[1])
        self._stale[renamed] = True
        for name in changed:
            row = self._row_of.get(name)
            if row is not None:
                self._stale[row] = True

    def _look(self, row: int, position: int, terms: TermFlags) -> None:
        """Find the devices of a row anew, which is at this position of the asked ones."""
        self._stale[row] = False
        self._numbers[row] = self._slots[:, row] = -1
        name = self._names[row]
        if name is None:
            return
        table = self._objects.device_table
        found = self._objects.device_pools.on(
            name, lambda asked: bool(terms[tuple(asked)][position])
        )
        self._unusable[row] = self._unusable_codes.setdefault(
            found.unusable, len(self._unusable_codes)
        )
        if len(found.devices) > self._numbers.shape[1]:
            more = len(found.devices) - self._numbers.shape[1]
            self._numbers = np.pad(self._numbers, ((0, 0), (0, more)), constant_values=-1)
            self._slots = np.pad(self._slots, ((0, 0), (0, 0), (0, more)), constant_values=-1)
        slots = {uuid: slot for slot, uuid in enumerate(self._uuids[row])}
        for at, one in enumerate(found.devices):
            self._numbers[row, at] = table.first_number(one.slice) + one.position
            here = [slots[uuid] for uuid in one.device.cards() if uuid in slots]
            if len(here) > len(self._slots):
                more = len(here) - len(self._slots)
                self._slots = np.pad(self._slots, ((0, more), (0, 0), (0, 0)), constant_values=-1)
            self._slots[: len(here), row, at] = here
