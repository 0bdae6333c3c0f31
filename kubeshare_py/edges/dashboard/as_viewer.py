"""A viewer's two ends: requests to the API server with its token, and answers to its page."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Self

import msgspec
from aiohttp import web

from kubeshare_py.dashboard import assets
from kubeshare_py.dashboard.viewers import ViewerRefusal
from kubeshare_py.edges.kube.credentials import Credentials
from kubeshare_py.edges.kube.errors import KubeError, kube_error
from kubeshare_py.edges.kube.transport import NO_ANSWER, KubeTransport, Reply, why_unanswered

#: Seconds for an answer about one object.
ASKED_S = 15.0
#: The most questions to the API server at once, without reads of the state, and with those that
#: wait.
MAX_ASKED, MAX_WAITING = 16, 128
_JSON = {"Content-Type": "application/json"}


class NoAnswer(Exception):
    """The API server did not answer, or was not asked; the text says why."""


class Gate:
    """Lets `most` through at once; `waiting` may be there together, those let through included."""

    def __init__(self, most: int, waiting: int) -> None:
        self._slots = asyncio.Semaphore(most)
        self._left = waiting

    @asynccontextmanager
    async def passed(self) -> AsyncIterator[None]:
        """Entered once it is let through. Raises NoAnswer if too many wait."""
        if not self._left:
            raise NoAnswer("too many questions at once; try again")
        self._left -= 1
        try:
            async with self._slots:
                yield
        finally:
            self._left += 1


class ApiAsViewer:
    """An async context manager that needs a running event loop. `anonymous` has no token."""

    def __init__(self, anonymous: Credentials) -> None:
        self._transport = KubeTransport(anonymous, lambda: True)
        self._gate = Gate(MAX_ASKED, MAX_WAITING)

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._transport.__aexit__(*error)

    async def asked(self, token: str, path: str, body: object = None) -> Reply:
        """GET, or POST of a body that changes nothing, after few others. Raises NoAnswer."""
        async with self._gate.passed():
            return await self.sent(token, path, body, ASKED_S)

    async def sent(self, token: str, path: str, body: object, within_s: float) -> Reply:
        """The same at once. Raises NoAnswer."""
        headers = {"Authorization": f"Bearer {token}"}
        data = b"" if body is None else msgspec.json.encode(body)
        if data:
            headers |= _JSON
        method = "POST" if data else "GET"
        try:
            return await self._transport.send(method, path, headers, data, within_s)
        except NO_ANSWER as error:
            raise NoAnswer(f"the API server does not answer: {why_unanswered(error)}") from error


def error_of(reply: Reply) -> KubeError:
    """The error of a reply that is none of those that were wanted."""
    return kube_error(reply.status, reply.reason, reply.retry_after, reply.body)


# Answers to the page.


def told(value: object, status: int = HTTPStatus.OK) -> web.Response:
    """The value as JSON, for this viewer alone."""
    headers = {**assets.PRIVATE, **_JSON}
    return web.Response(status=status, body=msgspec.json.encode(value), headers=headers)


def refused(refusal: ViewerRefusal) -> web.Response:
    """Why the page gets nothing."""
    return told({"message": refusal.message}, refusal.status)


def takes_gzip(request: web.Request) -> bool:
    """Whether a state may be sent compressed."""
    return "gzip" in request.headers.get("Accept-Encoding", "")


def told_state(body: bytes, *, compressed: bool) -> web.Response:
    """A state, which is JSON, `compressed` or not as `takes_gzip` said."""
    encoded = {"Content-Encoding": "gzip"} if compressed else {}
    headers = {**assets.PRIVATE, **_JSON, "Vary": "Accept-Encoding", **encoded}
    return web.Response(body=body, headers=headers)
