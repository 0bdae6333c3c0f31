"""The pods of a cluster that is measured: created, deleted and followed."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.watch import follow
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject
from kubeshare_py.manifests.watch import DELETED, Codec, ListResult

PODS = "/api/v1/namespaces/default/pods"
#: For so long (s) anything is waited for.
LONGEST_S = 120.0

Json = dict[str, Any]
#: Called with a pod as it was, None if it is new, and as it is now.
OnChange = Callable[[UnstructuredObject | None, UnstructuredObject], None]


class FollowedPods:
    """All pods by uid, as a watch shows them."""

    def __init__(self, client: KubeClient, on_change: OnChange) -> None:
        self.known: dict[str, UnstructuredObject] = {}
        self._client, self._on_change = client, on_change
        self._news = asyncio.Event()

    async def follow(self) -> None:
        """Follow them for ever."""
        codec: Codec[UnstructuredObject] = Codec(UnstructuredObject)
        async with aclosing(follow(self._client, PODS, codec)) as stream:
            async for news in stream:
                if not isinstance(news, ListResult):
                    for line in news.changed:
                        if line.item is not None:
                            self._seen(line.type, line.item)
                self._news.set()

    async def until(self, wanted: Callable[[], bool]) -> None:
        """Wait until this is so, for `LONGEST_S` at most."""
        async with asyncio.timeout(LONGEST_S):
            while not wanted():
                self._news.clear()
                await self._news.wait()

    async def create(self, metadata: Json, container: Json) -> None:
        """A pod of one container for the scheduler."""
        container = {"name": "main", "image": "busybox", **container}
        spec = {"schedulerName": "kubeshare-scheduler", "containers": [container]}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        await self._client.create(PODS, body)

    async def delete_all(self) -> None:
        """Delete all of them, and wait until they are gone."""
        await self._client.request("DELETE", PODS, query={"gracePeriodSeconds": 0})
        await self.until(lambda: not self.known)

    def _seen(self, change: str, pod: UnstructuredObject) -> None:
        if change == DELETED:
            self.known.pop(pod.uid, None)
            return
        before, self.known[pod.uid] = self.known.get(pod.uid), pod
        self._on_change(before, pod)
