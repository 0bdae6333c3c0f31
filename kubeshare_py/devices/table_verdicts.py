"""Which devices of a table satisfy the selectors of requests: evaluated once for devices alike."""

from collections.abc import Sequence

import numpy as np

from kubeshare_py.devices.alike import Numbers, alike
from kubeshare_py.devices.device_reads import DeviceRead
from kubeshare_py.devices.device_table import DeviceFlags, DeviceTable
from kubeshare_py.devices.device_verdicts import CannotJudge, DeviceVerdicts
from kubeshare_py.domain.remembered import MAX_BYTES, weight_of

#: Verdicts by number: not evaluated yet, no, yes; from `_ERRORS` on, that cannot be said.
UNKNOWN, NO, YES, _ERRORS = 0, 1, 2, 3
#: The most expressions whose verdicts on all devices are remembered, unless one question has more.
_MAX_EXPRESSIONS = 128


class TableVerdicts:
    """Verdicts on all devices of a table; those on another table's devices are forgotten then."""

    def __init__(self, verdicts: DeviceVerdicts) -> None:
        self._verdicts = verdicts
        self._of: dict[str, Numbers] = {}
        self._table: DeviceTable | None = None
        self._epoch = -1
        #: A number for each sentence in `_of`, and the size (bytes) of all. They quote expressions.
        self._sentences: dict[str, int] = {}
        self._bytes = 0

    def all_of(self, table: DeviceTable, expressions: Sequence[str]) -> Numbers:
        """The verdict of the first expression that a device does not satisfy, (devices,), or YES.

        Equal numbers are equal verdicts. Later expressions are evaluated for devices that satisfy
        those before.
        """
        self._make_room(table, len(expressions))
        found = np.full(len(table.devices), YES)
        for expression in expressions:
            still = found == YES
            found = np.where(still, self._one(table, expression, still), found)
        return found

    def _make_room(self, table: DeviceTable, more: int) -> None:
        """Drop all if the table is another one, or if it is too much with `more` expressions.

        Numbers stand for sentences only in answers to one question, so all may go between two.
        """
        is_another = self._table is not table or self._epoch != table.epoch
        if is_another or len(self._of) + more > _MAX_EXPRESSIONS or self._bytes > MAX_BYTES:
            self._of.clear()
            self._sentences.clear()
            self._bytes = 0
            self._table, self._epoch = table, table.epoch

    def _one(self, table: DeviceTable, expression: str, wanted: DeviceFlags) -> Numbers:
        known, count = self._of.get(expression), len(table.devices)
        if known is None or len(known) < count:
            before = 0 if known is None else len(known)
            more = np.full(count - before, UNKNOWN)
            known = more if known is None else np.concatenate((known, more))
            self._of[expression] = known
        missing = np.flatnonzero(wanted & (known == UNKNOWN))
        if len(missing):
            self._fill(table, expression, known, missing)
        return known

    def _fill(self, table: DeviceTable, expression: str, known: Numbers, missing: Numbers) -> None:
        """Evaluate an expression for these devices, as far as the question's steps go."""
        reads: dict[DeviceRead, None] = {}
        done = False
        while not done:
            columns = [table.column(read)[missing] for read in reads]
            firsts, groups = alike(columns, len(missing))
            values = np.full(len(firsts), UNKNOWN)
            done = True
            for group, first in enumerate(firsts.tolist()):
                one = table.devices[missing[first]]
                try:
                    verdict, by = self._verdicts.verdict(expression, one.key.driver, one.device)
                except CannotJudge:
                    break
                if not reads.keys() >= {*by}:
                    reads.update(dict.fromkeys(by))
                    done = False
                    break
                values[group] = self._number(verdict)
        known[missing] = values[groups]

    def _number(self, verdict: bool | str) -> int:
        if isinstance(verdict, str):
            if verdict not in self._sentences:
                self._bytes += weight_of(verdict)
            return _ERRORS + self._sentences.setdefault(verdict, len(self._sentences))
        return YES if verdict else NO
