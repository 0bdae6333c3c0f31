"""The behaviour of a simulated pod, from its annotations."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

RUN_SECONDS = "kubeshare.sim/run-seconds"
EXIT_CODE = "kubeshare.sim/exit-code"
START_SECONDS = "kubeshare.sim/start-seconds"
STOP_SECONDS = "kubeshare.sim/stop-seconds"
#: Written by the simulated kubelet: each container's environment, as JSON.
ENVIRONMENT = "kubeshare.sim/env"

_HIGHEST_EXIT_CODE = 255


class PlanProblem(ValueError):
    """An annotation with a bad value; the text names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """Durations in seconds. `run_s` None: it runs until it is deleted.

    `start_s` is how long its containers take to be created, `stop_s` how long they take to end
    after a deletion, at most the pod's grace period.
    """

    run_s: float | None = None
    exit_code: int = 0
    start_s: float = 0.0
    stop_s: float = 0.0


def read_plan(annotations: Mapping[str, str] | None, stop_s: float = 0.0) -> RunPlan:
    """Read a pod's annotations; `stop_s` is the default. Raises PlanProblem."""
    found = annotations or {}
    stop = _seconds(found, STOP_SECONDS)
    return RunPlan(
        run_s=_seconds(found, RUN_SECONDS),
        exit_code=_exit_code(found),
        start_s=_seconds(found, START_SECONDS) or 0.0,
        stop_s=stop_s if stop is None else stop,
    )


def _seconds(annotations: Mapping[str, str], name: str) -> float | None:
    text = annotations.get(name)
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not (math.isfinite(value) and value >= 0):
        raise PlanProblem(f"annotation {name}: {text!r} is not a number of seconds")
    return value


def _exit_code(annotations: Mapping[str, str]) -> int:
    text = annotations.get(EXIT_CODE, "0")
    if not (text.isascii() and text.isdecimal() and int(text[:9]) <= _HIGHEST_EXIT_CODE):
        raise PlanProblem(f"annotation {EXIT_CODE}: {text!r} is not a number from 0 to 255")
    return int(text)
