"""The event log of a running scheduler: records are made at once, and written on a thread.

Nothing that goes wrong here holds up a decision. What cannot be written ends the session; a minute
later another one begins, with what is known then.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

import msgspec

from kubeshare_py.configuration.scheduler import SchedulerConfiguration
from kubeshare_py.domain.effects import Effect
from kubeshare_py.domain.events import InventoryRead, NodesListed, PodsListed
from kubeshare_py.edges.event_log.log_folder import SUFFIX, UnusableLog, sessions
from kubeshare_py.edges.process import decision_log
from kubeshare_py.event_log.blocks import MAGIC, BlockPacker
from kubeshare_py.event_log.records import LogHeader, event_record, header_record
from kubeshare_py.exporters.metric import EventLogTallies
from kubeshare_py.framework.scheduler_profile import ProfilesReplaced
from kubeshare_py.scheduling.machine import MachineEvent

# Writes one session of an event log: files by size and age, old sessions dropped in time.


#: A process that wrote nothing for so long (s) has ended: at least its hourly file is due.
IDLE_S = 2 * 3600.0
#: A session is at least so many times as large as what it began with.
_WORTH = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLimits:
    """`file_bytes` and `file_s` end a file; `total_bytes` is the most of all sessions together.

    `waiting_bytes` is the most of records that wait to be written.
    """

    file_bytes: int = 64 << 20
    file_s: float = 3600.0
    total_bytes: int = 8 << 30
    waiting_bytes: int = 256 << 20


class SessionWriter:
    """One session. Its methods do file I/O and raise OSError."""

    def __init__(self, folder: Path, header: LogHeader, limits: LogLimits) -> None:
        """`header` is the first file's. Nothing is written yet."""
        self._folder, self._limits, self._header = folder, limits, header
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(header.wall))
        self._own = folder / f"{stamp}-{header.session}"
        self._file: BinaryIO | None = None
        self._packer = BlockPacker()
        self._opened_at = 0.0
        self._in_file = 0
        self._number = header.file
        #: The bytes of the first write, which may be a snapshot.
        self._began_with = 0
        #: The bytes that were written.
        self.size = 0

    @property
    def is_full(self) -> bool:
        """Whether the next session should begin, so that this one can be dropped in time.

        Not while what it began with is most of it: the next one would be as large at once.
        """
        return self.size > max(self._limits.total_bytes // 2, _WORTH * self._began_with)

    def write(self, records: Sequence[bytes], now: float, wall: float) -> None:
        """Append records at `now` (s, the machine's time), which is `wall` (s since 1970)."""
        if self._file is None:
            self._open(now, wall)
        assert self._file is not None
        self._put(self._file, records)
        self._file.flush()
        self._began_with = self._began_with or self.size
        old = now - self._opened_at >= self._limits.file_s
        if old or self._in_file >= self._limits.file_bytes:
            self.close()
        self._keep_within_limits(wall)

    def close(self) -> None:
        """Close the file; the next `write` begins another one."""
        if self._file is not None:
            file, self._file = self._file, None
            self._number += 1
            file.close()

    def _open(self, now: float, wall: float) -> None:
        self._own.mkdir(parents=True, exist_ok=True)
        self._file = (self._own / f"{self._number:06}{SUFFIX}").open("xb")
        self._packer, self._opened_at, self._in_file = BlockPacker(), now, 0
        header = self._header
        if self._number != header.file:
            # The first file keeps the time when the session began: its events came before this.
            header = replace(header, file=self._number, now=now, wall=wall)
        self._file.write(MAGIC)
        self._put(self._file, [header_record(header)])

    def _put(self, file: BinaryIO, records: Sequence[bytes]) -> None:
        for block in self._packer.packed(records):
            file.write(block)
            self._in_file += len(block)
            self.size += len(block)

    def _keep_within_limits(self, wall: float) -> None:
        """Drop other sessions, the oldest first, while there is too much of all.

        Those of other processes only once they are idle: they may be running.
        """
        try:
            others = [one for one in sessions(self._folder) if one.folder != self._own]
        except UnusableLog:
            return
        sizes = {one.name: one.size for one in others}
        over = sum(sizes.values()) + self.size - self._limits.total_bytes
        for session in others:
            if over <= 0:
                return
            if f"-{self._header.name}-" in session.name or wall - session.written_at > IDLE_S:
                session.drop()
                over -= sizes[session.name]


#: Seconds between two writes: what a crash may lose.
FLUSH_S = 1.0
#: Seconds until writing is tried again after it failed.
RETRY_S = 60.0
#: Events that may have any number of objects are made into records on the thread.
_LARGE = (PodsListed, NodesListed, InventoryRead)

_Large = tuple[MachineEvent, float, Sequence[Effect]]


@dataclass(slots=True)
class EventLog:
    """Writes what the machine handles.

    `known` gives what the machine knows now as events, for a session that does not begin with the
    process. Times are `clock`'s, those of the machine, in seconds.
    """

    folder: Path
    machine_name: str
    version: str
    configuration: SchedulerConfiguration
    known: Callable[[], Iterable[MachineEvent]]
    clock: Callable[[], float]
    limits: LogLimits = field(default_factory=LogLimits)
    figures: EventLogTallies = field(default_factory=EventLogTallies)
    _waiting: list[bytes | _Large] = field(default_factory=list)
    _held: int = 0
    _writer: SessionWriter | None = None
    _retry_at: float = 0.0
    _sessions: int = 0
    _stopped: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._writer = self._session(is_snapshot=False)

    def handled(self, event: MachineEvent, now: float, effects: Sequence[Effect]) -> None:
        """The machine handled an event."""
        if isinstance(event, ProfilesReplaced):
            self.configuration = msgspec.structs.replace(
                self.configuration, profiles=event.configured
            )
        if self._writer is None:
            return
        if isinstance(event, _LARGE):
            self._waiting.append((event, now, effects))
            return
        record = event_record(event, now, effects)
        self._waiting.append(record)
        self._held += len(record)
        if self._held > self.limits.waiting_bytes:
            self._give_up("events come faster than they can be written")

    async def run(self) -> None:
        """Write again and again until `stop`, then what is left."""
        is_last = False
        try:
            while not is_last:
                with suppress(TimeoutError):
                    async with asyncio.timeout(FLUSH_S):
                        await self._stopped.wait()
                is_last = self._stopped.is_set()
                await self.flush()
        finally:
            # Also if the process is made to end at once.
            if self._writer is not None:
                with suppress(OSError):
                    self._writer.close()

    def stop(self) -> None:
        """End `run`."""
        self._stopped.set()

    async def flush(self) -> None:
        """Write what waits."""
        if self._writer is None:
            if self.clock() < self._retry_at:
                return
            self._begin_anew()
        batch, self._waiting, self._held = self._waiting, [], 0
        writer, now = self._writer, self.clock()
        if not batch or writer is None:
            return
        before = writer.size
        try:
            await asyncio.to_thread(_write, writer, batch, now)
        except OSError as error:
            self._give_up(f"{error.filename or self.folder}: {error.strerror or error}")
            return
        self.figures.is_writing = True
        self.figures.events += len(batch)
        self.figures.size += writer.size - before
        if writer.is_full:
            await asyncio.to_thread(writer.close)
            self._begin_anew()

    def _give_up(self, why: str) -> None:
        """End the session, because something of it is missing."""
        if self._writer is not None:
            with suppress(OSError):
                self._writer.close()
        self._writer, self._retry_at = None, self.clock() + RETRY_S
        self._waiting, self._held = [], 0
        self.figures.is_writing = False
        self.figures.failures += 1
        decision_log.warn("event log", message=why, retry_after_s=RETRY_S)

    def _begin_anew(self) -> None:
        """Begin another session, with what the machine knows."""
        self._writer = self._session(is_snapshot=True)
        now = self.clock()
        for event in self.known():
            self._waiting.append((event, now, ()))

    def _session(self, *, is_snapshot: bool) -> SessionWriter:
        self._sessions += 1
        header = LogHeader(
            name=self.machine_name,
            version=self.version,
            session=f"{self.machine_name}-{self._sessions:04}",
            file=0,
            now=self.clock(),
            wall=time.time(),
            configuration=self.configuration,
            is_snapshot=is_snapshot,
        )
        return SessionWriter(self.folder, header, self.limits)


def _write(writer: SessionWriter, batch: Sequence[bytes | _Large], now: float) -> None:
    records = [one if isinstance(one, bytes) else event_record(*one) for one in batch]
    writer.write(records, now, time.time())
