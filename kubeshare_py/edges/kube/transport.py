"""The transport of requests to one API server: connections, TLS, and the Authorization header."""

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Self, TypedDict, TypeVar, Unpack

import aiohttp
import yarl

from kubeshare_py.edges.kube.credentials import Credentials
from kubeshare_py.edges.kube.errors import KubeWithheld
from kubeshare_py.edges.kube.http_connections import HttpConnections, Reply

R = TypeVar("R", aiohttp.ClientResponse, Reply)

JSON = "application/json"
#: What requests may raise when there is no answer.
NO_ANSWER = (aiohttp.ClientError, OSError)

CONNECT_TIMEOUT_S = 5.0
#: A dead connection is noticed after IDLE + INTERVAL x PROBES seconds, also where nothing is sent.
KEEPALIVE_IDLE_S, KEEPALIVE_INTERVAL_S, KEEPALIVE_PROBES = 20, 5, 4
#: A watch delivers at most twice this at once: about 150 pods, 3 ms of decoding.
STREAM_BUFSIZE = 512 * 1024
_HEADERS = {"Accept": JSON, "User-Agent": "kubeshare-py"}


class _RequestOptions(TypedDict, total=False):
    data: bytes | None
    timeout: aiohttp.ClientTimeout
    read_bufsize: int
    server_hostname: str | None


class KubeTransport:
    """An async context manager that needs a running event loop.

    aiohttp reads large answers, which it requests compressed, and streams. All else goes over
    `HttpConnections`, unless there is a proxy. A target is a path with its query.
    """

    def __init__(self, credentials: Credentials, may_write: Callable[[], bool]) -> None:
        """`may_write` is called before a request is sent, except GET."""
        self._credentials = credentials
        self._may_write = may_write
        #: The path of a server behind another one, such as Rancher's.
        self._prefix = yarl.URL(credentials.server).raw_path.rstrip("/")
        self._session: aiohttp.ClientSession | None = None
        self._connections: HttpConnections | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            # The limit on requests is KubeClient's: aiohttp's would count watches, and its timeouts
            # include the time spent waiting for a free connection.
            connector=aiohttp.TCPConnector(
                limit=0,
                ssl=self._credentials.ssl_context,
                keepalive_timeout=60,
                socket_factory=_watched_socket,
            ),
            headers=_HEADERS,
            read_bufsize=2 * 1024 * 1024,
            proxy=self._credentials.proxy,
            auto_decompress=True,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        if self._credentials.proxy is None:
            self._connections = HttpConnections(
                yarl.URL(self._credentials.server),
                headers=_HEADERS,
                tls=self._credentials.ssl_context,
                server_hostname=self._credentials.server_hostname,
                connect_within_s=CONNECT_TIMEOUT_S,
                tune=_watch,
            )
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._connections is not None:
            self._connections.close()
            self._connections = None
        if self._session is not None:
            await self._session.close()
            self._session = None

    def url(self, target: str) -> str:
        """The whole address, for people."""
        return self._credentials.server + target

    async def send(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes, within_s: float
    ) -> Reply:
        """Send one request, and once more after a 401 if other credentials are there.

        The whole answer.

        Raises NO_ANSWER, or KubeWithheld if nothing was sent. Each try may take `within_s`.
        """
        connections = None if method == "GET" else self._connections

        def exchange(authorization: Mapping[str, str]) -> Awaitable[Reply]:
            sent = {**headers, **authorization}
            if connections is None:
                return self._fetch(method, target, sent, body, within_s)
            return connections.request(method, self._prefix + target, sent, body, within_s)

        return await self._authorized(method, target, exchange)

    @asynccontextmanager
    async def stream(
        self, target: str, *, read_timeout_s: float
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """GET an answer of which only the head has been read.

        Raises NO_ANSWER, or KubeWithheld if nothing was sent.
        """
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=read_timeout_s
        )

        def begin(authorization: Mapping[str, str]) -> Awaitable[aiohttp.ClientResponse]:
            return self._open(
                "GET", target, authorization, timeout=timeout, read_bufsize=STREAM_BUFSIZE
            )

        async with await self._authorized("GET", target, begin) as response:
            yield response

    async def _authorized(
        self, method: str, target: str, send: Callable[[Mapping[str, str]], Awaitable[R]]
    ) -> R:
        for last in (False, True):
            authorization = await self._credentials.headers()
            if method != "GET" and not self._may_write():
                raise KubeWithheld(
                    f"{method} {self.url(target)}: not sent, this process does not lead"
                )
            answer = await send(authorization)
            if answer.status != HTTPStatus.UNAUTHORIZED or last:
                break
            if not await self._credentials.renew(authorization):
                break
            if isinstance(answer, aiohttp.ClientResponse):
                answer.release()
        return answer

    async def _fetch(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes, within_s: float
    ) -> Reply:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S)
        # aiohttp's own total timeout loses a cancellation of its task if both happen in one turn of
        # the loop (seen with 3.14.5): a task that waits for it then waits for ever.
        async with asyncio.timeout(within_s):
            response = await self._open(method, target, headers, data=body or None, timeout=timeout)
            async with response:
                return await reply(response)

    async def _open(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        **options: Unpack[_RequestOptions],
    ) -> aiohttp.ClientResponse:
        """Send, and wait until the head of the answer has arrived."""
        if self._session is None:
            raise RuntimeError("an API server's client is used outside its context")
        options["server_hostname"] = self._credentials.server_hostname
        url = yarl.URL(self.url(target), encoded=True)
        return await self._session.request(
            method, url, headers=headers, allow_redirects=False, **options
        )


async def reply(response: aiohttp.ClientResponse) -> Reply:
    """Read the rest of an answer."""
    return Reply(
        status=response.status,
        reason=response.reason or "",
        retry_after=response.headers.get("Retry-After", ""),
        body=await response.read(),
    )


def why_unanswered(error: BaseException) -> str:
    """The meaning of a NO_ANSWER error, in a few words."""
    if isinstance(error, TimeoutError):
        return "Timeout"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the answer broke off"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "Server disconnected"
    # The error numbers of TLS and of name resolution are not the system's.
    is_tls = isinstance(error, ssl.SSLError | aiohttp.ClientSSLError)
    number = error.errno if isinstance(error, OSError) and not is_tls else None
    if number is not None and number > 0:
        return os.strerror(number)
    return f"{type(error).__name__}: {error}".rstrip(": ")


def _watched_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    _watch(made)
    return made


def _watch(made: socket.socket) -> None:
    """Let the kernel detect a dead peer, which ends half-open watches."""
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE_S),
        ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_S),
        ("TCP_KEEPCNT", KEEPALIVE_PROBES),
    ):
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
