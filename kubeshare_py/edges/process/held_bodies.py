"""The bodies of requests that one server holds, with a bound on all of them together.

aiohttp bounds one body. Some dozens of connections would still fill a container's memory, each
with a body below that bound.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from kubeshare_py.edges.process.connection_abort import abort


class HeldBodies:
    """Bodies that arrive or are being answered. If they are too large together, the largest goes.

    Its connection is closed. No request waits for room: otherwise a few bodies that never end would
    keep others out, and those of honest clients are small.
    """

    def __init__(self, *, each: int, total: int) -> None:
        """The most bytes of one body and of all."""
        self._each, self._total = each, total
        self._held: dict[web.RequestHandler, int] = {}

    @asynccontextmanager
    async def body_of(self, request: web.Request) -> AsyncIterator[bytes]:
        """The whole body, which counts until the context ends.

        Raises HTTPRequestEntityTooLarge, and ConnectionError if it was dropped.
        """
        if (request.content_length or 0) > self._each:
            raise web.HTTPRequestEntityTooLarge(self._each, request.content_length or 0)
        pieces: list[bytes] = []
        length = 0
        try:
            async for piece in request.content.iter_any():
                pieces.append(piece)
                length += len(piece)
                if length > self._each:
                    raise web.HTTPRequestEntityTooLarge(self._each, length)
                self._held[request.protocol] = length
                self._make_room()
            body = b"".join(pieces)
            pieces.clear()
            yield body
        finally:
            self._held.pop(request.protocol, None)

    def _make_room(self) -> None:
        while sum(self._held.values()) > self._total:
            largest = max(self._held, key=lambda one: self._held[one])
            del self._held[largest]
            abort(largest.transport)
