"""One JSON line per decision on standard error, and other log records likewise.

Decisions are many, so they do not go through `logging`, which costs ten times as much as the line.
What the line of each effect says is in `edges.scheduler.decision_loop`.
"""

import json
import logging
import sys
import time
from collections.abc import Callable
from functools import lru_cache

import msgspec

from kubeshare_py.domain.identity import PodKey, PodUid

_log = logging.getLogger("kubeshare.decisions")
_encode = msgspec.json.Encoder().encode


class _Lines(logging.Formatter):
    """Formats a record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """Render a record, with the fields given as `extra={"fields": …}`."""
        line = {
            "time": _stamp(record.created),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return _plain(line)


def set_up(level: str = "info") -> None:
    """Send the process's log to standard error as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def warn(event: str, **fields: object) -> None:
    """Log something that an operator should look at."""
    _log.warning(event, extra={"fields": fields})


def inform(event: str, **fields: object) -> None:
    """Log something that happens occasionally."""
    _log.info(event, extra={"fields": fields})


def detail(event: str, **fields: object) -> None:
    """Log something that is useful only for debugging (`--log-level debug`)."""
    _log.debug(event, extra={"fields": fields})


def decision(
    event: str, pod: PodKey, uid: PodUid, fields: dict[str, object], level: int = logging.INFO
) -> None:
    """Log a line about a pod, by a shorter way than that of `logging`."""
    if _log.isEnabledFor(level):
        line = {
            "time": _stamp(time.time()),
            "level": logging.getLevelName(level).lower(),
            "event": event,
            "pod": str(pod),
            "uid": uid,
            **fields,
        }
        sys.stderr.write(_plain(line) + "\n")


def _plain(line: dict[str, object]) -> str:
    """One line of JSON, in which characters that may control a terminal are escaped.

    JSON itself escapes only C0: not U+009B, by which escape sequences may begin, nor line
    separators and changes of the writing direction.
    """
    text = _encode(line).decode()
    if text.isascii():
        return text.replace("\x7f", "\\u007f")
    return "".join(one if one.isprintable() else _escaped(one) for one in text)


def _escaped(one: str) -> str:
    """The escape of JSON: a surrogate pair beyond the first 65,536 characters."""
    return json.dumps(one)[1:-1]


def _stamp(seconds: float) -> str:
    whole = int(seconds)
    return f"{_second(whole)}.{int((seconds - whole) * 1000):03d}Z"


@lru_cache(maxsize=2)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


# Limits how often repeated events are logged.


#: Seconds between two lines about the same key.
MINUTE_S = 60.0


class LogLimit:
    """Says when a line about a key is due: the first time, then after a minute at the earliest.

    Keys are few and fixed (paths, kinds of trouble): they are kept for ever.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` is in seconds, and never set."""
        self.clock = clock
        self._logged_at: dict[str, float] = {}

    def is_due(self, key: str) -> bool:
        """Whether to log it; if so, it counts as logged now."""
        now = self.clock()
        logged_at = self._logged_at.get(key)
        if logged_at is not None and now - logged_at < MINUTE_S:
            return False
        self._logged_at[key] = now
        return True

    def seen_lately(self, key: str) -> bool:
        """Whether this was called with the same key within the last minute."""
        now = self.clock()
        asked_at = self._logged_at.get(key)
        self._logged_at[key] = now
        return asked_at is not None and now - asked_at < MINUTE_S
