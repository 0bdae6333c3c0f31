"""Whether this scheduler process leads, and a client that writes only if it does."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    suppress,
)
from typing import Protocol

from kubeshare_py.configuration.leader_election import LeaderElection, seconds
from kubeshare_py.configuration.scheduler import SchedulerConfiguration
from kubeshare_py.domain.lease import LeaderFigures
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import Credentials
from kubeshare_py.edges.process.liveness import Heartbeat, Stall, steady_s
from kubeshare_py.edges.scheduler.leader_lease import LeaderLease, on_a_thread
from kubeshare_py.edges.scheduler.writes.kube_api import HAND_OVER_S
from kubeshare_py.leader_election.leadership import Election, Terms

#: A process that does not lead after this time (s) stands by.
HEAD_START_S = 1.0
#: The interval of heartbeats of the event loop, in renew deadlines.
BEATS = 0.05


class Leadership(Protocol):
    """Whether this process leads."""

    async def campaign(self) -> None:
        """Try to lead, then go on leading; raises LeadershipLost when that ends."""

    async def led(self) -> None:
        """Return once this process leads, and no request of an earlier leader can land any more."""

    async def release(self) -> None:
        """Let another process lead at once: no request of this one is under way any more."""

    def may_send(self) -> bool:
        """Whether anything may be written at this moment."""

    def fence(self) -> str:
        """The term of leadership for each Binding, "" for none."""

    def figures(self) -> LeaderFigures | None:
        """The state of the election; None without one."""


class OnlyScheduler:
    """Leads from the start, without a Lease: the only scheduler of its name."""

    async def campaign(self) -> None:
        """Return at once."""

    async def led(self) -> None:
        """Return at once."""

    async def release(self) -> None:
        """Do nothing."""

    def may_send(self) -> bool:
        """Always True."""
        return True

    def fence(self) -> str:
        """ "": there is no term."""
        return ""

    def figures(self) -> None:
        """None: there is no election."""


async def until_led(
    leadership: Leadership,
    group: asyncio.TaskGroup,
    follow: Callable[[], Coroutine[None, None, None]],
) -> None:
    """Return once this process leads; while others lead, `follow` runs in the group.

    If no process leads, this one does after a few requests: following at once would list all pods
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
    clock: Callable[[], float] | None = None,
) -> AsyncIterator[tuple[KubeClient, Leadership]]:
    """A client that writes only while this process leads, and its leadership, as configured."""
    settings, binds = configuration.leader_election, configuration.parallel_binds
    electing = elected(
        settings, credentials, name, concurrency=binds, hand_over_s=hand_over_s, clock=clock
    )
    async with electing as found:
        yield found


@asynccontextmanager
async def elected(
    settings: LeaderElection,
    credentials: Credentials,
    name: str,
    *,
    concurrency: int,
    hand_over_s: float,
    clock: Callable[[], float] | None = None,
    resumes: bool = False,
) -> AsyncIterator[tuple[KubeClient, Leadership]]:
    """A client that writes only while this process leads, and its leadership.

    The Lease is renewed on a thread of its own; with a `clock`, which is that of the running loop,
    on this loop. `hand_over_s` is how long (s) the last requests of an earlier leader may take to
    land. `resumes`: a Lease that has this `name` was left by a process that has ended.
    """
    shared = KubeClient(credentials)
    async with AsyncExitStack() as stack:
        leadership: Leadership = OnlyScheduler()
        if settings.leader_elect:
            election = Election(name, _terms(settings, hand_over_s), resumes=resumes)
            electing = _electing(settings, election, shared, clock)
            leadership = await stack.enter_async_context(electing)
        client = KubeClient(
            credentials,
            concurrency=concurrency,
            may_write=leadership.may_send,
            tallies=shared.tallies,
            contact=shared.contact,
        )
        yield await stack.enter_async_context(client), leadership


def _electing(
    settings: LeaderElection,
    election: Election,
    client: KubeClient,
    clock: Callable[[], float] | None,
) -> AbstractAsyncContextManager[Leadership]:
    """Takes part in an election while entered, with a client like this one."""
    deadline_s = election.terms.renew_deadline_s
    place = (settings.resource_namespace, settings.resource_name)

    @asynccontextmanager
    async def opened(
        clock: Callable[[], float], stalled: Callable[[], Stall | None]
    ) -> AsyncIterator[LeaderLease]:
        async with another as own:
            yield LeaderLease(own, election, place, clock=clock, stalled=stalled)

    if clock is not None:
        another = client.another(concurrency=1)
        return opened(clock, lambda: None)
    another = client.elsewhere(concurrency=1)
    heartbeat = Heartbeat(BEATS * deadline_s)
    return on_a_thread(lambda: opened(steady_s, lambda: heartbeat.stall(deadline_s)), heartbeat)


def _terms(settings: LeaderElection, hand_over_s: float) -> Terms:
    return Terms(
        lease_duration_s=seconds(settings.lease_duration),
        renew_deadline_s=seconds(settings.renew_deadline),
        retry_period_s=seconds(settings.retry_period),
        hand_over_s=hand_over_s,
    )
