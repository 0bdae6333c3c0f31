"""Follows the objects that placement depends on besides pods and nodes, kind by kind.

An API that is not there, or may not be read, is looked for again every minute. Until then the
machine knows why it has no objects of that kind.

Services and controllers are followed from the moment that a profile spreads pods by default: some
clusters have very many. ResourceQuotas are followed if a dialect has quotas.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from http import HTTPStatus
from typing import Any

from kubeshare_py.devices.device_verdicts import get_ready
from kubeshare_py.domain.cluster_objects import SPREAD_KINDS, GroupApi, PodGroupObject, WatchedKind
from kubeshare_py.domain.events import Event, ObjectsListed, PodGroupsListed
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.edges.kube.watch import follow_reduced
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.process.backoff import Sleep
from kubeshare_py.manifests.events import WATCHED, BadAllocation, WatchedObjects, pod_group_events
from kubeshare_py.manifests.pod_group import PATHS, PodGroupFields
from kubeshare_py.manifests.watch import Changes, Codec, ListResult, Problem
from kubeshare_py.scheduling.machine import Machine

#: Seconds between searches for an API that is not there.
LOOK_S = 60.0
#: Seconds between looks at whether a profile needs a kind: profiles may be replaced.
NEED_S = 2.0
NOT_SERVED = "are not served by this cluster"
FORBIDDEN = "may not be read by the scheduler"

Deliver = Callable[[Iterable[Event | Problem | BadAllocation]], Awaitable[None]]


class HoldersKnown:
    """Whether the kinds are known without which nothing is decided.

    These are the ones that hold cards, and, if they are followed, those that say which pods are
    spread by default, and quotas. Not served or not readable is known, too.
    """

    def __init__(
        self,
        *,
        spreads: bool,
        quotas: bool = False,
        before_classes: Callable[[], None] = get_ready,
    ) -> None:
        """`before_classes` is called on a thread before the first device classes are known."""
        self.quotas = quotas
        self.before_classes = before_classes
        self._missing = {WatchedKind.RESOURCE_CLAIM, WatchedKind.RESOURCE_SLICE}
        if spreads:
            self._missing.update(SPREAD_KINDS)
        if quotas:
            self._missing.add(WatchedKind.RESOURCE_QUOTA)
        self._event = asyncio.Event()

    async def wait(self) -> None:
        """Wait until they are."""
        await self._event.wait()

    def add(self, kind: WatchedKind) -> None:
        """The objects of a kind were delivered, or why there are none."""
        self._missing.discard(kind)
        if not self._missing:
            self._event.set()


async def watch_objects(
    client: KubeClient,
    machine: Machine,
    deliver: Deliver,
    known: HoldersKnown,
    sleep: Sleep = asyncio.sleep,
) -> None:
    """Follow for ever what this machine needs."""
    async with asyncio.TaskGroup() as group:
        for watched in WATCHED:
            if watched.kind is WatchedKind.RESOURCE_QUOTA and not known.quotas:
                continue
            group.create_task(_follow_if_needed(client, machine, watched, deliver, known, sleep))


async def _follow_if_needed(
    client: KubeClient,
    machine: Machine,
    watched: WatchedObjects,
    deliver: Deliver,
    known: HoldersKnown,
    sleep: Sleep,
) -> None:
    while watched.kind in SPREAD_KINDS and not machine.spreads_by_default:
        await sleep(NEED_S)
    await _follow_for_ever(client, watched, deliver, known, sleep)


async def _follow_for_ever(
    client: KubeClient,
    watched: WatchedObjects,
    deliver: Deliver,
    known: HoldersKnown,
    sleep: Sleep,
) -> None:
    while True:
        status = await _follow(client, watched, deliver, known)
        if status == HTTPStatus.FORBIDDEN:
            decision_log.warn("objects", resource=watched.kind, message=FORBIDDEN)
            await deliver([ObjectsListed(watched.kind, None, FORBIDDEN)])
        else:
            await deliver([ObjectsListed(watched.kind, (), NOT_SERVED)])
        known.add(watched.kind)
        await sleep(LOOK_S)


async def _follow(
    client: KubeClient, watched: WatchedObjects, deliver: Deliver, known: HoldersKnown
) -> int:
    """Follow a kind until the server refuses it; the status of the refusal."""
    translation = watched.translation()
    stream = follow_reduced(
        client,
        watched.path,
        Codec(watched.fields),
        translation.reduce,
        gives_up_at=frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN}),
    )
    try:
        async with aclosing(stream) as updates:
            async for update in updates:
                if watched.kind is WatchedKind.DEVICE_CLASS and _has_objects(update):
                    # It would hold the loop for half a second.
                    await asyncio.to_thread(known.before_classes)
                await deliver(translation.events(update))
                if isinstance(update, ListResult):
                    known.add(watched.kind)
    except KubeError as error:
        return error.status
    raise AssertionError("the watch ended")


def _has_objects(update: ListResult[Any] | Changes[Any]) -> bool:
    return bool(update.items if isinstance(update, ListResult) else update.changed)


# Follows PodGroups of every API that a cluster may have, and looks for missing APIs.
#
# Most clusters have none of these APIs: that is no error and not logged. While pods wait for one,
# it is looked for often.


#: Seconds between searches for a missing API: this many times longer when no pod waits for it.
GROUPS_LOOK_S, LOOKS = 2.0, 30
NOT_INSTALLED = "is not installed in this cluster"


async def watch_pod_groups(
    client: KubeClient, machine: Machine, deliver: Deliver, sleep: Sleep = asyncio.sleep
) -> None:
    """Follow the PodGroups of every API for ever, and hand their events to `deliver`."""
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
        """Follow the PodGroups in whichever version the server has, for ever."""
        while True:
            refused = [await self._follow(path) for path in PATHS[self._api]]
            if HTTPStatus.FORBIDDEN in refused:
                await self._absent(None, FORBIDDEN)
            else:
                await self._absent((), NOT_INSTALLED)
            for _ in range(LOOKS):
                await self._sleep(GROUPS_LOOK_S)
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
