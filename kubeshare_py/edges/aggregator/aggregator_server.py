"""The aggregator's HTTP server: its page for Prometheus, /livez and /readyz."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from kubeshare_py.edges.aggregator.requirement_watch import RequirementWatch
from kubeshare_py.edges.process import probes
from kubeshare_py.edges.process.bounded_server import listening
from kubeshare_py.edges.process.build import running_build, say_listening, url
from kubeshare_py.edges.process.probes import HealthCheck
from kubeshare_py.exporters.gpu_requirement import requirement_page

PORT = 9005
_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class AggregatorPage:
    """The page of one aggregator at `path`. `unix_clock` gives Unix time in seconds."""

    def __init__(
        self, watch: RequirementWatch, path: str, unix_clock: Callable[[], float] = time.time
    ) -> None:
        self._watch = watch
        self._path = path
        self._unix_clock = unix_clock
        self._build = running_build()

    def routes(self) -> list[web.RouteDef]:
        """The routes of the page and of probes."""
        live = [HealthCheck("ping", lambda: "")]
        ready = [*live, HealthCheck("pods", self._watch.unlisted)]
        return [web.get(self._path, self._answer), *probes.routes(lambda: live, lambda: ready)]

    async def _answer(self, request: web.Request) -> web.Response:
        pods = self._watch.pods
        if pods is None:
            # A page without pods would mean that there are none.
            return web.Response(status=503, text=f"{self._watch.unlisted()}\n")
        text = requirement_page(pods, self._unix_clock(), self._build)
        return web.Response(body=text.encode(), headers={"Content-Type": _TYPE})


@asynccontextmanager
async def serve(watch: RequirementWatch, path: str, address: str, port: int) -> AsyncIterator[str]:
    """Serve while entered; yields the URL of the page. Raises OSError if it cannot listen.

    `address` "" is all, `port` 0 any free one.
    """
    application = web.Application()
    application.add_routes(AggregatorPage(watch, path).routes())
    async with listening(application, address, port, shutdown_s=1.0) as addresses:
        say_listening("kubeshare-aggregator", addresses, "http", path=path)
        yield f"{url('http', *addresses[0])}{path}"
