"""What a scheduler process has besides a configuration: its event log, and other options."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kubeshare_py.configuration.scheduler import SchedulerConfiguration
from kubeshare_py.dialects.dialects import SHAREDGPU_ALONE, Dialects
from kubeshare_py.edges.event_log.event_log import EventLog, LogLimits
from kubeshare_py.edges.process.own_names import own_version
from kubeshare_py.edges.process.run_until_signal import StartModule, module_process
from kubeshare_py.edges.scheduler.configuration_watch import Updates
from kubeshare_py.edges.scheduler.process_health import ProcessHealth
from kubeshare_py.scheduling.machine import known_events

# The event log of this scheduler process, as the command line asks for it.


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


# What a scheduler process has besides a configuration: all of it may be left out.


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What changes the configuration, the dialects in use, and where to write events.

    `start` starts the process that reads the inventory.
    """

    updates: Updates | None = None
    dialects: Dialects = SHAREDGPU_ALONE
    event_log: LogSettings | None = None
    start: StartModule = module_process


#: A scheduler that follows no file and writes no log.
ALONE = RunOptions()
