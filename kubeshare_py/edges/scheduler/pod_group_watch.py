"""Follows PodGroups of every API that a cluster may have, and looks for missing APIs.

Most clusters have none of these APIs: that is no error and not logged. While pods wait for one, it
is looked for often.
"""

import asyncio
from contextlib import aclosing
from http import HTTPStatus

from kubeshare_py.domain.events import PodGroupsListed
from kubeshare_py.domain.group_objects import GroupApi, PodGroupObject
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.edges.kube.watch import follow_reduced
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.process.backoff import Sleep
from kubeshare_py.edges.scheduler.object_watch import Deliver
from kubeshare_py.manifests.events import pod_group_events
from kubeshare_py.manifests.pod_group import PATHS, PodGroupFields
from kubeshare_py.manifests.watch import Codec
from kubeshare_py.scheduling.machine import Machine

#: Seconds between searches for a missing API: this many times longer when no pod waits for it.
LOOK_S, LOOKS = 2.0, 30
NOT_INSTALLED = "is not installed in this cluster"
FORBIDDEN = "may not be read by the scheduler"


async def watch_pod_groups(
    client: KubeClient, machine: Machine, deliver: Deliver, sleep: Sleep = asyncio.sleep
) -> None:
    """Follow them for ever."""
    async with asyncio.TaskGroup() as group:
        for api in GroupApi:
            group.create_task(_Watch(client, machine, deliver, sleep, api).run())


class _Watch:
    """One API, in whichever of its versions the server has."""

    def __init__(
        self, client: KubeClient, machine: Machine, deliver: Deliver, sleep: Sleep, api: GroupApi
    ) -> None:
        self._client = client
        self._machine = machine
        self._deliver = deliver
        self._sleep = sleep
        self._api = api
        self._codec = Codec(PodGroupFields)
        self._translation = pod_group_events(api)
        self._trouble = ""

    async def run(self) -> None:
        """Follow it wherever it is, for ever."""
        while True:
            refused = [await self._follow(path) for path in PATHS[self._api]]
            if HTTPStatus.FORBIDDEN in refused:
                await self._absent(None, FORBIDDEN)
            else:
                await self._absent((), NOT_INSTALLED)
            for _ in range(LOOKS):
                await self._sleep(LOOK_S)
                if self._machine.awaits_pod_groups(self._api):
                    break

    async def _follow(self, path: str) -> int:
        """Follow this version until the server refuses it; the status of the refusal."""
        watched = follow_reduced(
            self._client,
            path,
            self._codec,
            self._translation.reduce,
            gives_up_at=frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN}),
        )
        try:
            async with aclosing(watched) as stream:
                async for update in stream:
                    self._trouble = ""
                    await self._deliver(self._translation.events(update))
        except KubeError as error:
            return error.status
        raise AssertionError("the watch ended")

    async def _absent(self, groups: tuple[PodGroupObject, ...] | None, trouble: str) -> None:
        if trouble == self._trouble:
            return
        self._trouble = trouble
        if trouble == FORBIDDEN:
            decision_log.warn("podgroups", api=self._api, message=trouble)
        await self._deliver([PodGroupsListed(self._api, groups, trouble)])
