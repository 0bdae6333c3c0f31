"""One watch on its way through the proxy."""

import asyncio
from contextlib import suppress

import aiohttp
from aiohttp import web

from kubeshare_py.edges.process.connection_abort import abort
from tests.faults.fault_plan import Fault, Kind


class WatchStream:
    """One watch on its way to the client, and its misfortune."""

    def __init__(self, request: web.Request, fault: Fault | None, longest_s: float) -> None:
        """`longest_s`: how long it may last that is to break."""
        self._request = request
        self._longest_s = longest_s
        self._kind = fault.kind if fault else None
        self._amount = fault.amount if fault else 0.0
        self._response = web.StreamResponse(headers={"Content-Type": "application/json"})

    async def pump(self, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        """Pass on what the server says, as long as the fault allows."""
        await self._response.prepare(self._request)
        if self._kind in (Kind.CUT, Kind.MID_LINE, Kind.SILENT):
            with suppress(TimeoutError):
                async with asyncio.timeout(self._amount * self._longest_s):
                    await self._all(answer)
            if self._kind is Kind.SILENT:
                answer.close()
                # Until the client has had enough.
                await asyncio.get_running_loop().create_future()
            if self._kind is Kind.MID_LINE:
                # Whatever comes next, only the beginning of it arrives.
                piece = await answer.content.readany()
                await self._response.write(piece[: 1 + int(self._amount * (len(piece) - 2))])
            return cut_off(self._request)
        await self._all(answer)
        await self._response.write_eof()
        return self._response

    async def _all(self, answer: aiohttp.ClientResponse) -> None:
        async for piece in answer.content.iter_any():
            if self._kind is not Kind.TRICKLE:
                await self._response.write(piece)
                continue
            size = max(1, len(piece) // 7)
            for start in range(0, len(piece), size):
                await self._response.write(piece[start : start + size])
                await asyncio.sleep(0.05)


def cut_off(request: web.Request) -> web.Response:
    """Break the connection; nobody sees the response."""
    abort(request.transport)
    return web.Response(status=503)
