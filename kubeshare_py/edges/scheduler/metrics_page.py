"""GET /metrics: all metrics of the scheduler, gathered on request.

A large cluster's page has a quarter of a million lines. It is made in portions between which other
tasks run, compressed in a thread, and sent in pieces.
"""

import asyncio
import zlib
from collections.abc import Callable, Iterable

from aiohttp import web
from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector, generate_latest

from kubeshare_py.domain.lease import LeaderFigures
from kubeshare_py.edges.process.build import running_build
from kubeshare_py.edges.scheduler.process_health import ProcessHealth
from kubeshare_py.exporters.build_info import build_values
from kubeshare_py.exporters.card_metrics import CardPage
from kubeshare_py.exporters.client_metrics import RequestTallies, leader_values
from kubeshare_py.exporters.scheduler_metrics import (
    ProcessFigures,
    WriteFigures,
    page,
    scheduler_values,
)
from kubeshare_py.scheduling.explain.figures import (
    card_figures,
    decision_figures,
    ledger_figures,
    pod_figures,
)
from kubeshare_py.views.figures import PodFigures

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PATH = "/metrics"
#: Fast rather than small: the text is full of repetitions.
_LEVEL, _GZIP = 1, 31


class MetricsPage:
    """The page of one scheduler; one scrape is answered at a time."""

    def __init__(
        self,
        process_health: ProcessHealth,
        writes: Callable[[], WriteFigures],
        requests: RequestTallies,
        leader: Callable[[], LeaderFigures | None],
    ) -> None:
        """`writes` gives what waits to be written now, and what failed so far."""
        self._health = process_health
        self._writes = writes
        self._requests = requests
        self._leader = leader
        self._build = build_values(running_build())
        self._lock = asyncio.Lock()
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        GCCollector(registry=self._process)

    def routes(self) -> list[web.RouteDef]:
        """The route."""
        return [web.get(PATH, self._answer)]

    async def chunks(self) -> list[bytes]:
        """The text in pieces; each took some milliseconds to make."""
        process_health, machine = self._health, self._health.machine
        process = ProcessFigures(
            decisions=decision_figures(machine),
            inventory_age_s=process_health.inventory_age_s(),
            writes=self._writes(),
            loop_lag_s=process_health.lag_s,
            event_log=process_health.event_log,
        )
        ledger, pods = ledger_figures(machine), PodFigures()
        for counted in pod_figures(machine):
            pods = counted
            await asyncio.sleep(0)
        values = {
            **scheduler_values(ledger, pods, process, process_health.tallies),
            **self._requests.values(),
            **leader_values(self._leader()),
            **self._build,
        }
        found = [page(values)]
        await asyncio.sleep(0)
        found.append(generate_latest(self._process))
        cards = CardPage()
        for portion in card_figures(machine):
            cards.add(portion)
            await asyncio.sleep(0)
        return [*found, *cards.chunks()]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        async with self._lock:
            chunks = await self.chunks()
            response = web.StreamResponse(headers={"Content-Type": CONTENT_TYPE})
            if "gzip" in request.headers.get("Accept-Encoding", ""):
                response.headers["Content-Encoding"] = "gzip"
                chunks = await asyncio.to_thread(_compressed, chunks)
            await response.prepare(request)
            for chunk in chunks:
                await response.write(chunk)
            await response.write_eof()
        return response


def _compressed(chunks: Iterable[bytes]) -> list[bytes]:
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    packed = [packer.compress(chunk) for chunk in chunks]
    return [piece for piece in (*packed, packer.flush()) if piece]
