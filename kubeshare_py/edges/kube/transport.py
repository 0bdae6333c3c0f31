"""The transport of requests to one API server: connections, TLS, and the Authorization header."""

import asyncio
import os
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Self, TypedDict, TypeVar, Unpack, cast

import aiohttp
import httptools
import yarl
from multidict import CIMultiDict

from kubeshare_py.edges.kube.credentials import Credentials
from kubeshare_py.edges.kube.errors import KubeWithheld
from kubeshare_py.edges.process.connection_abort import abort

# Kept-alive HTTP/1.1 connections to one server, for small requests by the thousand.
#
# A request and its answer cost about a third of what they cost through aiohttp's client, which does
# everything else: streams, proxies, compressed answers. Parsing is httptools' (llhttp).


#: A connection that was idle for longer (s) is not used again: a middlebox may have dropped it
#: silently.
IDLE_S = 60.0
#: The characters allowed in a request's target: others would end the head early.
_TARGET = re.compile(r"/[!-~]*")
_VALUE = re.compile(r"[ -~]*")


class BrokenAnswer(ConnectionError):
    """The answer is not HTTP, or ended early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A complete answer. `retry_after` is that header as sent, "" for none."""

    status: int
    reason: str
    retry_after: str
    body: bytes


class HttpConnections:
    """Connections to the host and port of `url`.

    Opened on demand, as many as requests are in flight.

    `tune` is called with the socket of each new connection.
    """

    def __init__(
        self,
        url: yarl.URL,
        *,
        headers: Mapping[str, str],
        tls: ssl.SSLContext,
        server_hostname: str | None,
        connect_within_s: float,
        tune: Callable[[socket.socket], None] = lambda made: None,
        idle_s: float = IDLE_S,
    ) -> None:
        """`headers` are those of every request.

        Certificates must be for `server_hostname`, or the host.
        """
        self._host, self._port = url.host or "", url.port or 0
        self._tls = tls if url.scheme == "https" else None
        self._server_hostname = server_hostname if self._tls else None
        self._connect_within_s = connect_within_s
        self._tune = tune
        self._idle_s = idle_s
        self._fixed = _lines({"Host": url.host_port_subcomponent or "", **headers})
        self._idle: list[_HttpConnection] = []
        self._all: set[_HttpConnection] = set()

    async def request(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes,
        within_s: float,
    ) -> Reply:
        """Send once, and wait for the whole answer, at most `within_s` (s) after sending.

        Raises OSError (ConnectionError and TimeoutError among them); then it is unknown whether the
        server acted. Raises ValueError for a target or header that cannot be sent.
        """
        if not _TARGET.fullmatch(target):
            raise ValueError(f"not the target of a request: {target!r}")
        head = (
            f"{method} {target} HTTP/1.1\r\n{self._fixed}{_lines(headers)}"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        connection = self._kept() or await self._connect()
        try:
            reply = await connection.ask(head.encode("ascii") + body, within_s)
        except BaseException:
            # A late answer on it would belong to no request.
            connection.abort()
            raise
        if connection.reusable:
            self._idle.append(connection)
        else:
            connection.abort()
        return reply

    def close(self) -> None:
        """Close every connection at once."""
        for connection in tuple(self._all):
            connection.abort()

    def _kept(self) -> "_HttpConnection | None":
        """The connection that was used last, so that surplus ones age."""
        oldest = asyncio.get_running_loop().time() - self._idle_s
        while self._idle:
            connection = self._idle.pop()
            if connection.used_at >= oldest and not connection.lost:
                return connection
            connection.abort()
        return None

    async def _connect(self) -> "_HttpConnection":
        async with asyncio.timeout(self._connect_within_s):
            _, made = await asyncio.get_running_loop().create_connection(
                lambda: _HttpConnection(self._all),
                self._host,
                self._port,
                ssl=self._tls,
                server_hostname=self._server_hostname,
            )
        self._tune(made.socket)
        return made


class _HttpConnection(asyncio.Protocol):
    """One connection with at most one request on it; listens to its parser."""

    def __init__(self, those_open: "set[_HttpConnection]") -> None:
        self.lost = False
        self.reusable = False
        self.used_at = 0.0
        self._loop = asyncio.get_running_loop()
        self._those_open = those_open
        self._waiter: asyncio.Future[Reply] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._reason = b""
        self._retry_after = b""
        self._body: list[bytes] = []

    @property
    def socket(self) -> socket.socket:
        """The connection's own."""
        found: socket.socket = self._transport.get_extra_info("socket")
        return found

    async def ask(self, request: bytes, within_s: float) -> Reply:
        """Send a request's bytes, wait for the answer."""
        waiter: asyncio.Future[Reply] = self._loop.create_future()
        self._waiter = waiter
        self._transport.write(request)
        limit = self._loop.call_later(within_s, self._fail, TimeoutError("no answer in time"))
        try:
            return await waiter
        finally:
            limit.cancel()
            self.used_at = self._loop.time()
            self._waiter = None

    def abort(self) -> None:
        """Close at once."""
        self.lost = True
        abort(self._transport)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the transport."""
        # uvloop's TLS transport behaves as one without being one by type.
        self._transport = cast(asyncio.Transport, transport)
        self._those_open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the request, if there is one, without an answer."""
        self.lost = True
        self._those_open.discard(self)
        self._fail(BrokenAnswer(str(exc) if exc else "the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        """Parse; an answer without a request, or no HTTP at all, closes the connection."""
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(BrokenAnswer(f"not an answer in HTTP: {error}"))
            self.abort()

    def on_message_begin(self) -> None:
        """Drop the last answer; one without a request ends the connection."""
        if self._waiter is None or self._waiter.done():
            raise httptools.HttpParserError("an answer without a request")
        self._reason = self._retry_after = b""
        self._body = []

    def on_status(self, status: bytes) -> None:
        """Take a part of the reason phrase."""
        self._reason += status

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep the one header that is used."""
        if name.lower() == b"retry-after":
            self._retry_after = value

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Deliver the answer, unless others follow it (RFC 9110, 15.2)."""
        status = self._parser.get_status_code()
        if status < HTTPStatus.OK:
            return
        self.reusable = self._parser.should_keep_alive()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(
                Reply(
                    status=status,
                    reason=self._reason.decode("latin-1"),
                    retry_after=self._retry_after.decode("latin-1"),
                    body=b"".join(self._body),
                )
            )

    def _fail(self, error: OSError) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)


def _lines(headers: Mapping[str, str]) -> str:
    for name, value in headers.items():
        if not _VALUE.fullmatch(value):
            raise ValueError(f"not the value of a header: {name}")
    return "".join([f"{name}: {value}\r\n" for name, value in headers.items()])


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
            # Not a dict: a user to act as may have several groups.
            sent = CIMultiDict(headers)
            sent.extend(authorization)
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
