"""Ages as `kubectl get` prints them: 119s, 9m59s, 179m, 7h59m, 3d2h, 3y4d."""

from datetime import datetime

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


def seconds(text: str) -> float:
    """The Unix time (s) of an RFC 3339 time; raises ValueError for anything else."""
    return datetime.fromisoformat(text).timestamp()


def age(text: str | None, now: float) -> str:
    """The age of an RFC 3339 time as `kubectl get` prints it; `now` is Unix time (s)."""
    if not text:
        return "<unknown>"
    return duration(now - seconds(text))


def duration(elapsed: float) -> str:
    """A duration of `elapsed` seconds, rounded in the same way."""
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
