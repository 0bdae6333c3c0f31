"""The event log of this scheduler process, as the command line asks for it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kubeshare_py.configuration.scheduler import SchedulerConfiguration
from kubeshare_py.edges.event_log.event_log import EventLog
from kubeshare_py.edges.event_log.session_writer import LogLimits
from kubeshare_py.edges.process.own_version import own_version
from kubeshare_py.edges.scheduler.process_health import ProcessHealth
from kubeshare_py.scheduling.known_events import known_events


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Where to write, and how much."""

    folder: Path
    limits: LogLimits = field(default_factory=LogLimits)


@asynccontextmanager
async def logging_events(
    settings: LogSettings | None,
    configuration: SchedulerConfiguration,
    process_health: ProcessHealth,
) -> AsyncIterator[EventLog | None]:
    """The log of a machine that has handled no event yet; it is written while entered.

    Its figures become part of the health. None without settings.
    """
    if settings is None:
        yield None
        return
    machine, clock = process_health.machine, process_health.clock
    log = EventLog(
        settings.folder,
        machine.name,
        own_version(),
        configuration,
        lambda: known_events(machine, clock()),
        clock,
        settings.limits,
    )
    process_health.event_log = log.figures
    async with asyncio.TaskGroup() as group:
        writing = group.create_task(log.run())
        try:
            yield log
        finally:
            log.stop()
            await asyncio.wait([writing])
