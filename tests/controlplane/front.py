"""The real API server with the embedded one's ways to misbehave, and its audit log.

Stories talk to this proxy. It forwards every request unchanged, credentials included, unless it
was told to spoil it; so stories of lost answers, cut watches and forgotten history run unchanged.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Set
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from http import HTTPStatus
from pathlib import Path

import aiohttp
import msgspec
import yarl
from aiohttp import web

from kubeshare_py.edges.process.connection_abort import abort
from kubeshare_py.embedded_cluster.apiserver.requests import ApiAnswer
from kubeshare_py.embedded_cluster.protocol.messages import ApiRequest, ApiResponse
from kubeshare_py.embedded_cluster.protocol.status import failure
from kubeshare_py.embedded_cluster.serving.server import ADMIN, SCHEDULER, ApiServer
from tests.controlplane.running import ControlPlane

#: Headers of a connection rather than of a message; aiohttp writes its own.
_OF_CONNECTION = frozenset(
    {"connection", "content-length", "host", "keep-alive", "te", "transfer-encoding", "upgrade"}
)
_GOODBYE_S = 5.0
_EXPIRED = failure(410, "Expired", "too old resource version")


class FrontServer(ApiServer):
    """An ApiServer whose answers come from a real one."""

    def __init__(
        self, plane: ControlPlane, session: aiohttp.ClientSession, directory: Path
    ) -> None:
        super().__init__(directory=directory)
        self.tokens = dict(plane.secrets.tokens)
        self._upstream = plane.url
        self._session = session
        #: What the scheduler was refused, as "POST /api/...".
        self.forbidden: list[str] = []
        self._watching: set[asyncio.Transport] = set()
        #: Since `compact`: the oldest version that a watch may start from, once it is known.
        self._oldest: int | None = 0

    def cut_watches(self) -> int:
        """Break all open watches."""
        found = list(self._watching)
        for transport in found:
            abort(transport)
        return len(found)

    def compact(self) -> None:
        """Answer 410 to watches from versions older than the next watch that is asked for."""
        self._oldest = None

    async def perform(self, asked: ApiRequest, request: web.Request) -> ApiAnswer:
        """Forward it; a watch is forwarded by `send`."""
        if _is_watch(request):
            return ApiResponse()
        async with self._forward(request, asked.body) as response:
            body = await response.read()
            if b" denied request: " not in body:  # a policy of the story, and no missing right
                self._note(response, request)
            return ApiResponse(
                status=response.status,
                body=body,
                content_type=response.headers.get("Content-Type", ""),
                headers=_kept(response, {"content-type"}),
            )

    async def send(self, request: web.Request, answer: ApiAnswer) -> web.StreamResponse:
        """Send what was answered, or stream a watch for as long as both sides want."""
        if not _is_watch(request):
            return await super().send(request, answer)
        transport = request.transport
        if transport is None:
            return web.Response()  # The client left.
        self._watching.add(transport)
        try:
            return await self._stream(request)
        finally:
            self._watching.discard(transport)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        if await self._is_forgotten(request.query.get("resourceVersion", "")):
            line = msgspec.json.encode({"type": "ERROR", "object": _EXPIRED}) + b"\n"
            return web.Response(body=line, content_type="application/json")
        async with self._forward(request, b"") as response:
            self._note(response, request)
            sent = web.StreamResponse(status=response.status)
            sent.headers.extend(_kept(response))
            try:
                await sent.prepare(request)
                async for piece in response.content.iter_any():
                    await sent.write(piece)
                await sent.write_eof()
            except ConnectionError:
                pass  # The client left: nobody to tell.
            return sent

    def _note(self, response: aiohttp.ClientResponse, request: web.Request) -> None:
        user = self._user(request)
        if response.status == HTTPStatus.FORBIDDEN and user and user.name == SCHEDULER:
            self.forbidden.append(f"{request.method} {request.path_qs}")

    async def _is_forgotten(self, version: str) -> bool:
        if self._oldest is None:
            url = yarl.URL(f"{self._upstream}/api/v1/namespaces?limit=1")
            headers = {"Authorization": f"Bearer {self.tokens[ADMIN]}"}
            async with self._session.get(url, headers=headers) as response:
                newest = (await response.json())["metadata"]["resourceVersion"]
            self._oldest = int(newest)
        return version.isdigit() and 0 < int(version) < self._oldest

    def _forward(
        self, request: web.Request, body: bytes
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() not in _OF_CONNECTION
        }
        return self._session.request(
            request.method,
            yarl.URL(self._upstream + request.raw_path, encoded=True),
            headers=headers,
            data=body or None,
            allow_redirects=False,
        )


class _Connection(socket.socket):
    """A connection that tells when it is closed."""

    gone: Callable[["_Connection"], None]

    def close(self) -> None:
        super().close()
        self.gone(self)


class _Connections:
    """Connections to the real server; on leaving, waits until all of them are closed.

    A request that is given up leaves its connection waiting for TLS's goodbye, longer than the loop
    of a short test runs.
    """

    def __init__(self) -> None:
        self._open: set[_Connection] = set()
        self._changed = asyncio.Event()

    def new(self, address: aiohttp.AddrInfoType) -> socket.socket:
        """Make one for an address."""
        family, kind, protocol, *_ = address
        made = _Connection(family, kind, protocol)
        made.gone = self._gone
        self._open.add(made)
        return made

    def _gone(self, one: _Connection) -> None:
        self._open.discard(one)
        self._changed.set()

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, *_: object) -> None:
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        async with asyncio.timeout(_GOODBYE_S):
            while self._open:
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def front(plane: ControlPlane, directory: Path) -> AsyncIterator[FrontServer]:
    """Run a proxy before the control plane while entered."""
    context = plane.secrets.certificates.client_context()
    connections = _Connections()
    async with (
        connections,
        aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context, limit=0, socket_factory=connections.new),
            timeout=aiohttp.ClientTimeout(total=None),
            # Bodies pass as they are, compressed or not.
            auto_decompress=False,
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
        ) as session,
        FrontServer(plane, session, directory) as server,
    ):
        yield server


def _is_watch(request: web.Request) -> bool:
    return request.method == "GET" and request.query.get("watch") in ("1", "true")


def _kept(
    response: aiohttp.ClientResponse, apart_from: Set[str] = frozenset()
) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, value)
        for name, value in response.headers.items()
        if name.lower() not in _OF_CONNECTION | apart_from
    )
