"""All endpoints of one scheduler process: its port, its state, its health, its metrics."""

import asyncio
import ssl
import tempfile
import zlib
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter, time

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from msgspec import UNSET
from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector, generate_latest

from kubeshare_py.configuration.scheduler import (
    ConfigurationError,
    HamiMetrics,
    SchedulerConfiguration,
    Server,
)
from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.lease import LeaderFigures
from kubeshare_py.domain.quota import QuotaNames
from kubeshare_py.domain.values import replace
from kubeshare_py.edges.kube.certificates import CertificateFiles, Pace, SelfSignedCa, api_service
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.delegated_auth import MAX_ASKED, NOT_VALID, DelegatedAuth, Denial
from kubeshare_py.edges.process import probes
from kubeshare_py.edges.process.bounded_server import Bounds, listening
from kubeshare_py.edges.process.build import running_build, say_listening, url
from kubeshare_py.edges.process.connection_abort import abort
from kubeshare_py.edges.process.own_names import own_version
from kubeshare_py.edges.process.probes import HealthCheck
from kubeshare_py.edges.scheduler import state_api
from kubeshare_py.edges.scheduler.configuration_file import accepted_tokens
from kubeshare_py.edges.scheduler.leadership import Leadership
from kubeshare_py.edges.scheduler.process_health import ProcessHealth
from kubeshare_py.edges.scheduler.state_access import (
    NO_TOKENS,
    FrontProxy,
    StateAccess,
    bearer,
    is_one_of,
)
from kubeshare_py.edges.scheduler.state_api import StateApi, Views, ViewStreams
from kubeshare_py.edges.scheduler.writes.report_lane import ReportLane
from kubeshare_py.event_log.records import LogHeader
from kubeshare_py.event_log.snapshot import snapshot_pieces
from kubeshare_py.exporters.client_metrics import RequestTallies, leader_values
from kubeshare_py.exporters.hami_metrics import HamiSchedulerPage
from kubeshare_py.exporters.metric import build_values
from kubeshare_py.exporters.scheduler_metrics import (
    CardPage,
    ProcessFigures,
    WriteFigures,
    held_text,
    page,
    scheduler_values,
)
from kubeshare_py.inventory.card_use import MeasuredUse
from kubeshare_py.manifests.state_group import API_SERVICE
from kubeshare_py.scheduling.explain.explanation import cluster_portions, pod_portions, why_steps
from kubeshare_py.scheduling.explain.figures import (
    card_figures,
    decision_figures,
    ledger_figures,
    pod_figures,
    quota_uses,
    shared_cards,
)
from kubeshare_py.scheduling.explain.prospects import prospect_steps
from kubeshare_py.scheduling.explain.question import namespaces
from kubeshare_py.scheduling.machine import Machine, known_events
from kubeshare_py.views.figures import PodFigures
from kubeshare_py.views.view import ClusterView, NodeView, SchedulerView

# The scheduler's port over HTTPS, which needs a bearer token: a metrics page, checks, the state.
#
# A token is one of the token file's, or one whose owner may get the path by RBAC. The state's API
# group is left to `state_api`, which identifies the reader itself.


#: Why the owner of a token may not do a verb to a path; None if it is allowed.
Denies = Callable[[str, str, str], Awaitable[Denial | None]]


@asynccontextmanager
async def serve(
    settings: Server,
    context: ssl.SSLContext,
    routes: Iterable[web.RouteDef],
    *,
    denial: Denies | None = None,
) -> AsyncIterator[str]:
    """Serve while the context is open; yields the URL.

    `context` has the certificate. `denial` checks tokens that are not in the token file. Without
    both, every request is refused except for health checks and `state_api`, which checks access
    itself.
    Raises ConfigurationError for files that cannot be used.
    """
    tokens = accepted_tokens(settings.token_file)
    app = web.Application(middlewares=[_guard(tokens, denial)])
    app.router.add_routes(routes)
    async with AsyncExitStack() as stack:
        host, port = settings.bind_address, settings.port
        try:
            addresses = await stack.enter_async_context(listening(app, host, port, context=context))
        except OSError as error:
            where = f"{host}:{port}"
            raise ConfigurationError(f"server: cannot listen on {where}: {error}") from error
        say_listening("kubeshare-scheduler", addresses, "https")
        yield url("https", *addresses[0])


def _guard(tokens: Collection[str], denial: Denies | None) -> Middleware:
    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if f"/{request.path.removeprefix('/').split('/')[0]}" in probes.PATHS:
            return await handler(request)
        if state_api.owns(request.path):
            return await handler(request)  # it identifies the reader itself
        given = bearer(request)
        if is_one_of(given, tokens):
            return await handler(request)
        if denial is None:
            message = NOT_VALID.message if tokens else NO_TOKENS
            return _answer(NOT_VALID.status, {"message": message})
        denied = await denial(given, request.method.lower(), request.path) if given else NOT_VALID
        if denied is not None:
            return _answer(denied.status, {"message": denied.message})
        return await handler(request)

    return check


def _answer(status: int, value: object) -> web.Response:
    return web.Response(
        status=status, body=msgspec.json.encode(value), content_type="application/json"
    )


# All endpoints of one scheduler process: its state, its health, its metrics.


# The checks of the scheduler's /livez and /readyz.


#: Seconds without an iteration after which the process should be restarted.
LONGEST_SILENCE_S = 60.0
#: Seconds that a watch may be disconnected: a restart of the API server.
LONGEST_LOSS_S = 60.0
#: The most missed readings of the inventory, and at least this time (s).
READINGS_MISSED, LONGEST_UNREAD_S = 5, 60.0
#: Lateness of iterations (s) beyond which it is reported.
MAX_LAG_S = 1.0


def live_checks(process_health: ProcessHealth) -> list[HealthCheck]:
    """Checks of problems that only a restart solves."""
    return [
        HealthCheck("ping", lambda: ""),
        HealthCheck("decision-loop", lambda: _silence(process_health)),
    ]


def ready_checks(process_health: ProcessHealth, interval_s: float) -> list[HealthCheck]:
    """Checks of what right and timely decisions need; `interval_s` is the inventory's."""
    return [
        *live_checks(process_health),
        HealthCheck(
            "pods-and-nodes-listed", lambda: "" if process_health.machine.ready else "not yet"
        ),
        *(
            HealthCheck(f"watch-{name}", partial(_loss, process_health, name))
            for name in process_health.watches
        ),
        HealthCheck("inventory", lambda: _unread(process_health, interval_s)),
        HealthCheck("loop-lag", lambda: _lag(process_health)),
    ]


def leading_check(leads: Callable[[], bool]) -> HealthCheck:
    """A check that only the leader passes: kube-scheduler's requests are for the leader alone."""
    return HealthCheck("leader", lambda: "" if leads() else "another process leads")


def _silence(process_health: ProcessHealth) -> str:
    if not process_health.iterations:
        return ""  # the process stands by
    silent_s = process_health.clock() - process_health.last_iteration_at
    return f"no iteration for {silent_s:.0f} s" if silent_s > LONGEST_SILENCE_S else ""


def _loss(process_health: ProcessHealth, watch: str) -> str:
    lost_s = process_health.lost_s(watch)
    return f"not connected for {lost_s:.0f} s" if lost_s > LONGEST_LOSS_S else ""


def _unread(process_health: ProcessHealth, interval_s: float) -> str:
    age_s = process_health.inventory_age_s()
    since_s = process_health.clock() - process_health.started_at if age_s is None else age_s
    if since_s <= max(LONGEST_UNREAD_S, READINGS_MISSED * interval_s):
        return ""
    return f"not read for {since_s:.0f} s" if age_s is not None else "never read"


def _lag(process_health: ProcessHealth) -> str:
    lag_s = process_health.lag_s
    return f"iterations came {lag_s:.1f} s late in the last minute" if lag_s > MAX_LAG_S else ""


# HAMi's metrics on a port of their own, without TLS and tokens, as HAMi's scheduler has them.
#
# Any client of the port may ask, and read slowly. So a page is made in portions, with decisions
# between, no more often than takes a small part of the time, and is the same bytes for all readers.


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
            spent_s = 0.0
            began_s = perf_counter()
            pieces: list[bytes] = []
            for piece in hami_pieces(self.machine, self.quotas, legacy=self.legacy):
                pieces.append(piece)
                spent_s += await _pause(began_s)
                began_s = perf_counter()
            self._page = tuple(filter(None, pieces))
            self._until = asyncio.get_running_loop().time() + spent_s / _SHARE
            return self._page


def hami_pieces(
    machine: Machine, quotas: Collection[QuotaNames], *, legacy: bool
) -> Iterator[bytes]:
    """The page, each piece in some milliseconds; those that only gather figures are empty."""
    made = HamiSchedulerPage(running_build(), legacy=legacy)
    for cards, parts in shared_cards(machine):
        made.add(cards, parts)
        yield b""
    for uses in quota_uses(machine, quotas):
        made.add_quotas(uses)
        yield b""
    yield from made.chunks()


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


# GET /metrics: all metrics of the scheduler, gathered on request.
#
# A large cluster's page has a quarter of a million lines. It is made in portions between which
# other tasks run, compressed in a thread, and sent in pieces.


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
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
            inventory_source=process_health.inventory_source,
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
        found.append(held_text(process_health.held.seconds(process_health.clock())))
        await asyncio.sleep(0)
        cards = CardPage()
        for portion in card_figures(machine):
            cards.add(portion)
            await asyncio.sleep(0)
        return [*filter(None, found), *cards.chunks()]

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


#: Only readers of the state wait for the API server's trust, and the APIService may be created
#: later.
PACE = Pace(retry_s=0.25)


@asynccontextmanager
async def endpoints(
    configuration: SchedulerConfiguration,
    client: KubeClient,
    process_health: ProcessHealth,
    reports: ReportLane,
    leadership: Leadership,
    dialects: Dialects,
) -> AsyncIterator[str]:
    """Serve while entered; yields the URL. Raises ConfigurationError for unusable files.

    Access reviews use the credentials of `client`, but on connections of their own: not behind
    binds, and also while another process leads.
    """
    machine = process_health.machine
    page = MetricsPage(
        process_health,
        lambda: WriteFigures(reports.queued, reports.dropped, reports.failures.counts),
        client.tallies,
        leadership.figures,
    )
    async with AsyncExitStack() as stack:
        asking = await stack.enter_async_context(client.another(concurrency=MAX_ASKED))
        own = await stack.enter_async_context(client.another(concurrency=1))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kubeshare-")))
        certificate = _certificate(configuration, own, folder)
        proxy = FrontProxy(own, certificate.context)
        reviews = DelegatedAuth(asking, process_health.clock)
        access = StateAccess(
            tokens=accepted_tokens(configuration.server.token_file),
            reviews=reviews,
            forwarded=proxy.user,
            namespaces=lambda: namespaces(machine),
        )
        views, streams = _views(process_health, configuration, dialects), ViewStreams()
        url = await stack.enter_async_context(
            serve(
                configuration.server,
                certificate.context,
                [
                    *_checks(process_health, configuration, leadership),
                    *page.routes(),
                    *StateApi(views, access, streams).routes(),
                ],
                denial=reviews.denial,
            )
        )
        hami_page = serve_hami_metrics(configuration.hami_metrics, machine, dialects.quota_names)
        await stack.enter_async_context(hami_page)
        group = await stack.enter_async_context(asyncio.TaskGroup())
        running = [group.create_task(certificate.keep())]
        if configuration.server.api_service:
            running.append(group.create_task(proxy.keep()))
        try:
            yield url
        finally:
            for task in running:
                task.cancel()


def _checks(
    process_health: ProcessHealth, configuration: SchedulerConfiguration, leadership: Leadership
) -> list[web.RouteDef]:
    interval_s = configuration.inventory.interval_seconds
    leads = []
    if configuration.extends:
        leads.append(leading_check(leadership.may_send))
    return probes.routes(
        lambda: live_checks(process_health),
        lambda: [*ready_checks(process_health, interval_s), *leads],
    )


def _views(
    process_health: ProcessHealth, configuration: SchedulerConfiguration, dialects: Dialects
) -> Views:
    machine = process_health.machine
    return Views(
        ready=lambda: machine.ready,
        cluster=lambda topology, sees: _with_source(
            _with_uses(cluster_portions(machine, topology=topology, sees=sees), process_health),
            process_health,
        ),
        pods=lambda namespace, sees: pod_portions(machine, namespace, sees),
        why=lambda key, sees: why_steps(machine, key, sees),
        prospect=lambda pod, sees: prospect_steps(machine, pod, sees),
        schedulers=lambda: _schedulers(machine, dialects),
        snapshot=lambda: _snapshot(process_health, configuration),
        dialects=dialects,
    )


def _snapshot(
    process_health: ProcessHealth, configuration: SchedulerConfiguration
) -> Iterator[bytes]:
    """All that is known now, in pieces that are made later."""
    machine, now = process_health.machine, process_health.clock()
    used = process_health.configured or configuration.profiles
    header = LogHeader(
        name=machine.name,
        version=own_version(),
        session=machine.name,
        file=0,
        now=now,
        wall=time(),
        configuration=msgspec.structs.replace(configuration, profiles=used),
        is_snapshot=True,
    )
    # The events are of this moment; values are frozen, so that they may be written meanwhile.
    return snapshot_pieces(header, [*known_events(machine, now)])


def _schedulers(machine: Machine, dialects: Dialects) -> list[SchedulerView]:
    return [
        SchedulerView(
            name=name,
            dialects=tuple(one.name for one in dialects.of(name).dialects),
            extender=profile.extender,
        )
        for name, profile in machine.profiles.items()
    ]


def _with_source(
    portions: Iterable[ClusterView], process_health: ProcessHealth
) -> Iterator[ClusterView]:
    """The portions, of which the first has all that is no list: also the source of the cards."""
    rest = iter(portions)
    yield replace(next(rest), source=process_health.inventory_source)
    yield from rest


def _with_uses(
    portions: Iterable[ClusterView], process_health: ProcessHealth
) -> Iterator[ClusterView]:
    """The portions, with what is really used of the cards of nodes that are not silent."""
    now = process_health.clock
    for portion in portions:
        uses = {
            node.name: process_health.card_uses.of(NodeName(node.name), now())
            for node in portion.nodes
            if not node.silent
        }
        if any(uses.values()):
            nodes = (_used(node, uses.get(node.name, {})) for node in portion.nodes)
            yield replace(portion, nodes=tuple(nodes))
        else:
            yield portion


def _used(node: NodeView, uses: Mapping[str, MeasuredUse]) -> NodeView:
    return replace(
        node,
        cards=tuple(
            replace(
                card,
                busy_milli=UNSET if use.busy_milli is None else use.busy_milli,
                in_use_bytes=UNSET if use.in_use_bytes is None else use.in_use_bytes,
            )
            if (use := uses.get(card.uuid)) is not None and card.known
            else card
            for card in node.cards
        ),
    )


def _certificate(
    configuration: SchedulerConfiguration, client: KubeClient, folder: Path
) -> CertificateFiles | SelfSignedCa:
    """The certificate of the files; or a self-made one, which is added to the APIService."""
    settings = configuration.server
    if settings.certificate_file:
        setting = "server.certificateFile:"
        return CertificateFiles(settings.certificate_file, settings.key_file, setting)
    host = f"{settings.service}.{configuration.leader_election.resource_namespace}"
    names = (f"{host}.svc", host, "localhost")
    caller = api_service(API_SERVICE) if settings.api_service else None
    return SelfSignedCa(client, caller, names, folder, PACE)
