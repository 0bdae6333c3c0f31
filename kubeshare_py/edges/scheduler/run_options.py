"""What a scheduler process has besides a configuration: all of it may be left out."""

from dataclasses import dataclass

from kubeshare_py.dialects.dialects import SHAREDGPU_ALONE, Dialects
from kubeshare_py.edges.scheduler.configuration_watch import Updates
from kubeshare_py.edges.scheduler.event_logging import LogSettings


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What changes the configuration, the dialects in use, and where to write events."""

    updates: Updates | None = None
    dialects: Dialects = SHAREDGPU_ALONE
    event_log: LogSettings | None = None


#: A scheduler that follows no file and writes no log.
ALONE = RunOptions()
