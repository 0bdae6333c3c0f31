"""The node agent's HTTP server: /metrics, /livez and /readyz."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from aiohttp import web
from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.registry import Collector

from kubeshare_py.edges.node.agent import NodeAgent
from kubeshare_py.edges.node.collector_server import CannotListen
from kubeshare_py.edges.process import probes
from kubeshare_py.edges.process.bounded_server import listening
from kubeshare_py.edges.process.build import running_build, say_listening, url
from kubeshare_py.edges.process.probes import HealthCheck
from kubeshare_py.exporters.build_info import build_collector
from kubeshare_py.exporters.node_agent_metrics import agent_page

PORT = 9006
METRICS = "/metrics"


class AgentPage:
    """The page and the probes of one agent."""

    def __init__(self, agent: NodeAgent) -> None:
        self._agent = agent
        own = CollectorRegistry()
        self._own: Sequence[Collector] = (
            build_collector(running_build()),
            ProcessCollector(registry=own),
            GCCollector(registry=own),
        )

    def routes(self) -> list[web.RouteDef]:
        """The routes of the page and of probes."""
        live = [HealthCheck("ping", lambda: "")]
        ready = [
            *live,
            HealthCheck("pods", self._agent.unlisted),
            *(HealthCheck(part.name, part.problem) for part in self._agent.parts),
        ]
        return [web.get(METRICS, self._answer), *probes.routes(lambda: live, lambda: ready)]

    async def _answer(self, request: web.Request) -> web.Response:
        parts = [(part.metrics, part.values()) for part in self._agent.parts]
        accept = request.headers.get("Accept", "")
        body, content_type = agent_page(self._agent.figures(), parts, accept, self._own)
        return web.Response(body=body, headers={"Content-Type": content_type})


@asynccontextmanager
async def serve(agent: NodeAgent, address: str, port: int) -> AsyncIterator[str]:
    """Serve while entered; yields the URL of the root. Raises CannotListen.

    `address` "" is all, `port` 0 any free one.
    """
    application = web.Application()
    application.add_routes(AgentPage(agent).routes())
    async with AsyncExitStack() as stack:
        try:
            addresses = await stack.enter_async_context(
                listening(application, address, port, shutdown_s=1.0)
            )
        except OSError as error:
            where = f"{address or '*'}:{port}"
            raise CannotListen(f"cannot listen on {where}: {error.strerror or error}") from error
        say_listening("kubeshare-node-agent", addresses, "http", node=agent.node)
        yield url("http", *addresses[0])
