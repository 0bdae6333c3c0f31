"""Faults of the embedded API server: errors, lost answers, silence.

A fault is chosen by method and by a pattern over the path, and used up after `times` requests.
"""

import asyncio
import re
from dataclasses import dataclass

import msgspec
from aiohttp import web

from kubeshare_py.edges.process.connection_abort import abort
from kubeshare_py.embedded_cluster.protocol.messages import ApiRequest
from kubeshare_py.embedded_cluster.protocol.status import failure


@dataclass(slots=True, kw_only=True)
class Fault:
    """One fault.

    status: answer with this code, without doing anything; 0: cut the connection instead.
    applies_first: perform the request, then lose the answer (status 0) or replace it. delay_s: wait
    this long (s) before answering. only_slow: after that delay perform and answer as usual.
    """

    method: str
    path: str  # regular expression, searched in the path
    status: int = 0
    reason: str = "InternalError"
    message: str = "injected fault"
    retry_after_s: int = 0
    applies_first: bool = False
    delay_s: float = 0.0
    only_slow: bool = False
    times: int = 1

    def matches(self, request: ApiRequest) -> bool:
        """Whether it applies to this request."""
        return self.method == request.method and re.search(self.path, request.path) is not None

    async def answer(self, request: web.Request) -> web.Response:
        """The bad answer; for status 0 the connection is cut."""
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        if not self.status:
            abort(request.transport)
            return web.Response(status=503)
        body = msgspec.json.encode(failure(self.status, self.reason, self.message))
        response = web.Response(status=self.status, body=body, content_type="application/json")
        if self.retry_after_s:
            response.headers["Retry-After"] = str(self.retry_after_s)
        return response


class ApiFaults:
    """The faults still to come, and whether the server is paused."""

    def __init__(self) -> None:
        self._waiting: list[Fault] = []
        self._running = asyncio.Event()
        self._running.set()
        self._waited = asyncio.Event()

    def inject(self, fault: Fault) -> None:
        """Use it for the next matching requests."""
        self._waiting.append(fault)

    def clear(self) -> None:
        """Drop all that were not used."""
        self._waiting.clear()

    def pause(self) -> None:
        """Answer no new request until `resume`; open watches go on."""
        self._waited.clear()
        self._running.clear()

    def resume(self) -> None:
        """Answer again, those that waited first."""
        self._running.set()

    async def passable(self) -> None:
        """Wait while paused."""
        if not self._running.is_set():
            self._waited.set()
            await self._running.wait()

    async def someone_waits(self) -> None:
        """Return once a request has run into the pause."""
        await self._waited.wait()

    def take(self, request: ApiRequest) -> Fault | None:
        """The first fault for this request, used up by one."""
        for fault in self._waiting:
            if fault.matches(request):
                fault.times -= 1
                if fault.times <= 0:
                    self._waiting.remove(fault)
                return fault
        return None
