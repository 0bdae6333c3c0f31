"""Kept-alive HTTP/1.1 connections to one server, for small requests by the thousand.

A request and its answer cost about a third of what they cost through aiohttp's client, which does
everything else: streams, proxies, compressed answers. Parsing is httptools' (llhttp).
"""

import asyncio
import re
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import cast

import httptools
import yarl

from kubeshare_py.edges.process.connection_abort import abort

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
            raise httptools.HttpParserError("an answer that nobody asked for")
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
