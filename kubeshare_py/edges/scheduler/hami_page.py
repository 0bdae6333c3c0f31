"""HAMi's metrics on a port of their own, without TLS and tokens, as HAMi's scheduler has them.

Any client of the port may ask, and read slowly. So a page is made in portions, with decisions
between, no more often than takes a small part of the time, and is the same bytes for all readers.
"""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from time import perf_counter

from aiohttp import web

from kubeshare_py.configuration.scheduler import ConfigurationError, HamiMetrics
from kubeshare_py.domain.needs.gpu_quota import QuotaNames
from kubeshare_py.edges.process import probes
from kubeshare_py.edges.process.bounded_server import Bounds, listening
from kubeshare_py.edges.process.build import running_build, say_listening, url
from kubeshare_py.edges.process.connection_abort import abort
from kubeshare_py.exporters.hami_metrics import HamiSchedulerPage
from kubeshare_py.scheduling.explain.quota_uses import quota_uses
from kubeshare_py.scheduling.explain.shared_cards import shared_cards
from kubeshare_py.scheduling.machine import Machine

PATH = "/metrics"
_HEADERS = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
#: One Prometheus or two, and people.
_BOUNDS = Bounds(connections=16)
#: How often pages are made: never in more than this part of the time. A page of 30,000 pods takes
#: about a second, so that it is ten seconds old at most, as old as a scrape's interval makes it.
_SHARE = 0.1
#: A reader that is slower (s) is cut off; until then the page that it reads is kept for it.
_SLOWEST_S = 10.0


@dataclass(slots=True)
class _Pages:
    """The last page, made anew for the first reader who comes when it may be."""

    machine: Machine
    quotas: Collection[QuotaNames]
    legacy: bool
    _making: asyncio.Lock = field(default_factory=asyncio.Lock)
    _page: tuple[bytes, ...] = ()
    #: Until when the page is served (s, the loop's clock).
    _until: float = 0.0

    async def page(self) -> tuple[bytes, ...]:
        """The page in pieces."""
        async with self._making:
            if self._page and asyncio.get_running_loop().time() < self._until:
                return self._page
            made = HamiSchedulerPage(running_build(), legacy=self.legacy)
            spent_s = 0.0
            began_s = perf_counter()
            for cards, parts in shared_cards(self.machine):
                made.add(cards, parts)
                spent_s += await _pause(began_s)
                began_s = perf_counter()
            for uses in quota_uses(self.machine, self.quotas):
                made.add_quotas(uses)
                spent_s += await _pause(began_s)
                began_s = perf_counter()
            pieces: list[bytes] = []
            for piece in made.chunks():
                pieces.append(piece)
                spent_s += await _pause(began_s)
                began_s = perf_counter()
            self._page = tuple(pieces)
            self._until = asyncio.get_running_loop().time() + spent_s / _SHARE
            return self._page


async def _pause(began_s: float) -> float:
    """Let decisions go on for as long as this portion took (s), which is returned."""
    took_s = perf_counter() - began_s
    await asyncio.sleep(took_s)
    return took_s


async def _send(request: web.Request, page: tuple[bytes, ...]) -> web.StreamResponse:
    answer = web.StreamResponse(headers=_HEADERS)
    answer.content_length = sum(map(len, page))
    try:
        async with asyncio.timeout(_SLOWEST_S):
            await answer.prepare(request)
            for piece in page:
                await answer.write(piece)
            await answer.write_eof()
    except TimeoutError:
        abort(request.transport)
    return answer


@asynccontextmanager
async def serve_hami_metrics(
    settings: HamiMetrics, machine: Machine, quotas: Collection[QuotaNames] = ()
) -> AsyncIterator[str]:
    """Serve while entered; yields the URL of the page, "" if its port is 0.

    `quotas` are the names by which ResourceQuotas limit pods of some dialect.

    Raises ConfigurationError if it cannot listen.
    """
    if not settings.port:
        yield ""
        return
    pages = _Pages(machine, quotas, settings.legacy)

    async def answer(request: web.Request) -> web.StreamResponse:
        if not machine.ready or not machine.inventory_read:
            # A page without cards would mean that there are none.
            return web.Response(status=503, text="the scheduler has not read the cluster yet\n")
        return await _send(request, await pages.page())

    app = web.Application()
    alive = [probes.HealthCheck("ping", lambda: "")]
    app.add_routes(
        [web.get(PATH, answer, allow_head=False), *probes.routes(lambda: alive, lambda: alive)]
    )
    host, port = settings.bind_address, settings.port
    async with AsyncExitStack() as stack:
        try:
            server = listening(app, host, port, bounds=_BOUNDS, shutdown_s=1.0)
            addresses = await stack.enter_async_context(server)
        except OSError as error:
            where = f"hamiMetrics: cannot listen on {host}:{port}"
            raise ConfigurationError(f"{where}: {error}") from error
        say_listening("kubeshare-scheduler (HAMi's metrics)", addresses, "http", path=PATH)
        yield url("http", *addresses[0])
