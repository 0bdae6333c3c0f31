"""Runs a log's events through a machine of its own, and compares what comes out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from kubeshare_py.configuration.scheduler import SchedulerConfiguration
from kubeshare_py.domain.effects import Effect
from kubeshare_py.event_log.records import (
    LoggedEvent,
    LogHeader,
    ProfilesConfigured,
    digest_of,
    placements_of,
)
from kubeshare_py.framework.profile_making import PluginFactory, profiles
from kubeshare_py.framework.scheduler_profile import ProfilesReplaced
from kubeshare_py.scheduling.configured_machine import configured_machine
from kubeshare_py.scheduling.machine import MachineEvent


@dataclass(frozen=True, slots=True)
class PlayedEvent:
    """An event that was run again, with its effects.

    `written` are the placements in the log, and `found` those of this run, if the effects differ.
    """

    event: MachineEvent
    now: float
    effects: Sequence[Effect]
    is_same: bool
    written: Sequence[str] = ()
    found: Sequence[str] = ()

    @property
    def difference(self) -> str:
        """What differs, in words."""
        missing = [one for one in self.written if one not in self.found]
        added = [one for one in self.found if one not in self.written]
        if missing or added:
            return f"log: {', '.join(missing) or 'nothing'}; here: {', '.join(added) or 'nothing'}"
        kinds = sorted({type(effect).__name__ for effect in self.effects})
        return f"reports or logged effects differ; here: {', '.join(kinds) or 'none'}"


class Replay:
    """One session of a log, run again from its beginning."""

    def __init__(self, header: LogHeader, factories: Mapping[str, PluginFactory]) -> None:
        """Raises ConfigurationError if a plugin of the profiles is not there."""
        self._factories = factories
        self._configuration = header.configuration
        self.machine = configured_machine(header.configuration, factories, header.name)

    def play(self, logged: LoggedEvent) -> PlayedEvent:
        """Run the next event. Raises ConfigurationError as the constructor does."""
        event = self._made(logged)
        effects = self.machine.handle(event, logged.now)
        if digest_of(effects) == logged.digest:
            return PlayedEvent(event, logged.now, effects, True)
        found = placements_of(effects)
        return PlayedEvent(event, logged.now, effects, False, logged.placements, found)

    def _made(self, logged: LoggedEvent) -> MachineEvent:
        event = logged.event
        if not isinstance(event, ProfilesConfigured):
            return event
        return profiles_replaced(event, self._configuration, self._factories)


def profiles_replaced(
    event: ProfilesConfigured,
    configuration: SchedulerConfiguration,
    factories: Mapping[str, PluginFactory],
) -> ProfilesReplaced:
    """The event with its plugins. Raises ConfigurationError if one is not there."""
    replaced = msgspec.structs.replace(configuration, profiles=event.configured)
    return ProfilesReplaced(profiles(replaced, factories), event.configured)
