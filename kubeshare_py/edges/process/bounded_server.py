"""The HTTP servers of all our processes: an address to listen on, and bounds on clients."""

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

from aiohttp import ClientConnectionResetError, Payload, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler, Middleware

from kubeshare_py.edges.process.connection_abort import abort

# The HTTP servers of all our processes: an address to listen on, and bounds on clients.
#
# aiohttp bounds neither the number of connections nor the time that a TLS handshake or a request's
# head may take (its keep-alive time, an hour, is the only limit). It decompresses bodies before it
# checks their size, which no client of ours needs. And it logs a traceback for a head that it
# cannot read, and for a client that disconnects amid a body. So clients that reach a port could
# keep others out, fill the memory, or fill the log.


_BACKLOG = 128
_ALL_ADDRESSES = ("", "0.0.0.0", "::")
#: What a host without IPv6 says to a socket of that family, or to its address.
_NO_SUCH_FAMILY = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
_CONTINUE = "100-continue"
_AnyHandler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
#: Seconds without accepting connections after the process ran out of descriptors, and between
#: searches for overdue connections.
_PAUSE_S = 1.0
#: How long (s) the rest of a body that was not asked for is read and dropped, so that its client
#: can read why; aiohttp's default is ten times that, in which 2 GB come.
_LINGER_S = 1.0
#: Bytes of a connection that may wait in its transport before writers wait; asyncio's default for
#: TLS is eight times that, for each of some hundred connections that are not read.
_BUFFERED = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """`head_s`: from accepting a connection to its first request's head, TLS handshake included.

    `idle_s`: from an answer to the next request's head. Go's clients, kube-apiserver among them,
    close idle connections after 90 s; closing first would break some of their requests. `busy_s`:
    from a head to the end of the answer; kube-apiserver itself waits for 60 s. Defaults suit all
    our ports: kube-apiserver keeps a few connections, Prometheus and kubelets one each.

    At `connections`, a new connection replaces the one that has been silent for longest: first
    those that never sent a request, last those whose request has not fully arrived. If all are
    being answered, the new one is closed.

    `unread_s`: for a client to read an answer. `unread_bytes`: of all answers that are not read so
    far; beyond that the client with the largest one is cut off, of several the one that had it
    first.
    """

    connections: int = 256
    head_s: float = 10.0
    idle_s: float = 120.0
    busy_s: float = 70.0
    unread_s: float = 20.0
    unread_bytes: int = 32 * 2**20


@asynccontextmanager
async def listening(
    app: web.Application,
    address: str,
    port: int,
    *,
    context: ssl.SSLContext | None = None,
    bounds: Bounds | None = None,
    shutdown_s: float = 60.0,
) -> AsyncIterator[list[tuple[str, int]]]:
    """Serve while entered; yields host and port of each socket. 0 is any port.

    "", `0.0.0.0` and `::` are all addresses, of IPv4 and IPv6 alike, as in kube-scheduler's
    `--bind-address`: Go's net.Listen takes each of them so (https://pkg.go.dev/net#Listen).

    At the end requests get `shutdown_s` to be answered, then every connection is closed, kept-alive
    ones included. Raises OSError if it cannot listen.
    """
    connections = _BoundedConnections(context, bounds or Bounds())
    app.middlewares.insert(0, connections.middleware())
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=_quiet_logger(),
        shutdown_timeout=shutdown_s,
        auto_decompress=False,
        lingering_time=_LINGER_S,
    )
    await runner.setup()
    sockets: list[socket.socket] = []
    try:
        sockets += await _bound(address, port)
        if runner.server is None:
            raise RuntimeError("aiohttp sets the server up")
        runner.server.request_handler = _expecting(runner.server.request_handler)
        connections.server = runner.server
        async with asyncio.TaskGroup() as group:
            sweeping = group.create_task(connections.sweep())
            for one in sockets:
                connections.accept_from(one)
            try:
                yield [one.getsockname()[:2] for one in sockets]
            finally:
                sweeping.cancel()
    finally:
        for one in sockets:
            connections.accept_no_more_from(one)
            one.close()
        await connections.hang_up_opening()
        held = connections.transports()
        await runner.cleanup()
        for transport in held:
            abort(transport)
        await asyncio.sleep(0)


async def _bound(address: str, port: int) -> list[socket.socket]:
    """A listening socket for each address of that name; for all, one per family of this host.

    Raises OSError.
    """
    is_all = address in _ALL_ADDRESSES
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(
        None if is_all else address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    absent: OSError | None = None
    for family, _, _, _, where in dict.fromkeys(found):
        try:
            one = socket.create_server(where, family=family, backlog=_BACKLOG)
        except OSError as error:
            if is_all and error.errno in _NO_SUCH_FAMILY:
                absent = error
                continue
            # Taken by another process in one family: half of the clients would reach that one.
            _close(sockets)
            raise
        one.setblocking(False)
        # For all that it accepts. By itself Linux keeps up to 4 MiB of an answer that is not read,
        # and counts them as the container's: https://man7.org/linux/man-pages/man7/tcp.7.html
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFERED)
        sockets.append(one)
    if absent is not None and not sockets:
        raise absent
    return sockets


def _close(sockets: list[socket.socket]) -> None:
    for one in sockets:
        one.close()


class _Unreadable(logging.Filter):
    """Drops aiohttp's log records about clients.

    They are about heads that are no HTTP, whose senders get the reason, and about clients that
    disconnected before their answer was complete.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError | ClientConnectionResetError)


def _expecting(handler: _AnyHandler) -> _AnyHandler:
    """A handler of requests whose `Expect` is known: aiohttp cannot answer non-Unicode ones."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.headers.get("Expect", _CONTINUE).lower() != _CONTINUE:
            raise web.HTTPExpectationFailed(text="Expect is not known\n")
        return await handler(request)

    return answer


def _quiet_logger() -> logging.Logger:
    logger = logging.getLogger("kubeshare.http")
    if not logger.filters:
        logger.addFilter(_Unreadable())
    return logger


class _Pieces(Payload):
    """A body of which a piece is written once the client has read most of what came before.

    Over TLS, asyncio takes a body of any size at once, encrypts all of it, and says that it is
    written: neither the time nor the memory of a client that does not read would be known.
    """

    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        self._size = len(body)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The body as text."""
        return bytes(self._value).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Write it."""
        whole = memoryview(self._value)
        for at in range(0, len(whole), _BUFFERED):
            await writer.write(whole[at : at + _BUFFERED])
            await writer.drain()


@dataclass(eq=False, slots=True)
class _BoundedConnection:
    """`opening` until its handshake is done; `due` is when it is closed; `request` if busy."""

    handler: web.RequestHandler
    due: float
    opening: asyncio.Task[None] | None = None
    accepted: socket.socket | None = None
    request: web.Request | None = None

    def is_arriving(self) -> bool:
        """Whether a part of its request's body is still to come."""
        return self.request is not None and not self.request.content.is_eof()

    def hang_up(self) -> None:
        if self.opening is not None and self.accepted is not None:
            # Not cancelled: a transport that has just been created would be left with a closed
            # socket.
            with contextlib.suppress(OSError):
                self.accepted.shutdown(socket.SHUT_RDWR)
        else:
            abort(self.handler.transport)


_WaitingConnection = dict[web.RequestHandler, _BoundedConnection]


@dataclass(eq=False, slots=True)
class _BoundedConnections:
    """The connections of one server; dicts are ordered by insertion."""

    context: ssl.SSLContext | None
    bounds: Bounds
    server: web.Server | None = None
    #: Connections without a request so far, those between two requests, those with one.
    strangers: _WaitingConnection = field(default_factory=dict)
    idle: _WaitingConnection = field(default_factory=dict)
    busy: _WaitingConnection = field(default_factory=dict)
    #: The bytes of answers that are being sent.
    unread: dict[web.RequestHandler, int] = field(default_factory=dict)
    #: The timer of each listener that pauses because it could accept nothing.
    paused: dict[socket.socket, asyncio.TimerHandle] = field(default_factory=dict)

    def middleware(self) -> Middleware:
        """Notes which connections have a request under way."""

        @web.middleware
        async def noted(request: web.Request, handler: Handler) -> web.StreamResponse:
            own = request.protocol
            self.strangers.pop(own, None)
            self.idle.pop(own, None)
            self.busy[own] = _BoundedConnection(own, _now() + self.bounds.busy_s, request=request)
            try:
                answer = await handler(request)
                await self._send(request, answer)
                return answer
            except web.RequestPayloadError:
                return web.Response(status=HTTPStatus.BAD_REQUEST)
            except ConnectionError:
                if request.transport is not None:
                    raise
                return web.Response(status=HTTPStatus.BAD_REQUEST)  # The client left.
            finally:
                self.busy.pop(own, None)
                self.idle[own] = _BoundedConnection(own, _now() + self.bounds.idle_s)

        return noted

    async def _send(self, request: web.Request, answer: web.StreamResponse) -> None:
        """Send an answer, while its connection counts as busy; aiohttp then finds it sent."""
        if not isinstance(answer, web.Response):
            return  # its handler has sent it, in pieces
        own = request.protocol
        self.unread[own] = answer.content_length or 0
        try:
            while sum(self.unread.values()) > self.bounds.unread_bytes:
                largest = max(self.unread, key=lambda one: self.unread[one])
                del self.unread[largest]
                abort(largest.transport)
            async with asyncio.timeout(self.bounds.unread_s):
                if isinstance(answer.body, bytes) and len(answer.body) > _BUFFERED:
                    answer.body = _Pieces(answer.body)
                await answer.prepare(request)
                await answer.write_eof()
        except TimeoutError:
            abort(own.transport)
        finally:
            self.unread.pop(own, None)

    def accept_from(self, listener: socket.socket) -> None:
        """Accept connections from now on.

        Not by awaiting `sock_accept`: if it is cancelled just after accepting one, that connection
        is lost.
        """
        asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    def accept_no_more_from(self, listener: socket.socket) -> None:
        """Accept no more connections of this listener, for good."""
        paused = self.paused.pop(listener, None)
        if paused is not None:
            paused.cancel()
        asyncio.get_running_loop().remove_reader(listener)

    def _accept(self, listener: socket.socket) -> None:
        try:
            accepted, _ = listener.accept()
        except BlockingIOError:
            return
        except OSError:  # out of descriptors, or the client disconnected already
            loop = asyncio.get_running_loop()
            loop.remove_reader(listener)
            self.paused[listener] = loop.call_later(_PAUSE_S, self.accept_from, listener)
            return
        if self.has_room():
            self.open(accepted)
        else:
            accepted.close()

    def open(self, accepted: socket.socket) -> None:
        """Serve it, once its TLS handshake is done."""
        if self.server is None:
            raise RuntimeError("there is no server yet")
        accepted.setblocking(False)
        own = self.server()
        connection = _BoundedConnection(own, _now() + self.bounds.head_s, accepted=accepted)
        connection.opening = asyncio.get_running_loop().create_task(
            self._opened(accepted, connection)
        )
        self.strangers[own] = connection

    async def _opened(self, accepted: socket.socket, connection: _BoundedConnection) -> None:
        loop = asyncio.get_running_loop()
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: connection.handler, accepted, ssl=self.context
            )
            transport.set_write_buffer_limits(high=_BUFFERED)
        except OSError:  # no TLS, gone, or closed
            self.strangers.pop(connection.handler, None)
            accepted.close()
        finally:
            connection.opening = None

    def has_room(self) -> bool:
        """Whether one more is served; closes the longest silent one if needed."""
        self._forget_closed()
        if self._count() < self.bounds.connections:
            return True
        arriving = {own: one for own, one in self.busy.items() if one.is_arriving()}
        for silent, waiting in (
            (self.strangers, self.strangers),
            (self.idle, self.idle),
            (arriving, self.busy),
        ):
            if silent:
                waiting.pop(next(iter(silent))).hang_up()
                return True
        return False

    async def sweep(self) -> None:
        """Close overdue connections, until cancelled."""
        while True:
            await asyncio.sleep(min(_PAUSE_S, self.bounds.head_s / 4))
            self._forget_closed()
            now = _now()
            for waiting in (self.strangers, self.idle, self.busy):
                for own in [own for own, one in waiting.items() if one.due <= now]:
                    waiting.pop(own).hang_up()

    async def hang_up_opening(self) -> None:
        """Close connections in their handshake, and wait until that is done."""
        opening = [one for one in self.strangers.values() if one.opening is not None]
        for one in opening:
            one.hang_up()
        await asyncio.gather(*(one.opening for one in opening if one.opening is not None))

    def transports(self) -> list[asyncio.Transport]:
        """The transports of all connections."""
        open_now = self.server.connections if self.server is not None else []
        return [one.transport for one in open_now if one.transport is not None]

    def _count(self) -> int:
        opening = sum(one.opening is not None for one in self.strangers.values())
        return opening + (len(self.server.connections) if self.server is not None else 0)

    def _forget_closed(self) -> None:
        open_now = {*self.server.connections} if self.server is not None else set()
        for waiting in (self.strangers, self.idle, self.busy):
            for own in [own for own, one in waiting.items() if one.opening is None]:
                if own not in open_now:
                    del waiting[own]


def _now() -> float:
    return asyncio.get_running_loop().time()


# The bodies of requests that one server holds, with a bound on all of them together.
#
# aiohttp bounds one body. Some dozens of connections would still fill a container's memory, each
# with a body below that bound.


@dataclass(eq=False, slots=True)
class _HeldBody:
    """`limit` ends what waits for it, or with it, if it has to go."""

    protocol: web.RequestHandler
    limit: asyncio.Timeout
    length: int = 0


class HeldBodies:
    """Bodies that arrive or are being answered. If they are too large together, the largest goes.

    Its connection is closed, and its answer is not waited for. No request waits for room: otherwise
    a few bodies that never end would keep others out, and those of honest clients are small.
    """

    def __init__(self, *, each: int, total: int) -> None:
        """The most bytes of one body and of all."""
        self._each, self._total = each, total
        self._held: list[_HeldBody] = []

    @asynccontextmanager
    async def body_of(self, request: web.Request) -> AsyncIterator[bytes]:
        """The whole body, which counts until the context ends.

        Raises HTTPRequestEntityTooLarge, and ConnectionError if it was dropped.
        """
        if (request.content_length or 0) > self._each:
            raise web.HTTPRequestEntityTooLarge(self._each, request.content_length or 0)
        own = _HeldBody(request.protocol, asyncio.timeout(None))
        self._held.append(own)
        try:
            async with own.limit:
                body = await self._read(request, own)
                yield body
        except TimeoutError:
            if own in self._held:
                raise
            # aiohttp has no traceback for it: the client is gone, whatever it may have done.
            raise ClientConnectionResetError("the body was dropped") from None
        finally:
            if own in self._held:
                self._held.remove(own)

    async def _read(self, request: web.Request, own: _HeldBody) -> bytes:
        pieces: list[bytes] = []
        async for piece in request.content.iter_any():
            pieces.append(piece)
            own.length += len(piece)
            if own.length > self._each:
                raise web.HTTPRequestEntityTooLarge(self._each, own.length)
            self._make_room()
        return b"".join(pieces)

    def _make_room(self) -> None:
        while sum(one.length for one in self._held) > self._total:
            largest = max(self._held, key=lambda one: one.length)
            self._held.remove(largest)
            abort(largest.protocol.transport)
            largest.limit.reschedule(0.0)
