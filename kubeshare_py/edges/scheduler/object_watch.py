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
from kubeshare_py.domain.events import Event, ObjectsListed
from kubeshare_py.domain.needs.cluster_objects import WatchedKind
from kubeshare_py.domain.needs.default_spread import SPREAD_KINDS
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.edges.kube.watch import follow_reduced
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.process.backoff import Sleep
from kubeshare_py.manifests.cluster_objects import WATCHED, WatchedObjects
from kubeshare_py.manifests.events import BadAllocation
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
