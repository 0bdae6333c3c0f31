"""Kubernetes timestamps and ages; `now` is always seconds since 1970."""

import re
from datetime import UTC, datetime

from kubeshare_py.simulation.api_status import Json

_MICRO = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)$")
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400
_ROUNDING = (  # below, unit, its letter, smaller unit shown with it (0: none), its letter
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
)


def timestamp(now: float) -> str:
    """`metav1.Time`: whole seconds, Z."""
    return datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(now: float) -> str:
    """`metav1.MicroTime`: six fractional digits."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def is_micro_time(text: object) -> bool:
    """Whether it has the six fractional digits that MicroTime insists on."""
    return isinstance(text, str) and _MICRO.match(text) is not None


def seconds(text: str) -> float:
    """Seconds since 1970 of either timestamp; raises ValueError for anything else."""
    return datetime.fromisoformat(text).timestamp()


def age(text: str | None, now: float) -> str:
    """`kubectl get`'s AGE of a timestamp: 119s, 9m59s, 179m, 7h59m, 47h, 3d2h, 729d, 3y4d."""
    if not text:
        return "<unknown>"
    return duration(now - seconds(text))


def duration(elapsed: float) -> str:
    """The same rounding for a number of seconds."""
    total = int(elapsed)
    if total < -1:
        return "<invalid>"
    total = max(total, 0)
    for below, large, large_unit, small, small_unit in _ROUNDING:
        if total < below:
            whole, rest = divmod(total, large)
            part = rest // small if small else 0
            return f"{whole}{large_unit}{part}{small_unit}" if part else f"{whole}{large_unit}"
    return f"{total // _YEAR}y"


def default_times(status: Json, seen: str) -> None:
    """Give conditions the times that nobody gave as null, as real servers do, in place.

    `seen` is the name of the time beside lastTransitionTime.
    """
    if status.get("conditions"):
        times: Json = {seen: None, "lastTransitionTime": None}
        status["conditions"] = [{**times, **one} for one in status["conditions"]]
