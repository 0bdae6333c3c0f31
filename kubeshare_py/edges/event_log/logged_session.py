"""One session of an event log while it is read for a replay, and the report that grows with it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kubeshare_py.edges.event_log.log_folder import DamagedFile, Session, UnusableLog, sessions
from kubeshare_py.edges.process.own_version import own_version
from kubeshare_py.event_log.event_words import event_in_words
from kubeshare_py.event_log.moments import LogClock
from kubeshare_py.event_log.records import LoggedEvent, LogHeader
from kubeshare_py.event_log.replay import PlayedEvent
from kubeshare_py.event_log.replay_report import MAX_SHOWN, Difference, ReplayReport

#: Events between two calls of `progress`.
EVERY = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """The folder of a log, and what of it is read.

    Without `session` the last one; without `until` all of it. While a long log is read,
    `progress` gets a line for each EVERY events.
    """

    folder: Path
    session: str = ""
    until: str = ""
    progress: Callable[[str], object] = lambda line: None


class LoggedSession:
    """One session being read; its report grows with it."""

    def __init__(self, settings: ReplaySettings) -> None:
        """Raises UnusableLog, and ValueError for a wrong `until`."""
        self._settings = settings
        session = _chosen(settings)
        self._records = session.records()
        try:
            first = next(self._records)
        except DamagedFile as error:
            raise UnusableLog(str(error)) from error
        assert isinstance(first, LogHeader)
        self.header, self.clock = first, LogClock.of(first)
        self._last = self.clock.moment(settings.until) if settings.until else None
        self.report = ReplayReport(
            session=session.name, version=first.version, is_snapshot=first.is_snapshot
        )
        self.report.began = self.report.ended = self.clock.text(first.now)
        self.report.notes += _notes(first)

    def events(self) -> Iterator[LoggedEvent]:
        """The events until the end; damage is put into the report."""
        report = self.report
        try:
            for one in self._records:
                assert isinstance(one, LoggedEvent)
                if self._last is not None and one.now > self._last:
                    return
                report.events += 1
                report.ended = self.clock.text(one.now)
                if report.events % EVERY == 0:
                    self._settings.progress(f"{report.events} events, at {report.ended}")
                yield one
        except DamagedFile as error:
            report.damage = str(error)

    def compare(self, played: PlayedEvent) -> None:
        """Note in the report whether the effects are those of the log."""
        report = self.report
        if played.is_same:
            return
        report.differing += 1
        if len(report.differences) < MAX_SHOWN:
            time, event = self.clock.text(played.now), event_in_words(played.event)
            report.differences.append(Difference(report.events, time, event, played.difference))


def _chosen(settings: ReplaySettings) -> Session:
    """The session by its name, else the last one. Raises UnusableLog."""
    found = sessions(settings.folder)
    named = [one for one in found if one.name == settings.session] if settings.session else found
    if not named:
        there = ", ".join(one.name for one in found)
        raise UnusableLog(f"{settings.folder}: no session {settings.session}; there are {there}")
    return named[-1]


def _notes(header: LogHeader) -> Iterator[str]:
    """What to know before reading differences."""
    if header.is_snapshot:
        yield (
            "the session begins with what was known then: attempts, backoffs and reservations "
            "under way are missing, so effects may differ"
        )
    if header.version != own_version():
        yield f"it was written by version {header.version}, and this is {own_version()}"
