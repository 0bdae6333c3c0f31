"""The simulated garbage collector: deletes objects without owners.

`embedded_cluster.controllers.garbage` decides, this file performs.
"""

import asyncio
import logging
from collections.abc import Iterable
from functools import partial
from http import HTTPStatus

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.embedded_cluster.controllers.garbage import Garbage
from kubeshare_py.embedded_cluster.controllers.garbage_work import (
    DeleteObject,
    GarbageWork,
    LookForOwner,
    PatchObject,
)
from kubeshare_py.embedded_cluster.controllers.object_kinds import ObjectKind
from kubeshare_py.embedded_cluster.serving.persistence import persist

_log = logging.getLogger(__name__)


class GarbageCollector:
    """After its `garbage` is updated with objects of all `kinds`, `news` must be called."""

    def __init__(self, client: KubeClient, kinds: Iterable[ObjectKind], retry_s: float) -> None:
        """Failed work is repeated after `retry_s`."""
        self.garbage = Garbage(kinds)
        self._client = client
        self._retry_s = retry_s
        self._news = asyncio.Event()

    def news(self) -> None:
        """Look for work."""
        self._news.set()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._news.wait()
                self._news.clear()
                for work in self.garbage.work():
                    group.create_task(self._do(work))

    async def _do(self, work: GarbageWork) -> None:
        try:
            match work:
                case DeleteObject(path, uid):
                    await persist(partial(self._delete, path, uid))
                case PatchObject(path, _, body):
                    await persist(partial(self._client.merge_patch, path, body))
                case LookForOwner(path, uid):
                    await self._look(path, uid)
        except KubeError as error:
            # Gone already, replaced, or changed meanwhile: the watch will show it.
            if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
                _log.warning("%s: %s", work.path, error)
                asyncio.get_running_loop().call_later(self._retry_s, self._look_again, work.uid)

    async def _delete(self, path: str, uid: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            # Without it, Jobs would leave their pods behind.
            "propagationPolicy": "Background",
        }
        await self._client.request("DELETE", path, body=body)

    async def _look(self, path: str, uid: str) -> None:
        try:
            found = await persist(partial(self._client.get, path))
        except KubeError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            found = {}
        if found.get("metadata", {}).get("uid") != uid:
            self.garbage.owner_absent(uid)
            self.news()

    def _look_again(self, uid: str) -> None:
        self.garbage.look_again(uid)
        self.news()
