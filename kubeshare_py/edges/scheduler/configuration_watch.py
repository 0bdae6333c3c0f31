"""Follows the configuration file: new profiles without a new process.

The file's time, size and inode are checked every few seconds, which also detects the exchanged link
of a ConfigMap. Only profiles can be replaced while the scheduler runs; other changes are named and
take effect at the next start. A file that cannot be used changes nothing.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass

from kubeshare_py.configuration.scheduler import (
    ConfigurationError,
    EnabledDialect,
    ProfileConfiguration,
    SchedulerConfiguration,
)
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.process.backoff import Sleep
from kubeshare_py.edges.scheduler import configuration_file
from kubeshare_py.framework.profile_making import PluginFactory, profiles
from kubeshare_py.framework.scheduler_profile import Profile

INTERVAL_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """The result of a change of the file: profiles, or the problem with it.

    `configured` is what the profiles were made from. `for_restart` names fields whose change waits
    for the next start.
    """

    profiles: tuple[Profile, ...] = ()
    configured: tuple[ProfileConfiguration, ...] = ()
    problem: str = ""
    for_restart: tuple[str, ...] = ()


Updates = AsyncGenerator[Update, None]


async def updates(
    path: str,
    running: SchedulerConfiguration,
    factories: Mapping[str, PluginFactory],
    *,
    sleep: Sleep = asyncio.sleep,
) -> Updates:
    """Yield an update for each change of the file, for ever; close it with `aclosing`.

    `running` is what the process read from the file when it started.
    """
    seen: object = ()
    used: SchedulerConfiguration | None = running
    while True:
        stamp = await asyncio.to_thread(_stamp, path)
        if stamp != seen:
            seen = stamp
            try:
                found = await asyncio.to_thread(configuration_file.load, path, _warn, factories)
                if found != used:
                    with configuration_file.naming(path):
                        update = _update(found, running, factories)
                    yield update
                    used = found
            except ConfigurationError as error:
                # The next content is news, even if it is already in effect.
                used = None
                yield Update(problem=str(error))
        await sleep(INTERVAL_S)


def _update(
    found: SchedulerConfiguration,
    running: SchedulerConfiguration,
    factories: Mapping[str, PluginFactory],
) -> Update:
    """The update for a configuration. Raises ConfigurationError if it cannot be used."""
    names = [profile.scheduler_name for profile in found.profiles]
    if sorted(names) != sorted(profile.scheduler_name for profile in running.profiles):
        raise ConfigurationError(
            "profiles: the schedulerNames changed, for which the scheduler must be started again"
        )
    if _extenders(found) != _extenders(running):
        raise ConfigurationError(
            "profiles[].extender: it changed, for which the scheduler must be started again"
        )
    fields = zip(found.__struct_fields__, found.__struct_encode_fields__, strict=True)
    changed = tuple(
        shown
        for name, shown in fields
        if name != "profiles" and getattr(found, name) != getattr(running, name)
    )
    if _dialects(found) != _dialects(running):
        # Pods and nodes that are known already were read in the dialects of the start.
        changed = ("profiles[].dialects", *changed)
    made = profiles(found, factories)
    return Update(profiles=made, configured=found.profiles, for_restart=changed)


def _dialects(configuration: SchedulerConfiguration) -> dict[str, tuple[EnabledDialect, ...]]:
    return {one.scheduler_name: one.dialects for one in configuration.profiles}


def _extenders(configuration: SchedulerConfiguration) -> dict[str, bool]:
    return {one.scheduler_name: one.extender for one in configuration.profiles}


def _warn(warning: str) -> None:
    decision_log.warn("configuration", message=warning)


def _stamp(path: str) -> tuple[int, int, int] | None:
    """The file's stamp; None if it is missing."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
