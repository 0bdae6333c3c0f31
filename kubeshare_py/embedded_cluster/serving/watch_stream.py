"""Watches over HTTP: chunked JSON lines, one stream per watcher, bookmarks, a timely end."""

import asyncio
import random

from aiohttp import web

from kubeshare_py.edges.process.connection_abort import abort
from kubeshare_py.embedded_cluster.protocol.messages import WatchAnswer
from kubeshare_py.embedded_cluster.protocol.watches import Subscription

BOOKMARK_PERIOD_S = 60.0
_BEFORE_END_S = 2.0
_DEFAULT_TIMEOUT_S = (1800.0, 3600.0)


class WatchStreams:
    """All open watches of one server."""

    def __init__(self) -> None:
        self._open: dict[Subscription, web.Request] = {}
        self._closing = False

    def cut(self) -> int:
        """Abort every watch's connection; returns how many there were."""
        found = list(self._open.values())
        for request in found:
            abort(request.transport)
        return len(found)

    def close(self) -> None:
        """End every watch in order, after its pending lines."""
        self._closing = True
        for subscription in self._open:
            subscription.ended = True
            subscription.on_ready()

    async def send(self, request: web.Request, answer: WatchAnswer) -> web.StreamResponse:
        """Stream until the watch ends, times out, falls behind, or the client leaves."""
        subscription = answer.subscription
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        self._open[subscription] = request
        try:
            await response.prepare(request)
            await self._pump(response, answer)
            await response.write_eof()
        except ConnectionError:
            pass  # The client left.
        finally:
            subscription.close()
            del self._open[subscription]
        return response

    async def _pump(self, response: web.StreamResponse, answer: WatchAnswer) -> None:
        subscription, ready = answer.subscription, asyncio.Event()
        subscription.on_ready = ready.set
        clock = asyncio.get_running_loop().time
        end = clock() + (answer.timeout_s or random.uniform(*_DEFAULT_TIMEOUT_S))
        bookmark_at = _next_bookmark(clock(), end) if answer.bookmarks else end
        while True:
            ready.clear()
            if lines := subscription.take():
                await response.write(lines)
                continue
            now = clock()
            if subscription.ended or self._closing or now >= end:
                return
            if now >= bookmark_at:
                subscription.bookmark()
                bookmark_at = _next_bookmark(now, end)
                continue
            try:
                async with asyncio.timeout_at(min(bookmark_at, end)):
                    await ready.wait()
            except TimeoutError:
                continue


def _next_bookmark(now: float, end: float) -> float:
    """About once a minute and once shortly before the end, as the real server does."""
    last = end - _BEFORE_END_S
    return min(now + BOOKMARK_PERIOD_S, last if last > now else end)
