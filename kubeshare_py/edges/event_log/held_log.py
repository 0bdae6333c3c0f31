"""What pods held, by all sessions in a folder as one history (`event_log/usage`)."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from kubeshare_py.edges.event_log.log_folder import DamagedFile, Session, UnusableLog, sessions
from kubeshare_py.event_log.records import LogClock, LoggedEvent, LogHeader
from kubeshare_py.event_log.usage import HeldHistory, HeldInterval, HeldSum, LogGap

_MS = 1000
#: Gaps shorter than this (ms), in which no pod began or ended, are not worth a sentence.
SHORT_MS = 1000


class _Span(NamedTuple):
    """A session with its header, and from when to when it is (ms since 1970)."""

    session: Session
    header: LogHeader
    begin_ms: int
    end_ms: int


class HeldLog:
    """The sessions of a folder. `damage` says what of them could not be read so far."""

    def __init__(self, folder: Path) -> None:
        """Raises UnusableLog if none can be read."""
        self.damage: list[str] = []
        self._spans = list(self._readable(sessions(folder)))
        if not self._spans:
            raise UnusableLog("; ".join(self.damage))
        #: When the last session ends (ms since 1970).
        self.end_ms = max(one.end_ms for one in self._spans)

    def size(self, from_ms: int, to_ms: int) -> int:
        """The bytes of the sessions that `intervals` reads."""
        return sum(one.session.size for one in self._needed(from_ms, to_ms))

    def intervals(self, history: HeldHistory, from_ms: int, to_ms: int) -> Iterator[HeldInterval]:
        """What was held between these times, and some that was not; nothing after them is read.

        `history` knows begin, end and gaps when all are taken.
        """
        for one in self._needed(from_ms, to_ms):
            yield from history.session(one.header, self._events(one, to_ms))
        yield from history.rest()

    def _readable(self, found: Iterable[Session]) -> Iterator[_Span]:
        for session in found:
            try:
                yield _Span(session, *session.times_ms())
            except DamagedFile as error:
                self.damage.append(str(error))

    def _needed(self, from_ms: int, to_ms: int) -> list[_Span]:
        """The sessions that say anything about this time.

        Of those that ended before it, the last one: what it knew at its end may have gone on.
        """
        last = max((one.end_ms for one in self._spans if one.end_ms < from_ms), default=from_ms)
        return [one for one in self._spans if one.end_ms >= last and one.begin_ms <= to_ms]

    def _events(self, span: _Span, to_ms: int) -> Iterator[LoggedEvent]:
        """The events of a session; one that is damaged ends there."""
        header = span.header
        last = header.now + (to_ms - span.begin_ms) / _MS
        try:
            for one in span.session.records():
                if isinstance(one, LoggedEvent):
                    yield one
                    if one.now > last:
                        return
        except DamagedFile as error:
            self.damage.append(str(error))


def gap_notes(gaps: Iterable[LogGap]) -> Iterator[str]:
    """A sentence about each gap that is worth one."""
    for one in gaps:
        if one.ended or one.began or one.end_ms - one.begin_ms >= SHORT_MS:
            yield _gap(one)


def _gap(gap: LogGap) -> str:
    cards = HeldSum(gap.milli_ms, gap.byte_ms).card_seconds
    said = f"no log from {time_of(gap.begin_ms)} to {time_of(gap.end_ms)}"
    if not (gap.ended or gap.began):
        return f"{said}: no pod is known to have begun or ended in it"
    return (
        f"{said}: {gap.ended} pods ended in it and {gap.began} began, which held up to "
        f"{cards:f} card-seconds more than is counted"
    )


def time_of(at_ms: int) -> str:
    """A time since 1970 as RFC 3339, in UTC."""
    return LogClock(0.0, 0.0).text(at_ms / _MS)
