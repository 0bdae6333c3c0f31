"""kubeshare-controller: makes the pods of KubeShare 1.0's SharePods, and shows their status."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from kubeshare_py.configuration.leader_election import LeaderElection
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.edges.scheduler.leadership import Leadership, elected
from kubeshare_py.edges.scheduler.process import own_name
from kubeshare_py.edges.sharepods import (
    ControllerLoop,
    ControllerPage,
    SharePodEvents,
    SharePodRequests,
    serve,
    watch_pods,
    watch_share_pods,
)
from kubeshare_py.manifests.share_pods import share_pod, value_problem
from kubeshare_py.sharepods.reconciler import Reconciler

#: As long as kube-controller-manager's: an API server that is silent for some seconds ends no
#: controller. After a crash nothing waits for it: the container is started again in its pod, under
#: the same `identity`. From SIGKILL to the pod of the next SharePod it took 3, 3 and 10 s on two
#: busy cores; under a new name 15 to 19 s with a Lease of 5 s, and 21 to 25 s with this one.
ELECTION = LeaderElection(resource_name="kubeshare-controller")
#: Requests in flight at a time.
CONCURRENCY = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """`address` "" is all. `scheduler` is for SharePods that name none.

    `identity` is the name on the Lease, of which there is one process at a time: the next one goes
    on at once where it was killed. "" is a new name, which waits until the Lease has expired.
    """

    address: str
    port: int
    scheduler: str
    election: LeaderElection = ELECTION
    identity: str = ""
    kubeconfig: str | None = None


async def main(
    settings: ControllerSettings, on_ready: Callable[[str], None] = lambda url: None
) -> None:
    """Work until cancelled; `on_ready` gets the server's URL.

    Raises OSError if it cannot listen, KubeConfigError, and LeadershipLost, in groups.
    """
    name, credentials = settings.identity or own_name(), load(settings.kubeconfig)
    # Late writes of an earlier leader do no harm: each is about one object's uid.
    electing = elected(
        settings.election, credentials, name,
        concurrency=CONCURRENCY, hand_over_s=0.0, resumes=bool(settings.identity),
    )  # fmt: skip
    async with electing as (client, leadership):
        await run(settings, client, leadership, name, on_ready)


async def run(
    settings: ControllerSettings,
    client: KubeClient,
    leadership: Leadership,
    name: str,
    on_ready: Callable[[str], None] = lambda url: None,
) -> None:
    """As `main`, with a client that writes only while this process, called `name`, leads."""
    read = partial(share_pod, scheduler_name=settings.scheduler, check=value_problem)
    reconciler, events = Reconciler(), SharePodEvents(client, name)
    page = ControllerPage(reconciler, client, leadership, lambda: events.dropped)
    async with (
        serve(page, settings.address, settings.port) as url,
        asyncio.TaskGroup() as requests,
    ):
        on_ready(url)
        loop = ControllerLoop(reconciler, SharePodRequests(client, read), events, requests)
        campaign = requests.create_task(leadership.campaign())
        try:
            await leadership.led()
            async with asyncio.TaskGroup() as group:
                group.create_task(watch_share_pods(client, read, loop.deliver))
                group.create_task(watch_pods(client, loop.deliver))
                group.create_task(loop.keep_time())
                group.create_task(events.run())
        finally:
            campaign.cancel()
            await leadership.release()
