"""Whether this scheduler process is the one that decides, and a client that heeds it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Protocol

from kubeshare_py.domain.lease import LeaderFigures
from kubeshare_py.edges.credentials import Credentials
from kubeshare_py.edges.kube_api import HAND_OVER_S
from kubeshare_py.edges.kube_client import KubeClient
from kubeshare_py.edges.leader_lease import LeaderLease
from kubeshare_py.framework.configuration import SchedulerConfiguration
from kubeshare_py.framework.leader_election import LeaderElection, seconds
from kubeshare_py.scheduling.leadership import Election, Terms

#: Whoever does not lead after so long (s) stands by.
HEAD_START_S = 1.0


class Leadership(Protocol):
    """Whether this process is the one that decides."""

    async def campaign(self) -> None:
        """Try to lead, then go on leading; raises LeadershipLost when that ends."""

    async def led(self) -> None:
        """Return once this process leads, and nothing of an earlier leader can land any more."""

    async def release(self) -> None:
        """Let another lead at once: nothing of this process is under way any more."""

    def may_send(self) -> bool:
        """Whether anything may be written at this moment."""

    def fence(self) -> str:
        """The term of leadership for each Binding, "" for none."""

    def figures(self) -> LeaderFigures | None:
        """How the election stands; None without one."""


class OnlyScheduler:
    """Leads from the start, without a Lease: the only scheduler of its name."""

    async def campaign(self) -> None:
        """Return at once."""

    async def led(self) -> None:
        """Return at once."""

    async def release(self) -> None:
        """Nothing is held."""

    def may_send(self) -> bool:
        """Always."""
        return True

    def fence(self) -> str:
        """None: there is no term."""
        return ""

    def figures(self) -> None:
        """None: there is no election."""


async def until_led(
    leadership: Leadership,
    group: asyncio.TaskGroup,
    follow: Callable[[], Coroutine[None, None, None]],
) -> None:
    """Return once this process leads; while others lead it follows what happens, in the group.

    Where nobody leads, one leads after a few requests: to begin before would be to list all pods
    twice.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(HEAD_START_S):
            await leadership.led()
            return
    standing_by = group.create_task(follow())
    await leadership.led()
    standing_by.cancel()


@asynccontextmanager
async def connected(
    configuration: SchedulerConfiguration,
    credentials: Credentials,
    name: str,
    hand_over_s: float = HAND_OVER_S,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[tuple[KubeClient, Leadership]]:
    """A client that writes nothing unless this process leads, and its leadership."""
    async with KubeClient(credentials) as own:
        leadership = _leadership(configuration.leader_election, own, name, hand_over_s, clock)
        async with KubeClient(
            credentials,
            concurrency=configuration.parallel_binds,
            may_write=leadership.may_send,
            tallies=own.tallies,
            contact=own.contact,
        ) as client:
            yield client, leadership


def _leadership(
    settings: LeaderElection,
    client: KubeClient,
    name: str,
    hand_over_s: float,
    clock: Callable[[], float],
) -> Leadership:
    """What the settings ask for, for a process of this name.

    `hand_over_s` is how long the last requests of a leader that ended may take to land.
    """
    if not settings.leader_elect:
        return OnlyScheduler()
    terms = Terms(
        lease_duration_s=seconds(settings.lease_duration),
        renew_deadline_s=seconds(settings.renew_deadline),
        retry_period_s=seconds(settings.retry_period),
        hand_over_s=hand_over_s,
    )
    place = (settings.resource_namespace, settings.resource_name)
    return LeaderLease(client, Election(name, terms), *place, clock=clock)
