"""The folder of an event log: a folder for each session, and numbered files in it.

A session is what one process wrote without a gap. Nothing else in the folder is touched.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kubeshare_py.edges.process.own_names import own_version
from kubeshare_py.event_log.blocks import DamagedLog, records_in
from kubeshare_py.event_log.event_words import event_in_words
from kubeshare_py.event_log.records import (
    BadRecord,
    LogClock,
    LoggedEvent,
    LogHeader,
    RecordReader,
    moment_of,
)
from kubeshare_py.event_log.replay import (
    MAX_SHOWN,
    Difference,
    ListedSession,
    PlayedEvent,
    ReplayReport,
)

SUFFIX = ".events"
#: The time (UTC) at which a session began, and its name.
_SESSION = re.compile(r"\d{8}T\d{6}Z-[A-Za-z0-9._-]+")
_FILE = re.compile(r"\d{6}" + re.escape(SUFFIX))
_CHUNK = 256 * 1024


class UnusableLog(Exception):
    """There is nothing to be read; the text begins with the path."""


@dataclass(frozen=True, slots=True)
class Session:
    """The files of one session, in the order in which they were written."""

    folder: Path
    files: tuple[Path, ...]

    @property
    def name(self) -> str:
        """Its folder's name."""
        return self.folder.name

    @property
    def size(self) -> int:
        """Its size in bytes; files that are gone meanwhile count nothing."""
        return sum(_size(file) for file in self.files)

    @property
    def written_at(self) -> float:
        """When its last file was written to (s since 1970); 0 if that is gone."""
        try:
            return self.files[-1].stat().st_mtime
        except OSError:
            return 0.0

    def span(self) -> tuple[LogHeader, float]:
        """The session's header, and the machine's time (s) of its last event that can be read.

        Unpacks the last file, and reads one record of it. Raises DamagedFile without a header.
        """
        first, _ = _opened(self.files[0])
        return first, _last_moment(self.files[-1])

    def times_ms(self) -> tuple[LogHeader, int, int]:
        """The header, and from when to when (ms since 1970) it is. Raises as `span` does."""
        header, last = self.span()
        clock = LogClock.of(header)
        return header, clock.ms(header.now), clock.ms(last)

    def drop(self) -> None:
        """Delete its files, and its folder if nothing else is in it. Raises OSError."""
        for file in self.files:
            file.unlink(missing_ok=True)
        if not any(self.folder.iterdir()):
            self.folder.rmdir()

    def records(self) -> Iterator[LogHeader | LoggedEvent]:
        """The first file's header, then all events.

        Raises DamagedFile where the rest cannot be used, and UnusableLog if that is everything.
        """
        first: LogHeader | None = None
        for number, file in enumerate(self.files):
            header, events = _opened(file)
            if header.file != number or (first and header.session != first.session):
                raise DamagedFile(file, DamagedLog(0, f"file {number} of the session is missing"))
            if first is None:
                yield (first := header)
            yield from events


class DamagedFile(Exception):
    """A file cannot be used from some byte on."""

    def __init__(self, path: Path, damage: DamagedLog) -> None:
        self.path, self.damage = path, damage
        super().__init__(f"{path}: {damage}")


def sessions(folder: Path) -> list[Session]:
    """The sessions in a folder, the oldest first; or the folder itself, if it is one.

    Raises UnusableLog if there is none.
    """
    try:
        found = [one for one in map(_session, [folder, *folder.iterdir()]) if one.files]
    except OSError as error:
        raise UnusableLog(f"{folder}: {error.strerror}") from error
    if not found:
        raise UnusableLog(f"{folder}: there is no event log in it")
    return sorted(found, key=lambda one: one.name)


def listed(folder: Path) -> Iterator[ListedSession]:
    """What `--list` says of each session, the oldest first. Raises UnusableLog if there is none."""
    for one in sessions(folder):
        try:
            header, last = one.span()
        except DamagedFile as error:
            yield ListedSession(session=one.name, size_bytes=one.size, damage=str(error))
            continue
        clock = LogClock.of(header)
        yield ListedSession(
            session=one.name,
            size_bytes=one.size,
            began=clock.text(header.now),
            ended=clock.text(last),
            lasted_s=clock.since_s(last),
        )


def _session(folder: Path) -> Session:
    if not _SESSION.fullmatch(folder.name) or not folder.is_dir():
        return Session(folder, ())
    files = sorted(file for file in folder.iterdir() if _FILE.fullmatch(file.name))
    return Session(folder, tuple(files))


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _opened(file: Path) -> tuple[LogHeader, Iterator[LoggedEvent]]:
    """A file's header and events; both raise DamagedFile."""
    records = _read(file)
    header = next(records, None)
    if not isinstance(header, LogHeader):
        raise DamagedFile(file, DamagedLog(0, "it does not begin with a header"))
    return header, (one for one in records if isinstance(one, LoggedEvent))


def _last_moment(file: Path) -> float:
    """When the last event of a file was, as far as it can be read. Raises DamagedFile."""
    header, _ = _opened(file)
    last = b""
    # A process that was killed leaves half a block behind: the session ends before that.
    with suppress(DamagedLog, OSError), file.open("rb") as stream:
        for _, body in records_in(iter(lambda: stream.read(_CHUNK), b"")):
            last = body
    try:
        return moment_of(last)
    except BadRecord:
        return header.now


def _read(file: Path) -> Iterator[LogHeader | LoggedEvent]:
    reader = RecordReader()
    try:
        with file.open("rb") as stream:
            for at, body in records_in(iter(lambda: stream.read(_CHUNK), b"")):
                try:
                    yield reader.read(body)
                except BadRecord as error:
                    raise DamagedFile(file, DamagedLog(at, str(error))) from error
    except DamagedLog as damage:
        raise DamagedFile(file, damage) from damage
    except OSError as error:
        raise DamagedFile(file, DamagedLog(0, error.strerror or str(error))) from error


# One session of an event log while it is read for a replay, and the report that grows with it.


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
            report.differences.append(
                Difference(
                    number=report.events,
                    time=self.clock.text(played.now),
                    since_start_s=self.clock.since_s(played.now),
                    event=event_in_words(played.event),
                    difference=played.difference,
                )
            )


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
