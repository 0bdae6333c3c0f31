"""Which devices satisfy CEL expressions: each is evaluated once for devices that it finds alike.

An expression reads some parts of a device. Another device whose parts have the same values gets the
same verdict.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from kubeshare_py.devices.device_pools import PooledDevice
from kubeshare_py.devices.device_reads import DeviceRead, ReadValue
from kubeshare_py.domain.devices.device import Device
from kubeshare_py.domain.devices.resource_claim import DeviceClass, DeviceRequest
from kubeshare_py.domain.remembered import MAX_BYTES, weight_of

if TYPE_CHECKING:
    from kubeshare_py.devices.expressions import DeviceExpression

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
