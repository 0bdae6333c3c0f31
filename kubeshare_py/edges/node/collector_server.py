"""The collector's HTTP server: its page for Prometheus, /livez and /readyz."""

import gzip
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from aiohttp import web
from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.registry import Collector

from kubeshare_py.edges.node.card_sampler import CardSampler
from kubeshare_py.edges.process import probes, run_until_signal
from kubeshare_py.edges.process.bounded_server import listening
from kubeshare_py.edges.process.build import running_build, say_listening, url
from kubeshare_py.edges.process.probes import HealthCheck
from kubeshare_py.exporters.collector_metrics import PATH, CollectorFigures, cards_text, page
from kubeshare_py.exporters.metric import build_collector

PORT = 9004
#: Fast rather than small: the text is full of repetitions.
_LEVEL = 1


class CannotListen(OSError):
    """The address is in use or not this host's; the text says which."""


class CollectorPage:
    """The page of one collector."""

    def __init__(self, sampler: CardSampler) -> None:
        self._sampler = sampler
        #: The text of all cards, and what it was made from.
        self._cards: tuple[object, str] = (None, "")
        # Rendered ahead of the scrape, which then does not wait for it.
        sampler.on_reading = self._made
        own = CollectorRegistry()
        self._own: Sequence[Collector] = (
            build_collector(running_build()),
            ProcessCollector(registry=own),
            GCCollector(registry=own),
        )

    def routes(self) -> list[web.RouteDef]:
        """The routes of the page and of probes."""
        live = [HealthCheck("ping", lambda: "")]
        ready = [*live, HealthCheck("cards", self._sampler.unread)]
        return [web.get(PATH, self._answer), *probes.routes(lambda: live, lambda: ready)]

    def text(self, accept: str) -> tuple[bytes, str]:
        """The page in the preferred format, and its content type."""
        figures, cards = self._made()
        return page(figures, cards, self._sampler.listed_at(), accept, self._own)

    def _made(self) -> tuple[CollectorFigures, str]:
        """The present figures, and the text of all cards."""
        figures = self._sampler.figures()
        read = (self._sampler.history.read_at, bool(self._sampler.unread()))
        if self._cards[0] != read:
            self._cards = (read, cards_text(figures))
        return figures, self._cards[1]

    async def _answer(self, request: web.Request) -> web.Response:
        if self._sampler.age_s is None:
            # A page without cards would mean that there are none.
            return web.Response(status=503, text=f"{self._sampler.unread()}\n")
        body, content_type = self.text(request.headers.get("Accept", ""))
        headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            body = gzip.compress(body, _LEVEL)
            headers["Content-Encoding"] = "gzip"
        return web.Response(body=body, headers=headers)


@asynccontextmanager
async def serve(sampler: CardSampler, address: str, port: int) -> AsyncIterator[str]:
    """Serve while entered; yields the URL of the page. Raises CannotListen; see `served_routes`."""
    routes, about = CollectorPage(sampler).routes(), {"path": PATH, "node": sampler.node}
    async with served_routes("kubeshare-collector", routes, address, port, about) as root:
        run_until_signal.give_back()
        yield f"{root}{PATH}"


@asynccontextmanager
async def served_routes(
    program: str,
    routes: Iterable[web.RouteDef],
    address: str,
    port: int,
    about: Mapping[str, str],
) -> AsyncIterator[str]:
    """Serve without TLS while entered; yields the URL of the root. Raises CannotListen.

    `address` "" is all, `port` 0 any free one. `about` is for the log.
    """
    application = web.Application()
    application.add_routes(routes)
    async with AsyncExitStack() as stack:
        try:
            addresses = await stack.enter_async_context(
                listening(application, address, port, shutdown_s=1.0)
            )
        except OSError as error:
            where = f"{address or '*'}:{port}"
            raise CannotListen(f"cannot listen on {where}: {error.strerror or error}") from error
        say_listening(program, addresses, "http", **about)
        yield url("http", *addresses[0])
