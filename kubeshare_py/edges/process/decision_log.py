"""One JSON line per decision on standard error, and other log records likewise.

Decisions are many, so they do not go through `logging`, which costs ten times as much as the line.
"""

import dataclasses
import json
import logging
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from typing import assert_never

import msgspec

from kubeshare_py.domain.effects import (
    AnswerBind,
    Bind,
    CardChange,
    Effect,
    Evict,
    Lingers,
    LogPluginFailure,
    Nominate,
    Overuse,
    Preempt,
    ReportCardChange,
    ReportOvercommit,
    ReportPodWarning,
    ReportScheduled,
    ReportWaiting,
    WriteObject,
)
from kubeshare_py.domain.storage import ObjectWrite

_log = logging.getLogger("kubeshare.decisions")
_OVERUSE = {
    Overuse.AMOUNT: "overcommit",
    Overuse.EXCLUSIVITY: "broken exclusivity",
    Overuse.PORT: "shared port",
    Overuse.CLAIM: "disputed cards",
    Overuse.AGENT: "unusable node agent",
}
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


def decided(effect: Effect, **about: object) -> None:
    """Log a decision about a pod; `about` are further fields (profile, cycle, duration)."""
    match effect:
        case Bind():
            _line("bind", effect, {**_placement(effect), **about})
        case Evict():
            pod = {"pod": str(effect.key), "uid": effect.uid}
            warn("evict", **pod, reason=effect.reason, message=effect.message, **about)
        case Nominate():
            _line("nominate", effect, {"node": effect.node, "cards": effect.cards, **about})
        case Preempt():
            _preempt(effect, about)
        case ReportWaiting():
            _line("waiting", effect, {"reason": effect.diagnosis.message, **about})
        case ReportScheduled():
            # Not a decision: the API server stored the one that was logged.
            _line("bound", effect, {"node": effect.node, **about}, logging.DEBUG)
        case ReportPodWarning():
            pod = {"pod": str(effect.key), "uid": effect.uid}
            warn("pod warning", **pod, reason=effect.warning, message=effect.note, **about)
        case ReportOvercommit() | ReportCardChange():
            _of_node(effect, **about)
        case WriteObject() | AnswerBind() | Lingers() | LogPluginFailure():
            _for_the_log(effect, **about)
        case _:
            assert_never(effect)


def _fields_of(write: ObjectWrite) -> dict[str, str]:
    """The kind of a write, and its fields."""
    named = {one.name: getattr(write, one.name) for one in dataclasses.fields(write)}
    return {"write": type(write).__name__, **named}


def _placement(bind: Bind) -> dict[str, object]:
    """Node, cards and token; the cards of each container where they differ."""
    held = bind.allocation
    fields: dict[str, object] = {
        "node": bind.node,
        "cards": [card.uuid for card in held.cards],
        "token": held.token,
    }
    if held.claims:
        fields["containers"] = {
            str(part.container): [card.uuid for card in part.cards] for part in held.containers
        }
    return fields


def _for_the_log(
    effect: WriteObject | AnswerBind | Lingers | LogPluginFailure, **about: object
) -> None:
    if isinstance(effect, AnswerBind):
        answer = {"node": effect.node, "reason": effect.problem, **about}
        _line("extender", effect, answer, logging.INFO if effect.problem else logging.DEBUG)
        return
    if isinstance(effect, WriteObject):
        _line("write", effect, {"object": _fields_of(effect.write), **about})
        return
    if isinstance(effect, Lingers):
        held = {"node": effect.node, "cards": effect.cards, "for_s": round(effect.for_s, 3)}
        warn("forced deletion", pod=str(effect.key), uid=effect.uid, **held, **about)
        return
    warn(
        "plugin failed",
        plugin=effect.plugin,
        extension_point=effect.extension_point,
        message=effect.message,
        times=effect.times,
        traceback=effect.traceback,
        **about,
    )


def _of_node(effect: ReportOvercommit | ReportCardChange, **about: object) -> None:
    if isinstance(effect, ReportCardChange):
        is_bad = effect.change in (CardChange.FAILED, CardChange.VANISHED)
        pods = [str(key) for key, _ in effect.pods]
        held = {"change": effect.change, "card": effect.uuid, "message": effect.card, "pods": pods}
        (warn if is_bad else inform)("card", node=effect.node, **held, **about)
        return
    event, log = _OVERUSE[effect.kind], warn
    if not effect.is_over:
        event, log = f"{event} ended", inform
    which = {"card": effect.uuid} if effect.port is None else {"port": effect.port}
    log(event, node=effect.node, **which, message=effect.note, **about)


def _preempt(effect: Preempt, about: dict[str, object]) -> None:
    plan = effect.plan
    fields: dict[str, object] = {
        "victims": [str(victim.key) for victim in plan.victims],
        "victim_uids": [victim.uid for victim in plan.victims],
        "violations": plan.violations,
        **about,
    }
    if plan.victims:
        warn("preempt", pod=str(effect.key), uid=effect.uid, **fields)
    else:
        _line("preempt", effect, fields)


def _line(
    event: str,
    effect: (
        Bind | WriteObject | Nominate | Preempt | AnswerBind | ReportWaiting | ReportScheduled
    ),
    fields: dict[str, object],
    level: int = logging.INFO,
) -> None:
    if _log.isEnabledFor(level):
        line = {
            "time": _stamp(time.time()),
            "level": logging.getLevelName(level).lower(),
            "event": event,
            "pod": str(effect.key),
            "uid": effect.uid,
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
