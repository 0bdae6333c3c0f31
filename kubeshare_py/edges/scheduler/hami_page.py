"""HAMi's metrics on a port of their own, without TLS and tokens, as HAMi's scheduler has them."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager

from aiohttp import web

from kubeshare_py.configuration.scheduler import ConfigurationError, HamiMetrics
from kubeshare_py.domain.needs.gpu_quota import QuotaNames
from kubeshare_py.edges.process import probes
from kubeshare_py.edges.process.bounded_server import Bounds, listening
from kubeshare_py.edges.process.build import running_build, say_listening, url
from kubeshare_py.exporters.hami_metrics import HamiSchedulerPage
from kubeshare_py.scheduling.explain.quota_uses import quota_uses
from kubeshare_py.scheduling.explain.shared_cards import shared_cards
from kubeshare_py.scheduling.machine import Machine

PATH = "/metrics"
_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: One Prometheus or two, and people.
_BOUNDS = Bounds(connections=16)


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
    scrapes = asyncio.Lock()

    async def answer(request: web.Request) -> web.Response:
        if not machine.ready or not machine.inventory_read:
            # A page without cards would mean that there are none.
            return web.Response(status=503, text="the scheduler has not read the cluster yet\n")
        async with scrapes:
            page = HamiSchedulerPage(running_build(), legacy=settings.legacy)
            for cards, parts in shared_cards(machine):
                page.add(cards, parts)
                await asyncio.sleep(0)
            for uses in quota_uses(machine, quotas):
                page.add_quotas(uses)
                await asyncio.sleep(0)
            return web.Response(body=b"".join(page.chunks()), headers={"Content-Type": _TYPE})

    app = web.Application()
    alive = [probes.HealthCheck("ping", lambda: "")]
    app.add_routes([web.get(PATH, answer), *probes.routes(lambda: alive, lambda: alive)])
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
