"""HTTP server of the simulated GPU collectors, and of a Prometheus that scrapes them.

Every answer of that Prometheus is as if all collectors had been scraped just now.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Self

import msgspec
from aiohttp import web

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.embedded_cluster.nodes.collectors import (
    Collectors,
    PrometheusAnswer,
    query,
    query_range,
    series_list,
)
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import SimulatedNode
from kubeshare_py.exporters.collector_metrics import PATH

_Parameters = dict[str, list[str]]


class SimulatedCollectors:
    """Serves while entered. `url` is Prometheus; `targets` makes cards and collectors fail."""

    def __init__(
        self,
        nodes: Iterable[SimulatedNode],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`port` 0 takes any free one; `clock` gives Unix time in seconds."""
        self.targets = Collectors(nodes)
        #: False makes Prometheus answer 503 to everything, as behind a proxy without backend.
        self.prometheus_answers = True
        #: The number of queries to Prometheus; `asked` is called for each.
        self.queries = 0
        self.asked: Callable[[], None] = _nothing
        self.url = ""
        self._clock = clock
        self._host, self._port = host, port
        self._runner = web.AppRunner(self._application(), access_log=None, shutdown_timeout=0.1)

    async def __aenter__(self) -> Self:
        """Raises OSError when the port is taken."""
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self._port).start()
        except OSError:
            await self._runner.cleanup()
            raise
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._runner.cleanup()

    def collector_url(self, node: NodeName) -> str:
        """The URL of the collector of one node."""
        return f"{self.url}/nodes/{node}{PATH}"

    def _application(self) -> web.Application:
        application = web.Application()
        application.router.add_get(f"/nodes/{{node}}{PATH}", self._collector)
        for path in ("/", "/-/ready", "/-/healthy"):
            application.router.add_get(path, self._ready)
        for path, answer in (
            ("/api/v1/query", self._query),
            ("/api/v1/query_range", self._query_range),
            ("/api/v1/series", self._series),
        ):
            application.router.add_get(path, self._api(answer))
            application.router.add_post(path, self._api(answer))
        return application

    async def _collector(self, request: web.Request) -> web.Response:
        node = NodeName(request.match_info["node"])
        page = self.targets.page(node, self._clock(), request.headers.get("Accept", ""))
        if page is None:
            return web.Response(status=503, text="the collector is down\n")
        return web.Response(body=page[0], headers={"Content-Type": page[1]})

    async def _ready(self, _request: web.Request) -> web.Response:
        if not self.prometheus_answers:
            return web.Response(status=503, text="Service Unavailable\n")
        return web.Response(text="Prometheus Server is Ready.\n")

    def _api(
        self, answer: Callable[[_Parameters], PrometheusAnswer]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handler(request: web.Request) -> web.Response:
            self.queries += 1
            self.asked()
            if not self.prometheus_answers:
                return web.Response(status=503, text="Service Unavailable\n")
            parameters = {name: request.query.getall(name) for name in request.query}
            form = await request.post()
            for name in form:
                texts = [text for text in form.getall(name) if isinstance(text, str)]
                parameters.setdefault(name, []).extend(texts)
            # In a thread: the answer for 40,000 cards takes half a second.
            status, body = await asyncio.to_thread(_encoded, answer, parameters)
            return web.Response(status=status, body=body, content_type="application/json")

        return handler

    def _query(self, parameters: _Parameters) -> PrometheusAnswer:
        now = self._clock()
        return query(_one(parameters, "query"), self.targets.series(now), now)

    def _query_range(self, parameters: _Parameters) -> PrometheusAnswer:
        start, end, step = (_one(parameters, name) or "" for name in ("start", "end", "step"))
        series = self.targets.series(self._clock())
        return query_range(_one(parameters, "query"), (start, end, step), series)

    def _series(self, parameters: _Parameters) -> PrometheusAnswer:
        return series_list(parameters.get("match[]", []), self.targets.series(self._clock()))


def _nothing() -> None:
    """Do nothing."""


def _encoded(
    answer: Callable[[_Parameters], PrometheusAnswer], parameters: _Parameters
) -> tuple[int, bytes]:
    found = answer(parameters)
    return found.status, msgspec.json.encode(found.body)


def _one(parameters: _Parameters, name: str) -> str | None:
    texts = parameters.get(name)
    return texts[0] if texts else None
