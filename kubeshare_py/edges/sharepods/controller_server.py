"""The controller's HTTP server: /metrics, /livez and /readyz."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.process import probes
from kubeshare_py.edges.process.bounded_server import listening
from kubeshare_py.edges.process.build import running_build, say_listening, url
from kubeshare_py.edges.process.probes import HealthCheck
from kubeshare_py.edges.scheduler.leadership import Leadership
from kubeshare_py.exporters.build_info import build_collector
from kubeshare_py.exporters.share_pod_metrics import ControllerFigures, controller_page
from kubeshare_py.sharepods import figures
from kubeshare_py.sharepods.reconciler import Reconciler

PORT = 9007
METRICS = "/metrics"


class ControllerPage:
    """The page and the probes of one controller; `dropped` gives the events given up so far."""

    def __init__(
        self,
        reconciler: Reconciler,
        client: KubeClient,
        leadership: Leadership,
        dropped: Callable[[], int],
    ) -> None:
        self._reconciler = reconciler
        self._client = client
        self._leadership = leadership
        self._dropped = dropped
        own = CollectorRegistry()
        self._own = (
            build_collector(running_build()),
            ProcessCollector(registry=own),
            GCCollector(registry=own),
        )

    def routes(self) -> list[web.RouteDef]:
        """The routes of the page and of probes."""
        live = [HealthCheck("ping", lambda: "")]
        ready = [*live, HealthCheck("sharepods-and-pods-listed", self._unlisted)]
        return [web.get(METRICS, self._answer), *probes.routes(lambda: live, lambda: ready)]

    def _unlisted(self) -> str:
        """A replica that stands by is ready: it has nothing to list."""
        leader = self._leadership.figures()
        stands_by = leader is not None and not leader.leads
        return "" if stands_by or self._reconciler.is_ready else "not yet"

    async def _answer(self, request: web.Request) -> web.Response:
        found = ControllerFigures(
            phases=figures.phases(self._reconciler),
            failing=figures.failing(self._reconciler),
            under_way=figures.under_way(self._reconciler),
            dropped=self._dropped(),
        )
        requests, accept = self._client.tallies.values(), request.headers.get("Accept", "")
        leader = self._leadership.figures()
        body, kind = controller_page(found, leader, requests, accept, self._own)
        return web.Response(body=body, headers={"Content-Type": kind})


@asynccontextmanager
async def serve(page: ControllerPage, address: str, port: int) -> AsyncIterator[str]:
    """Serve while entered; yields the URL of the root. Raises OSError if it cannot listen.

    `address` "" is all, `port` 0 any free one.
    """
    application = web.Application()
    application.add_routes(page.routes())
    async with listening(application, address, port, shutdown_s=1.0) as addresses:
        say_listening("kubeshare-controller", addresses, "http")
        yield url("http", *addresses[0])
