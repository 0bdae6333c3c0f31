"""Which devices satisfy the CEL expressions of requests: one device, or all of a table at once."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from kubeshare_py.devices.device_pools import DeviceFlags, DeviceTable, Numbers, PooledDevice, alike
from kubeshare_py.devices.expression_values import DeviceRead, ReadValue
from kubeshare_py.domain.device import Device, DeviceClass, DeviceRequest, ResourceClaim
from kubeshare_py.domain.remembered import MAX_BYTES, weight_of

if TYPE_CHECKING:
    from kubeshare_py.devices.expressions import DeviceExpression


# Which devices satisfy CEL expressions: each is evaluated once for devices that it finds alike.
#
# An expression reads some parts of a device. Another device whose parts have the same values gets
# the same verdict.


#: Steps of expressions and of searches for one question, of about 0.4 µs each; the rest is left to
#: the next one. A question holds the scheduler's loop.
STEPS = 60_000
#: Steps to parse a character of an expression: one of the longest takes 45 ms, once. It is paid
#: for after it was done, so that any number of expressions is parsed within some questions.
PARSING = 75
#: The most bytes of the verdicts that are kept, with the expressions and what these read. An
#: expression that reads each device's own UUID has a verdict of some 500 bytes for each device.
MAX_KEPT = 4 * MAX_BYTES
_NOT_SUPPORTED = "not supported in CEL: "
Reads = tuple[DeviceRead, ...]
_ReadValues = tuple[ReadValue, ...]


class CannotJudge(ValueError):
    """A claim cannot be allocated because of this selector, or not yet; the text says why."""


class NotYet(CannotJudge):
    """The question took too many steps: it goes on when it is asked again."""


class DeviceVerdicts:
    """Verdicts on devices, and how many steps may still be spent on new ones."""

    def __init__(self, steps: int = STEPS) -> None:
        self._steps = steps
        #: By expression and by what it read of a device, the verdict for each value of that.
        self._known: dict[str, dict[Reads, dict[_ReadValues, bool | str]]] = {}
        self._bytes = 0
        self._left = steps

    def begin(self) -> None:
        """A new question begins."""
        self._left = self._steps

    @property
    def is_spent(self) -> bool:
        """Whether the question has no steps left."""
        return self._left <= 0

    @property
    def spent(self) -> int:
        """The steps that were taken since the question began."""
        return self._steps - self._left

    def spend(self, steps: int) -> None:
        """Take these steps. Raises NotYet if the question has none left."""
        if self._left <= 0:
            raise NotYet("its devices take long to choose: some nodes were not looked at yet")
        self._left -= steps

    def satisfies(self, candidate: PooledDevice, request: DeviceRequest, of: DeviceClass) -> bool:
        """Whether a device satisfies the class and the request. Raises CannotJudge."""
        return self._all(candidate, of.selectors, f"device class {of.name}") and self._all(
            candidate, request.selectors, f"request {request.name}"
        )

    def verdict(self, expression: str, driver: str, device: Device) -> tuple[bool | str, Reads]:
        """Whether a device satisfies an expression, or why that cannot be said.

        With it what the verdict depends on. Raises CannotJudge if the question took too long.
        """
        for reads, verdicts in self._known.get(expression, {}).items():
            found = verdicts.get(tuple([read.of(driver, device) for read in reads]))
            if found is not None:
                return found, reads
        return self._evaluated(expression, driver, device)

    def _all(self, candidate: PooledDevice, expressions: Sequence[str], whose: str) -> bool:
        for number, expression in enumerate(expressions):
            verdict, _ = self.verdict(expression, candidate.key.driver, candidate.device)
            if isinstance(verdict, str):
                where = "" if verdict.startswith(_NOT_SUPPORTED) else f"device {candidate.key}: "
                raise CannotJudge(f"{whose}, selector {number}: {where}{verdict}")
            if not verdict:
                return False
        return True

    def _evaluated(self, expression: str, driver: str, device: Device) -> tuple[bool | str, Reads]:
        self.spend(0)
        paid_after = 0 if expression in self._known else PARSING * len(expression)
        compiled = _compiled(expression)
        if isinstance(compiled, str):
            verdict: bool | str = compiled
            reads: Reads = ()
        else:
            verdict, reads, matching = compiled.judged(driver, device)
            paid_after += compiled.steps + matching
        self._left -= paid_after
        values = tuple([read.of(driver, device) for read in reads])
        self._keep(expression, reads, values, verdict)
        return verdict, reads

    def _keep(
        self, expression: str, reads: Reads, values: _ReadValues, verdict: bool | str
    ) -> None:
        """Keep a verdict; all are dropped before they weigh too much, as by `remembered`."""
        if self._bytes > MAX_KEPT:
            self._known.clear()
            self._bytes = 0
        self._bytes += weight_of((values, verdict))
        if expression not in self._known:
            self._bytes += weight_of(expression)
        by_reads = self._known.setdefault(expression, {})
        if reads not in by_reads:
            self._bytes += weight_of(reads)
        by_reads.setdefault(reads, {})[values] = verdict


def get_ready() -> None:
    """Import cel-python and make its parser, which takes half a second; later calls do nothing.

    Clusters without device classes need not spend that, nor the 15 MB: it is called when the first
    class is seen, on a thread, before any claim can be asked about.
    """
    _compiled("true")


def _compiled(expression: str) -> "DeviceExpression | str":
    """The expression, or what is not supported in it."""
    expressions = import_module("kubeshare_py.devices.expressions")
    try:
        found: DeviceExpression = expressions.compiled(expression)
    except ValueError as error:
        return f"{_NOT_SUPPORTED}{error}"
    return found


# Which devices of a table satisfy the selectors of requests: evaluated once for devices alike.


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


# Kinds of devices for some claims: devices of one kind are interchangeable in their search.


def device_kinds(
    claims: Sequence[ResourceClaim],
    classes: Mapping[str, DeviceClass],
    table: DeviceTable,
    known: TableVerdicts,
) -> tuple[Numbers, bool]:
    """The kind of each device, (devices,); 0 for devices that satisfy no request.

    With it whether all verdicts are yes or no: otherwise the order of devices decides too.
    """
    asked: dict[tuple[str, ...], None] = {}
    read: dict[DeviceRead, None] = {}
    for claim in claims:
        for one in (one for alternatives in claim.requests for one in alternatives):
            asked[(*classes[one.device_class].selectors, *one.selectors)] = None
        for constraint in claim.constraints:
            read[DeviceRead("attributes", constraint.domain, constraint.name)] = None
    verdicts = [known.all_of(table, expressions) for expressions in asked]
    concerned: DeviceFlags = np.zeros(len(table.devices), np.bool_)
    is_sure = True
    for verdict in verdicts:
        concerned |= verdict != NO
        is_sure &= bool(((verdict == NO) | (verdict == YES)).all())
    at = np.flatnonzero(concerned)
    columns = [*verdicts, table.held.astype(np.int64), table.states()]
    columns += [table.column(one) for one in read]
    _, groups = alike([column[at] for column in columns], len(at))
    kinds = np.zeros(len(table.devices), np.int64)
    kinds[at] = 1 + groups
    return kinds, is_sure
