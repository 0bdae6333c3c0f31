"""Collectors of a simulated cluster, each at an address of its own, as pods have them."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from aiohttp import web

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.embedded_cluster.nodes.collectors import Collectors
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import SimulatedNode
from kubeshare_py.exporters.collector_metrics import PATH

#: By the collectors' clocks (Unix time).
SCRAPED_AT = 1e9


class Place:
    """The collectors of a cluster, each at an address of its own, all at one port."""

    def __init__(self, nodes: Iterable[SimulatedNode], hosts: dict[str, NodeName]) -> None:
        self.collectors = Collectors(nodes)
        self.hosts = hosts
        self.port = 0
        #: Collectors that never answer.
        self.hung: set[NodeName] = set()
        #: The Authorization of each request.
        self.asked: asyncio.Queue[str] = asyncio.Queue()
        #: What a collector answers once instead of its page.
        self.odd: dict[NodeName, web.Response] = {}

    async def answer(self, request: web.Request) -> web.Response:
        node = self.hosts[request.host.partition(":")[0]]
        self.asked.put_nowait(request.headers.get("Authorization", ""))
        if node in self.hung:
            await asyncio.Event().wait()
        if node in self.odd:
            return self.odd.pop(node)
        page = self.collectors.page(node, SCRAPED_AT, request.headers["Accept"])
        if page is None:
            return web.Response(status=503, text="no reading yet")
        response = web.Response(body=page[0], headers={"Content-Type": page[1]})
        response.enable_compression()
        return response


@asynccontextmanager
async def serving(place: Place, tls: ssl.SSLContext | None = None) -> AsyncIterator[None]:
    application = web.Application()
    application.router.add_get(PATH, place.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "0.0.0.0", 0, ssl_context=tls).start()
        place.port = runner.addresses[0][1]
        yield
    finally:
        await runner.cleanup()
