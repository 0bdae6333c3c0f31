"""Garbage collection of custom objects: a watch for each kind of a definition."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.embedded_cluster.controllers.garbage import Garbage
from kubeshare_py.embedded_cluster.controllers.object_kinds import (
    DEFINITIONS,
    ObjectKind,
    defined_by,
)
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject
from kubeshare_py.embedded_cluster.serving.unstructured_watch import Listener, listen
from kubeshare_py.manifests.watch import ListResult


@dataclass(frozen=True, slots=True)
class _Watched:
    """A definition's kinds, one per version, the first of which is watched."""

    kinds: list[ObjectKind]
    task: asyncio.Task[None]


class CustomCollection:
    """Feeds `garbage` with custom objects; `news` is called afterwards."""

    def __init__(self, client: KubeClient, garbage: Garbage, news: Callable[[], None]) -> None:
        self._client = client
        self._garbage = garbage
        self._news = news
        self._watched: dict[str, _Watched] = {}

    async def run(self) -> None:
        """Follow definitions, and the objects of each, until cancelled."""
        async with asyncio.TaskGroup() as group:
            listener = Listener(
                listed=partial(self._listed, group),
                seen=partial(self._seen, group),
                gone=self._gone,
                news=self._news,
            )
            await listen(self._client, DEFINITIONS.path, listener)

    def _listed(self, group: asyncio.TaskGroup, found: ListResult[UnstructuredObject]) -> None:
        present = {definition.uid for definition in found.items}
        for uid in self._watched.keys() - present:
            self._gone(uid)
        for definition in found.items:
            self._seen(group, definition)

    def _seen(self, group: asyncio.TaskGroup, definition: UnstructuredObject) -> None:
        kinds = defined_by(definition)
        held = self._watched.get(definition.uid)
        if kinds == (held.kinds if held is not None else []):
            return
        self._gone(definition.uid)
        if not kinds:
            return
        watched, *others = kinds
        self._garbage.watch(watched, others)
        task = group.create_task(listen(self._client, watched.path, self._listener(watched)))
        self._watched[definition.uid] = _Watched(kinds, task)

    def _gone(self, uid: str) -> None:
        held = self._watched.pop(uid, None)
        if held is not None:
            held.task.cancel()
            self._garbage.unwatch(held.kinds[0])

    def _listener(self, kind: ObjectKind) -> Listener:
        return Listener(
            listed=lambda found: self._garbage.listed(kind, found.items),
            seen=partial(self._garbage.seen, kind),
            gone=self._garbage.gone,
            news=self._news,
        )
