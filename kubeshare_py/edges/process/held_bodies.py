"""The bodies of requests that one server holds, with a bound on all of them together.

aiohttp bounds one body. Some dozens of connections would still fill a container's memory, each
with a body below that bound.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import ClientConnectionResetError, web

from kubeshare_py.edges.process.connection_abort import abort


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
