"""One JSON line per decision on standard error, and everything else that is logged likewise."""

import json
import logging
import sys
import time
from typing import assert_never

from kubeshare_py.domain.effects import (
    Bind,
    Effect,
    ReportOvercommit,
    ReportScheduled,
    ReportTrouble,
    ReportWaiting,
)

_log = logging.getLogger("kubeshare.decisions")


class _Lines(logging.Formatter):
    """A record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """Render it, with the fields given as `extra={"fields": …}`."""
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def set_up(level: str = "info") -> None:
    """Send the process's log to standard error as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def warn(event: str, **fields: object) -> None:
    """Log something that an operator should look at."""
    _log.warning(event, extra={"fields": fields})


def inform(event: str, **fields: object) -> None:
    """Log something that happens once in a while."""
    _log.info(event, extra={"fields": fields})


def decided(effect: Effect, **about: object) -> None:
    """Log what was decided about a pod; `about` are further fields (profile, cycle, duration)."""
    match effect:
        case Bind():
            fields = {
                "node": effect.node,
                "cards": [card.uuid for card in effect.allocation.cards],
                "token": effect.allocation.token,
            }
            _line("bind", effect, {**fields, **about})
        case ReportWaiting():
            _line("waiting", effect, {"reason": effect.diagnosis.message, **about})
        case ReportScheduled():
            _line("bound", effect, {"node": effect.node, **about})
        case ReportTrouble():
            pod = {"pod": str(effect.key), "uid": effect.uid}
            warn("trouble", **pod, reason=effect.trouble, message=effect.note, **about)
        case ReportOvercommit():
            event, log = ("overcommit", warn) if effect.is_over else ("overcommit ended", inform)
            log(event, node=effect.node, card=effect.uuid, message=effect.note, **about)
        case _:
            assert_never(effect)


def _line(
    event: str, effect: Bind | ReportWaiting | ReportScheduled, fields: dict[str, object]
) -> None:
    _log.info(event, extra={"fields": {"pod": str(effect.key), "uid": effect.uid, **fields}})
