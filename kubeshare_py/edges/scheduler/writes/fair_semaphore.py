"""A semaphore on which namespaces take turns: one namespace's queue hardly delays another's."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairSemaphore:
    """At most `at_once` turns at a time; those of one namespace begin in the order of requests."""

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        #: Waiting turns by namespace, the next namespace first; no queue is empty.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def slot(self, namespace: str) -> AsyncIterator[None]:
        """Wait for a turn of this namespace, which lasts while entered."""
        if self._free:
            self._free -= 1
        else:
            called = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(namespace, deque()).append(called)
            try:
                await called
            except asyncio.CancelledError:
                if not called.cancelled():
                    self._call_next()
                raise
        try:
            yield
        finally:
            self._call_next()

    def _call_next(self) -> None:
        """Give a turn that ended to the next namespace."""
        while self._waiting:
            namespace = next(iter(self._waiting))
            line = self._waiting.pop(namespace)
            called = line.popleft()
            if line:
                self._waiting[namespace] = line
            if not called.done():
                called.set_result(None)
                return
        self._free += 1
