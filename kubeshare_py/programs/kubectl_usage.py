"""`kubectl kubeshare usage`: card-seconds and byte-seconds held, from a copy of the event log.

The cluster is not asked. All sessions in the folder are one history (`event_log/usage`), so that
restarts and changes of the leader neither lose nor count anything twice.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Raw
from rich.console import Console
from rich.text import Text

from kubeshare_py.edges.event_log.held_log import SHORT_MS, HeldLog, gap_notes, time_of
from kubeshare_py.edges.event_log.log_folder import UnusableLog
from kubeshare_py.event_log.usage import (
    HeldHistory,
    HeldSum,
    LogGap,
    columns_of,
    total,
    usage,
)
from kubeshare_py.terminal.documents import complain, written
from kubeshare_py.terminal.grid import NONE, GridColumn, Row, grid

OK, UNUSABLE = 0, 2
_MS, _HOUR_S, _GIB = 1000, 3600, 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageQuestion:
    """What was held by the words of `by` (`event_log/usage`), by the log in the folder `log`.

    Between `since` and `until`: times of RFC 3339. `last_s` in place of `since` are so many seconds
    before `until`. Without them, from the beginning of the log and until its end. With a
    `namespace`, by its pods alone. `output` is table, json or csv.
    """

    log: str
    by: tuple[str, ...] = ("namespace",)
    since: str = ""
    last_s: float = 0.0
    until: str = ""
    namespace: str = ""
    output: str = "table"
    no_headers: bool = False


def run(question: UsageQuestion) -> int:
    """Answer on stdout; failures, and what is not known, on stderr; the exit code."""
    return answer(question, Console(), Console(stderr=True))


def answer(question: UsageQuestion, out: Console, err: Console) -> int:
    """0 done, 2 if a time cannot be read or the log cannot be used."""
    try:
        found = _usage(question)
    except UnusableLog as error:
        complain(err, str(error))
        return UNUSABLE
    for note in found.notes:
        complain(err, note, "Note")
    if question.output == "json":
        out.file.write(written(_document(found), "json"))
    elif question.output == "csv":
        write = csv.writer(out.file, lineterminator="\n").writerow
        if not question.no_headers:
            write([*found.columns, "card_seconds", "byte_seconds", "pods"])
        for values, held in found.rows.items():
            write([*values, f"{held.card_seconds:f}", f"{held.byte_seconds:f}", len(held.uids)])
    else:
        width = out.width if out.is_terminal else None
        for line in _table(found, width)[1 if question.no_headers else 0 :]:
            out.print(line, soft_wrap=True)
    return OK


# Reading the log.


@dataclass(frozen=True, slots=True)
class _Usage:
    """Sums by the values of `columns`, between which times (ms), and what is not known."""

    columns: Sequence[str]
    rows: dict[tuple[str, ...], HeldSum]
    from_ms: int
    to_ms: int
    gaps: Sequence[LogGap]
    notes: Sequence[str]


def _usage(question: UsageQuestion) -> _Usage:
    """Raises UnusableLog."""
    log = HeldLog(Path(question.log))
    to_ms = _moment(question.until, "--until") or log.end_ms
    from_ms = _moment(question.since, "--since")
    if question.last_s:
        from_ms = to_ms - round(question.last_s * _MS)
    history = HeldHistory()
    held = log.intervals(history, from_ms, to_ms)
    columns = columns_of(question.by)
    rows = usage(held, columns, from_ms, to_ms, question.namespace)
    begin_ms, end_ms = history.begin_ms, history.end_ms
    if begin_ms is None or end_ms is None:
        raise UnusableLog(f"{question.log}: no session saw all pods and nodes before it ended")
    gaps = [one for one in history.gaps if one.begin_ms < to_ms and one.end_ms > from_ms]
    return _Usage(
        columns,
        rows,
        max(from_ms, begin_ms),
        min(to_ms, end_ms),
        gaps,
        [*_notes(question, (from_ms, to_ms), (begin_ms, end_ms)), *gap_notes(gaps), *log.damage],
    )


def _moment(text: str, option: str) -> int:
    """A time as milliseconds since 1970, 0 for ""; without a zone it is UTC.

    Raises UnusableLog.
    """
    if not text:
        return 0
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UnusableLog(f"{option}: {error}") from error
    return round((moment.replace(tzinfo=moment.tzinfo or UTC)).timestamp() * _MS)


# What is not known, in sentences.


def _notes(
    question: UsageQuestion, asked: tuple[int, int], known: tuple[int, int]
) -> Iterator[str]:
    (from_ms, to_ms), (begin_ms, end_ms) = asked, known
    if (question.since or question.last_s) and begin_ms - from_ms >= SHORT_MS:
        yield f"the log begins at {time_of(begin_ms)}: nothing before that counts"
    if question.until and to_ms - end_ms >= SHORT_MS:
        yield f"the log ends at {time_of(end_ms)}: nothing after that counts"


# The forms of the answer.


def _document(found: _Usage) -> dict[str, Any]:
    return {
        "from": time_of(found.from_ms),
        "to": time_of(found.to_ms),
        "usage": [
            {**dict(zip(found.columns, values, strict=True)), **_sums(held)}
            for values, held in found.rows.items()
        ],
        "total": _sums(total(found.rows.values())),
        "gaps": [
            {
                "from": time_of(one.begin_ms),
                "to": time_of(one.end_ms),
                "pods_ended": one.ended,
                "pods_began": one.began,
                "at_most": _seconds(HeldSum(one.milli_ms, one.byte_ms)),
            }
            for one in found.gaps
        ],
        "notes": list(found.notes),
    }


def _sums(held: HeldSum) -> dict[str, Any]:
    return {**_seconds(held), "pods": len(held.uids)}


def _seconds(held: HeldSum) -> dict[str, Raw]:
    """As numbers with all their digits."""
    return {
        "card_seconds": Raw(f"{held.card_seconds:f}".encode()),
        "byte_seconds": Raw(f"{held.byte_seconds:f}".encode()),
    }


def _table(found: _Usage, width: int | None) -> list[Text]:
    """In hours, as bills are; the total last."""
    columns = [GridColumn(header=name.upper(), least=12) for name in found.columns]
    columns += [GridColumn(header=name, right=True) for name in ("CARD-HOURS", "GIB-HOURS", "PODS")]
    rows = [
        Row(cells=[*(value or NONE for value in values), *_hours(held)])
        for values, held in found.rows.items()
    ]
    blank = [""] * (len(found.columns) - 1)
    rows.append(Row(cells=["TOTAL", *blank, *_hours(total(found.rows.values()))], style="bold"))
    return grid(columns, rows, width)


def _hours(held: HeldSum) -> tuple[str, str, str]:
    cards = held.card_seconds / _HOUR_S
    return f"{cards:.3f}", f"{held.byte_seconds / _GIB / _HOUR_S:.1f}", str(len(held.uids))
