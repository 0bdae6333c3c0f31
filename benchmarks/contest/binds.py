"""When pods were bound, as a watch of bound pods tells it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from time import perf_counter

import msgspec

from benchmarks.contest.cluster import PODS
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.watch import follow
from kubeshare_py.manifests.watch import DELETED, Codec, ListResult


class _Metadata(msgspec.Struct):
    name: str
    resourceVersion: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata


@dataclass(slots=True)
class Binds:
    """When (s, perf_counter) each pod was seen bound, by name; gone pods are left out."""

    at: dict[str, float] = field(default_factory=dict)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def until(self, count: int, timeout_s: float) -> bool:
        """Wait until exactly so many are bound; False if that takes too long."""
        try:
            async with asyncio.timeout(timeout_s):
                while len(self.at) != count:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return False
        return True

    async def begin(self) -> None:
        """Wait until any is bound."""
        while not self.at:
            self._news.clear()
            await self._news.wait()

    async def of(self, name: str, timeout_s: float) -> bool:
        """Wait until this pod is bound; False if that takes too long."""
        try:
            async with asyncio.timeout(timeout_s):
                while name not in self.at:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return False
        return True

    async def follow(self, client: KubeClient, path: str, listed: asyncio.Event) -> None:
        """Follow for ever; `listed` is set once the watch is there."""
        selector = {"fieldSelector": "spec.nodeName!="}
        async with aclosing(follow(client, path, Codec(_Pod), selector=selector)) as stream:
            async for news in stream:
                at = perf_counter()
                if isinstance(news, ListResult):
                    names = {pod.metadata.name for pod in news.items}
                    self.at = {name: self.at.get(name, at) for name in names}
                    listed.set()
                else:
                    for line in news.changed:
                        if line.item is None:
                            continue
                        if line.type == DELETED:
                            self.at.pop(line.item.metadata.name, None)
                        else:
                            self.at.setdefault(line.item.metadata.name, at)
                self._news.set()


@asynccontextmanager
async def watched_binds(client: KubeClient, path: str = PODS) -> AsyncIterator[Binds]:
    """Follow the pods of a namespace that are bound while entered."""
    binds, listed = Binds(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        following = group.create_task(binds.follow(client, path, listed))
        await listed.wait()
        yield binds
        following.cancel()
