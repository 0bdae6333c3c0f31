"""The controller of SharePods: a reconciler among its watches, its requests, its HTTP server."""

import asyncio
import contextlib
import datetime
import math
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Generic, TypeVar, assert_never

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector

from kubeshare_py.domain.events import TimePassed
from kubeshare_py.domain.identity import PodKey, PodUid
from kubeshare_py.edges.kube.client import (
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    KubeAnswer,
    KubeClient,
)
from kubeshare_py.edges.kube.errors import KubeError, KubeFailure, KubeUnreachable
from kubeshare_py.edges.kube.watch import follow_reduced
from kubeshare_py.edges.process import decision_log, probes
from kubeshare_py.edges.process.backoff import Sleep
from kubeshare_py.edges.process.bounded_server import listening
from kubeshare_py.edges.process.build import running_build, say_listening, url
from kubeshare_py.edges.process.probes import HealthCheck
from kubeshare_py.edges.scheduler.leadership import Leadership
from kubeshare_py.edges.scheduler.writes.report_requests import (
    EventKey,
    EventSeries,
    RepeatedEvent,
    send_event,
)
from kubeshare_py.exporters.metric import build_collector
from kubeshare_py.exporters.share_pod_metrics import ControllerFigures, controller_page
from kubeshare_py.manifests.api_paths import pod_path
from kubeshare_py.manifests.decoding import UNDECODABLE
from kubeshare_py.manifests.reports import Regarding, ReportedEvent
from kubeshare_py.manifests.shallow_json import decoded
from kubeshare_py.manifests.share_pods import (
    API_VERSION,
    KIND,
    PODS,
    SHARE_PODS,
    PodBehindFields,
    SharePodFields,
    adoption_patch,
    card_name_patch,
    delete_options,
    pod_behind,
    pods_path,
    share_pod_path,
    status_patch,
)
from kubeshare_py.manifests.watch import DELETED, Changes, Codec, ListResult, Problem, WatchLine
from kubeshare_py.sharepods import figures
from kubeshare_py.sharepods.effects import (
    AdoptPod,
    CreatePod,
    DeletePod,
    EffectAnswered,
    PodBehindGone,
    PodBehindSeen,
    PodFound,
    PodsBehindListed,
    ReportSharePod,
    RequestDone,
    RequestFailed,
    RequestOutcome,
    SharePodEvent,
    SharePodGone,
    SharePodRequest,
    SharePodSeen,
    SharePodsListed,
    SharePodStored,
    WriteCardName,
    WriteStatus,
)
from kubeshare_py.sharepods.reconciler import Reconciler, key_of
from kubeshare_py.sharepods.share_pod import PodBehind, SharePod, SharePodUid

# The reconciler's requests, each sent to the API server once and answered.


T = TypeVar("T")
ReadSharePod = Callable[[SharePodFields], SharePod]
Clock = Callable[[], datetime.datetime]

TIMEOUT_S = 10.0


def utc_now() -> datetime.datetime:
    """The time of day."""
    return datetime.datetime.now(tz=datetime.UTC)


class SharePodRequests:
    """Sends requests with one client; `clock` gives UTC."""

    def __init__(self, client: KubeClient, read: ReadSharePod, clock: Clock = utc_now) -> None:
        self._client = client
        self._clock = clock
        self._read = read
        self._share_pods = _Answers(SharePodFields)
        self._pods = _Answers(PodBehindFields)

    async def perform(self, request: SharePodRequest) -> RequestOutcome:
        """Send it, and return what came of it; never raises for errors of the server."""
        try:
            return await self._sent(request)
        except KubeError as error:
            return RequestFailed(
                message=error.message or str(error),
                is_definite=not error.may_pass and error.status != HTTPStatus.CONFLICT,
                retry_after_s=error.retry_after_s or 0.0,
            )
        except KubeFailure as error:
            return RequestFailed(message=str(error))

    async def _sent(self, request: SharePodRequest) -> RequestOutcome:
        match request:
            case CreatePod():
                return await self._create(request.share_pod)
            case DeletePod():
                return await self._delete(request)
            case AdoptPod():
                return await self._adopt(request)
            case WriteStatus():
                return await self._write_status(request)
            case WriteCardName():
                return await self._write_card_name(request)
            case _:
                assert_never(request)

    async def _create(self, share: SharePod) -> PodFound:
        body = share.template.manifest
        try:
            answer = await self._send("POST", pods_path(share.key.namespace), body)
        except KubeError as error:
            if error.reason != "AlreadyExists":
                raise
            # Ours, if the answer to an earlier try was lost.
            answer = await self._client.request("GET", pod_path(share.key), timeout_s=TIMEOUT_S)
        return self._found(answer)

    async def _delete(self, request: DeletePod) -> RequestDone:
        body = delete_options(request.uid, request.version)
        try:
            await self._send("DELETE", pod_path(request.key), body)
        except KubeError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
        return RequestDone()

    async def _adopt(self, request: AdoptPod) -> PodFound:
        body = adoption_patch(request.share_pod, request.uid)
        return self._found(
            await self._patch(pod_path(request.share_pod.key), body, STRATEGIC_PATCH)
        )

    async def _write_status(self, request: WriteStatus) -> SharePodStored:
        now = self._clock().strftime("%Y-%m-%dT%H:%M:%SZ")
        body = status_patch(request.share_pod, request.status, now)
        return await self._write(request.share_pod.key, "/status", body, JSON_PATCH)

    async def _write_card_name(self, request: WriteCardName) -> SharePodStored:
        body = card_name_patch(request.share_pod, request.card_name)
        return await self._write(request.share_pod.key, "", body, MERGE_PATCH)

    async def _write(
        self, key: PodKey, part: str, body: object, content_type: str
    ) -> SharePodStored:
        answer = await self._patch(share_pod_path(key) + part, body, content_type)
        return SharePodStored(self._read(self._share_pods.object(answer)))

    def _found(self, answer: KubeAnswer) -> PodFound:
        return PodFound(pod_behind(self._pods.object(answer)))

    async def _send(self, method: str, path: str, body: object) -> KubeAnswer:
        return await self._client.request(method, path, body=body, timeout_s=TIMEOUT_S)

    async def _patch(self, path: str, body: object, content_type: str) -> KubeAnswer:
        return await self._client.request(
            "PATCH", path, body=body, content_type=content_type, timeout_s=TIMEOUT_S
        )


class _Answers(Generic[T]):
    """Answers that are one object of a kind."""

    def __init__(self, kind: type[T]) -> None:
        self._decoder = msgspec.json.Decoder(kind)

    def object(self, answer: KubeAnswer) -> T:
        """The object. Raises KubeUnreachable if it cannot be read."""
        try:
            return decoded(self._decoder, answer.body)
        except UNDECODABLE as error:
            raise KubeUnreachable(f"not an answer of an API server: {error}") from error


# Events about SharePods, written behind the requests; repeated ones are counted.


#: As KubeShare 1.0 named itself in events.
CONTROLLER = "kubeshare-controller"
_ACTION = "Reconciling"
WORKERS = 2
TICK_S = 60.0
RETRY_S = 2.0


class SharePodEvents:
    """Takes reports without waiting; `run` writes them. `instance` names this process."""

    def __init__(self, client: KubeClient, instance: str, clock: Clock = utc_now) -> None:
        self._client = client
        self._instance = instance
        self._clock = clock
        self._series = EventSeries()
        self._wakeup = asyncio.Event()

    @property
    def dropped(self) -> int:
        """Events given up so far."""
        return self._series.dropped

    def report(self, effect: ReportSharePod) -> None:
        """Take an event."""
        about = Regarding(
            api_version=API_VERSION,
            kind=KIND,
            namespace=effect.key.namespace,
            name=effect.key.name,
            uid=effect.uid,
        )
        event = ReportedEvent(
            regarding=about,
            reason=effect.reason,
            note=effect.note,
            at=self._clock(),
            controller=CONTROLLER,
            action=_ACTION,
        )
        self._series.occurred(event, self._now())
        self._wakeup.set()

    async def run(self) -> None:
        """Write them, for ever."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self._work())
            group.create_task(self._tick())

    async def _work(self) -> None:
        while True:
            self._wakeup.clear()
            taken = self._series.queue.take(self._now())
            if taken is not None:
                await self._write(*taken)
                continue
            due = self._series.queue.next_due()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if due is None else max(due - self._now(), 0.0)):
                    await self._wakeup.wait()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self._series.tick(self._now())
            self._wakeup.set()

    async def _write(self, key: EventKey, series: RepeatedEvent) -> None:
        count = series.count
        try:
            await send_event(self._client, series, count, self._instance)
        except KubeFailure as error:
            if isinstance(error, KubeError) and not error.may_pass:
                decision_log.detail("event refused", message=str(error))
                self._series.refused(key, series)
            else:
                self._series.failed(key, series, self._now(), RETRY_S)
            return
        self._series.written(key, series, count, self._now())

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


# One reconciler among its watches: events go in, requests go out, and their answers in again.


@dataclass(slots=True)
class ControllerLoop:
    """`group` is where requests run; nothing is said or sent but what the reconciler asks for."""

    reconciler: Reconciler
    requests: SharePodRequests
    events: SharePodEvents
    group: asyncio.TaskGroup
    _wakeup: asyncio.Event = field(default_factory=asyncio.Event)

    def deliver(self, event: SharePodEvent) -> None:
        """Let the reconciler take in an event, and begin what it asks for."""
        for effect in self.reconciler.handle(event, self._now()):
            if isinstance(effect, ReportSharePod):
                self.events.report(effect)
            else:
                self.group.create_task(self._perform(effect))
        self._wakeup.set()

    async def keep_time(self) -> None:
        """Tell the reconciler when the time comes that it waits for, for ever."""
        while True:
            self._wakeup.clear()
            wait_s = self.reconciler.wake_at() - self._now()
            with suppress(TimeoutError):
                async with asyncio.timeout(None if wait_s == math.inf else max(wait_s, 0.0)):
                    await self._wakeup.wait()
            if self.reconciler.wake_at() <= self._now():
                self.deliver(TimePassed())

    async def _perform(self, request: SharePodRequest) -> None:
        outcome = await self.requests.perform(request)
        _log(request, outcome)
        self.deliver(EffectAnswered(request, outcome))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _log(request: SharePodRequest, outcome: RequestOutcome) -> None:
    """One line for each pod that is made, deleted or refused; of writes, only failures."""
    verb = {CreatePod: "create pod", DeletePod: "delete pod", WriteStatus: "status",
            WriteCardName: "GPUID"}.get(type(request), "adopt pod")  # fmt: skip
    about = {"sharepod": str(key_of(request))}
    if isinstance(outcome, RequestFailed):
        decision_log.warn(verb, **about, message=outcome.message)
    elif isinstance(request, WriteStatus | WriteCardName):
        decision_log.detail(verb, **about)
    else:
        decision_log.inform(verb, **about)


# Follows all SharePods, and all pods of the cluster: any of them may have a SharePod's name.


DeliverShareEvent = Callable[[SharePodEvent], None]
#: Seconds between searches for the definition of SharePods.
LOOK_S = 5.0
#: Objects in one answer, where lists are not streamed. Tenants may write SharePods of 1.5 MB, and
#: pods nearly as long.
SHARE_POD_PAGE, POD_PAGE = 25, 100
NOT_DEFINED = "SharePods are not defined in this cluster: install the chart with sharePods.enabled"


async def watch_share_pods(
    client: KubeClient, read: ReadSharePod, deliver: DeliverShareEvent, sleep: Sleep = asyncio.sleep
) -> None:
    """Follow SharePods for ever, and wait for their definition."""
    said = False
    while True:
        stream = follow_reduced(
            client,
            SHARE_PODS,
            Codec(SharePodFields),
            read,
            gives_up_at=frozenset({HTTPStatus.NOT_FOUND}),
            page_size=SHARE_POD_PAGE,
        )
        try:
            async with aclosing(stream) as updates:
                async for update in updates:
                    for event in _share_pod_events(update, read):
                        deliver(event)
        except KubeError:
            # With the definition, all SharePods are gone.
            deliver(SharePodsListed(()))
            if not said:
                decision_log.warn("sharepods", message=NOT_DEFINED)
            said = True
        await sleep(LOOK_S)


async def watch_pods(client: KubeClient, deliver: DeliverShareEvent) -> None:
    """Follow pods for ever."""
    stream = follow_reduced(client, PODS, Codec(PodBehindFields), pod_behind, page_size=POD_PAGE)
    async with aclosing(stream) as updates:
        async for update in updates:
            for event in _pod_events(update):
                deliver(event)


def _share_pod_events(
    update: ListResult[SharePod] | Changes[SharePodFields], read: ReadSharePod
) -> Iterator[SharePodEvent]:
    if isinstance(update, ListResult):
        unreadable = frozenset(PodKey(one.namespace, one.name) for one in update.problems)
        _complain(update.problems)
        yield SharePodsListed(tuple(update.items), unreadable)
        return
    for line in update.changed:
        if line.item is not None:
            share = read(line.item)
            is_gone = line.type == DELETED
            yield SharePodGone(share.key, share.uid) if is_gone else SharePodSeen(share)
        elif (problem := _problem(line)) is not None:
            yield SharePodGone(PodKey(problem.namespace, problem.name), SharePodUid(problem.uid))


def _pod_events(
    update: ListResult[PodBehind] | Changes[PodBehindFields],
) -> Iterator[SharePodEvent]:
    if isinstance(update, ListResult):
        unreadable = frozenset(PodUid(one.uid) for one in update.problems)
        _complain(update.problems)
        yield PodsBehindListed(
            pods=tuple(update.items), asked_at=update.asked_at, unreadable=unreadable
        )
        return
    for line in update.changed:
        if line.item is not None:
            pod = pod_behind(line.item)
            yield PodBehindGone(pod) if line.type == DELETED else PodBehindSeen(pod)
        elif (problem := _problem(line)) is not None:
            key = PodKey(problem.namespace, problem.name)
            yield PodBehindGone(PodBehind(key=key, uid=PodUid(problem.uid)))


def _problem(line: WatchLine[SharePodFields] | WatchLine[PodBehindFields]) -> Problem | None:
    """The object that cannot be read, if it was deleted."""
    if line.problem is None:
        return None
    _complain([line.problem])
    return line.problem if line.type == DELETED else None


def _complain(problems: list[Problem]) -> None:
    for one in problems:
        where = f"{one.namespace}/{one.name}"
        decision_log.warn("unreadable", object=where, uid=one.uid, message=one.text)


# The controller's HTTP server: /metrics, /livez and /readyz.


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
