"""Which devices satisfy CEL expressions: each is evaluated once for each device of a slice."""

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from kubeshare_py.devices.device_pools import PooledDevice
from kubeshare_py.domain.devices.device import ResourceSlice
from kubeshare_py.domain.devices.resource_claim import DeviceClass, DeviceRequest

if TYPE_CHECKING:
    from kubeshare_py.devices.expressions import DeviceExpression

#: Steps of expressions and of searches for one question; the rest is left to the next one.
STEPS = 500_000
#: The most slices whose verdicts are remembered.
_MAX_SLICES = 20_000


class CannotJudge(ValueError):
    """A claim cannot be allocated because of this selector, or not yet; the text says why."""


class DeviceVerdicts:
    """Verdicts on devices, and how many steps may still be spent on new ones."""

    def __init__(self, steps: int = STEPS) -> None:
        self._steps = steps
        self._of: dict[str, tuple[ResourceSlice, dict[str, list[bool | str | None]]]] = {}
        self._left = steps

    def begin(self) -> None:
        """A new question begins."""
        self._left = self._steps

    def spend(self, steps: int) -> None:
        """Take these steps. Raises CannotJudge if the question took too many."""
        self._left -= steps
        if self._left < 0:
            raise CannotJudge("its devices take long to choose: some nodes were not looked at yet")

    def satisfies(self, candidate: PooledDevice, request: DeviceRequest, of: DeviceClass) -> bool:
        """Whether a device satisfies the class and the request. Raises CannotJudge."""
        return self._all(candidate, of.selectors, f"device class {of.name}") and self._all(
            candidate, request.selectors, f"request {request.name}"
        )

    def _all(self, candidate: PooledDevice, expressions: Sequence[str], whose: str) -> bool:
        for number, expression in enumerate(expressions):
            verdict = self._verdict(candidate, expression)
            if isinstance(verdict, str):
                raise CannotJudge(f"{whose}, selector {number}: {verdict}")
            if not verdict:
                return False
        return True

    def _verdict(self, candidate: PooledDevice, expression: str) -> bool | str:
        known = self._of.get(candidate.slice.name)
        if known is None or known[0] is not candidate.slice:
            if len(self._of) >= _MAX_SLICES:
                self._of.clear()
            known = self._of[candidate.slice.name] = (candidate.slice, {})
        verdicts = known[1].get(expression)
        if verdicts is None:
            verdicts = known[1][expression] = [None] * len(candidate.slice.devices)
        verdict = verdicts[candidate.position]
        if verdict is None:
            verdict = verdicts[candidate.position] = self._evaluated(candidate, expression)
        return verdict

    def _evaluated(self, candidate: PooledDevice, expression: str) -> bool | str:
        compiled = _compiled(expression)
        if isinstance(compiled, str):
            return compiled
        self.spend(compiled.steps)
        try:
            return compiled.matches(candidate.key.driver, candidate.device)
        except ValueError as error:  # an EvaluationError, of a module that is not imported here
            return f"device {candidate.key}: {error}"


def _compiled(expression: str) -> "DeviceExpression | str":
    """The expression, or what is not supported in it.

    The module with cel-python is imported by the first expression: it takes 0.2 s and 15 MB that
    clusters without claims need not spend.
    """
    expressions = import_module("kubeshare_py.devices.expressions")
    try:
        found: DeviceExpression = expressions.compiled(expression)
    except ValueError as error:
        return f"not supported in CEL: {error}"
    return found
