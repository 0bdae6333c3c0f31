"""The agent of one node, and its HTTP server."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Protocol

from aiohttp import web
from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.registry import Collector

from kubeshare_py.dialects.allocation import read_back
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeFailure
from kubeshare_py.edges.kube.watch import follow
from kubeshare_py.edges.node.card_sampler import CardSampler
from kubeshare_py.edges.node.collector_server import served_routes
from kubeshare_py.edges.node.node_annotation import REWRITE_S
from kubeshare_py.edges.process import decision_log, probes
from kubeshare_py.edges.process.backoff import Backoff
from kubeshare_py.edges.process.build import running_build
from kubeshare_py.edges.process.probes import HealthCheck
from kubeshare_py.exporters.metric import Metric, Values, build_collector
from kubeshare_py.exporters.node_agent_metrics import AgentFigures, agent_page
from kubeshare_py.manifests.api_paths import node_path
from kubeshare_py.manifests.partial_objects import NodePod
from kubeshare_py.manifests.watch import DELETED, Changes, Codec, ListResult, Problem, WatchLine
from kubeshare_py.node_agent.agent_report import ANNOTATION, PartReport, written
from kubeshare_py.node_agent.history import given_away
from kubeshare_py.node_agent.tenants import AgentState, NodeTenant, Tenants

# The agent of one node: keeps its pods and cards as values, and gives them to its parts.


# A part of the node agent: something that it does on its node with the pods and cards there.


class AgentPart(Protocol):
    """One part. All of its methods are called on the agent's event loop."""

    #: Set by the agent. The part calls it when `report` has changed.
    on_report: Callable[[], None]

    @property
    def name(self) -> str:
        """Unique, for probes: `/readyz/NAME`."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics that it has values of."""

    def take(self, state: AgentState) -> None:
        """Cards or pods of the node have changed. It must not wait nor raise."""

    def report(self) -> PartReport | None:
        """Its contribution to the Node's annotation; None if it does not know it yet.

        The annotation of the process before this one stays until every part knows.
        """

    def values(self) -> Values:
        """The values of its metrics now."""

    def problem(self) -> str:
        """Why it does not work now, "" if it does; without addresses and names of users."""

    async def run(self) -> None:
        """Work until cancelled. What it raises ends the agent."""


# Writes the node agent's annotation on its own Node: only when it changes, until it is there.


class AgentAnnotation:
    """The annotation with what `reports` gives, from when that is not None.

    It is written again after `rewrite_s`, in case another client changed it.
    """

    def __init__(
        self,
        client: KubeClient,
        node: NodeName,
        reports: Callable[[], Iterable[PartReport] | None],
        rewrite_s: float = REWRITE_S,
    ) -> None:
        self._client = client
        self._path = node_path(node)
        self._reports = reports
        self._rewrite_s = rewrite_s
        self._has_news = asyncio.Event()
        self._backoff = Backoff()
        self._written = ""
        self._written_at = 0.0

    def on_report(self) -> None:
        """A report has changed."""
        self._has_news.set()

    async def run(self) -> None:
        """Write for ever; failures are repeated."""
        while True:
            self._has_news.clear()
            try:
                await self._write()
            except KubeFailure as error:
                self._client.contact.failed("annotation", error, self._path)
                await self._backoff.pause()
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(self._rewrite_s):
                    await self._has_news.wait()

    async def _write(self) -> None:
        reports = self._reports()
        if reports is None:
            return
        text = written(reports)
        now = asyncio.get_running_loop().time()
        if text == self._written and now < self._written_at + self._rewrite_s:
            return
        body = {"metadata": {"annotations": {ANNOTATION: text}}}
        await self._client.merge_patch(self._path, body)
        self._written, self._written_at = text, now


# Watches the pods of one node.
#
# The watch selects by `spec.nodeName`. A pod enters it when it is bound, with the annotations of
# its Binding. It never leaves it alive, because its node never changes: DELETED is the pod's end. A
# selector of the phase would hide that: a pod that leaves it looks deleted, in its old state.


PODS = "/api/v1/pods"


class TenantWatch:
    """Keeps the pods of `node`. `on_change` is called after each batch that changes any."""

    def __init__(
        self, client: KubeClient, node: NodeName, on_change: Callable[[], None] = lambda: None
    ) -> None:
        self._client = client
        self._node = node
        self._on_change = on_change
        self._said: dict[PodUid, str] = {}
        self.tenants = Tenants()
        #: Whether the API server is in contact.
        self.is_connected = False

    async def run(self) -> None:
        """Watch for ever. While the API server is away, the pods stay as they are."""
        stream = follow(
            self._client,
            PODS,
            Codec(NodePod),
            selector={"fieldSelector": f"spec.nodeName={self._node}"},
            connected=self._connected,
        )
        async with aclosing(stream):
            async for update in stream:
                if self._take(update):
                    self._on_change()

    def _connected(self, is_connected: bool) -> None:
        self.is_connected = is_connected

    def _take(self, update: ListResult[NodePod] | Changes[NodePod]) -> bool:
        self.is_connected = True
        if isinstance(update, Changes):
            has_changed = [self._line(line) for line in update.changed]
            return any(has_changed)
        found = [one for pod in update.items if (one := tenant_of(pod)) is not None]
        undecoded = [self._undecoded(problem) for problem in update.problems]
        is_new = self.tenants.listed(found, undecoded)
        self._say(found)
        self._said = {one.uid: one.problem for one in found if one.problem}
        return is_new

    def _line(self, line: WatchLine[NodePod]) -> bool:
        if line.item is None:
            uid = self._undecoded(line.problem or Problem(text=""))
            return line.type == DELETED and self.tenants.changed(uid, None)
        tenant = None if line.type == DELETED else tenant_of(line.item)
        uid = PodUid(line.item.metadata.uid)
        if tenant is None:
            self._said.pop(uid, None)
        else:
            self._say([tenant])
        return self.tenants.changed(uid, tenant)

    def _undecoded(self, problem: Problem) -> PodUid:
        pod = f"{problem.namespace}/{problem.name}"
        decision_log.warn("pod", pod=pod, message=problem.text)
        return PodUid(problem.uid)

    def _say(self, tenants: Iterable[NodeTenant]) -> None:
        """Log each problem of a pod once."""
        for one in tenants:
            if one.problem and self._said.get(one.uid) != one.problem:
                self._said[one.uid] = one.problem
                decision_log.warn("allocation", pod=str(one.key), message=one.problem)


def tenant_of(pod: NodePod) -> NodeTenant | None:
    """The pod with what it holds; None if it is not bound, or has ended and holds nothing."""
    if not pod.may_hold:
        return None
    about = pod.metadata
    held = read_back(about.annotations or {})
    return NodeTenant(
        uid=PodUid(about.uid),
        key=PodKey(about.namespace, about.name),
        allocation=held.allocation,
        problem=held.problem,
        is_running=pod.status.phase == "Running",
    )


class NodeAgent:
    """The agent with its parts, which are told of every change of the node's pods and cards."""

    def __init__(
        self, client: KubeClient, sampler: CardSampler, parts: Sequence[AgentPart] = ()
    ) -> None:
        self.parts = parts
        self.state = AgentState()
        self.sampler = sampler
        self.watch = TenantWatch(client, self.node, self._look)
        self._annotation = AgentAnnotation(client, self.node, self.reports)
        sampler.on_reading = self._look
        for part in parts:
            part.on_report = self._annotation.on_report

    @property
    def node(self) -> NodeName:
        """The node that it runs on."""
        return self.sampler.node

    def reports(self) -> list[PartReport] | None:
        """What each part has to say; None until all of them know."""
        found = self._known()
        return found if len(found) == len(self.parts) else None

    def figures(self) -> AgentFigures:
        """The figures for its metrics."""
        cards, tenants = self.state.cards, self.state.tenants
        pods = None if tenants is None else [*tenants.values()]
        return AgentFigures(
            node=self.node,
            is_connected=self.watch.is_connected,
            cards=None if cards is None else len(cards),
            pods=None if pods is None else sum(one.holds_cards for one in pods),
            unreadable=None if pods is None else sum(bool(one.problem) for one in pods),
            enforces={one for report in self._known() for one in report.enforces},
        )

    def unlisted(self) -> str:
        """Why the node's pods are not known, "" if they are."""
        return "" if self.watch.tenants.is_listed else "the node's pods are not listed yet"

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.sampler.run())
            group.create_task(self.watch.run())
            group.create_task(self._annotation.run())
            for part in self.parts:
                group.create_task(part.run())

    def _known(self) -> list[PartReport]:
        return [found for part in self.parts if (found := part.report()) is not None]

    def _look(self) -> None:
        is_read = self.sampler.age_s is not None
        cards = given_away(self.sampler.cards()) if is_read else None
        state = AgentState(cards, self.watch.tenants.by_uid)
        if state == self.state:
            return
        self.state = state
        for part in self.parts:
            part.take(state)


# The node agent's HTTP server: /metrics, /livez and /readyz.


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
    """Serve while entered; yields the URL of the root. Raises CannotListen; see `served_routes`."""
    routes, about = AgentPage(agent).routes(), {"node": agent.node}
    async with served_routes("kubeshare-node-agent", routes, address, port, about) as root:
        yield root
