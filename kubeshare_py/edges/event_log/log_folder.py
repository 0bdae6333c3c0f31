"""The folder of an event log: a folder for each session, and numbered files in it.

A session is what one process wrote without a gap. Nothing else in the folder is touched.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kubeshare_py.event_log.blocks import DamagedLog, records_in
from kubeshare_py.event_log.records import BadRecord, LoggedEvent, LogHeader, RecordReader

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
