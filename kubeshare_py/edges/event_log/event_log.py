"""The event log of a running scheduler: records are made at once, and written on a thread.

Nothing that goes wrong here holds up a decision. What cannot be written ends the session; a minute
later another one begins, with what is known then.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from kubeshare_py.configuration.scheduler import SchedulerConfiguration
from kubeshare_py.domain.effects import Effect
from kubeshare_py.domain.events import InventoryRead, NodesListed, PodsListed
from kubeshare_py.edges.event_log.session_writer import LogLimits, SessionWriter
from kubeshare_py.edges.process import decision_log
from kubeshare_py.event_log.records import LogHeader, event_record
from kubeshare_py.exporters.tallies import EventLogTallies
from kubeshare_py.framework.scheduler_profile import ProfilesReplaced
from kubeshare_py.scheduling.machine import MachineEvent

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
