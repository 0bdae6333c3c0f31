"""The dashboard's HTTP server: the page, and what it asks, with the viewer's own rights.

It holds no credentials. Each request shows a token of the cluster, and the API server is asked with
that token: its user, the state, a pod, a dry run. Answers about all cards are shared among viewers
who may see the same (`dashboard.viewers`), as often as `dashboard.fan_out` lets them be read.
"""

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from importlib import resources
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakValueDictionary

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from kubeshare_py.dashboard import assets, what_if
from kubeshare_py.dashboard.assets import Asset
from kubeshare_py.dashboard.fan_out import (
    PRESENT_S,
    Audience,
    FanOut,
    FanOutEffect,
    FanOutEvent,
    Forget,
    Read,
    ReadEnded,
    ReadFailed,
    ReadRefused,
    ViewerId,
    ViewerSeen,
)
from kubeshare_py.dashboard.page_state import BadState, PageState, Version
from kubeshare_py.dashboard.viewers import (
    BAD_TOKEN,
    EVERYTHING,
    QUESTIONS,
    KnownViewers,
    Viewer,
    ViewerRefusal,
    token_of,
    viewer_id,
    viewer_of,
)
from kubeshare_py.dashboard.what_if import WhatIfAnswer
from kubeshare_py.domain.events import TimePassed
from kubeshare_py.edges.dashboard.as_viewer import (
    ApiAsViewer,
    Gate,
    NoAnswer,
    error_of,
    refused,
    takes_gzip,
    told,
    told_state,
)
from kubeshare_py.edges.kube.credentials import Credentials
from kubeshare_py.edges.kube.transport import Reply
from kubeshare_py.edges.process import decision_log, probes
from kubeshare_py.edges.process.bounded_server import Bounds, HeldBodies, listening
from kubeshare_py.edges.process.build import running_build, say_listening, url
from kubeshare_py.edges.process.probes import HealthCheck
from kubeshare_py.manifests.api_paths import collection_path, object_path
from kubeshare_py.manifests.decoding import UNDECODABLE
from kubeshare_py.manifests.state_group import (
    GPUS,
    PODS,
    ROOT,
    SCHEDULERS,
    AnsweredReview,
    SchedulerList,
    placement_review,
)
from kubeshare_py.manifests.workloads import (
    ONE_POD,
    AdmissionAnswer,
    PodTemplate,
    chosen_scheduler,
    dry_run,
    dry_run_refused,
    pod_to_ask_about,
)
from kubeshare_py.terminal.why_report import why_report
from kubeshare_py.views.view import WhyView

if TYPE_CHECKING:
    from kubeshare_py.dashboard.past import PastLog
    from kubeshare_py.edges.dashboard.past import PastRoutes

PORT = 9008
#: Seconds: for an answer about all cards, and for a request of the page to wait for news.
READ_S, WAIT_S = 60.0, 25.0
#: The most questions at once about tokens that showed no rights before, and with those that wait.
MAX_STRANGERS, MAX_STRANGERS_WAITING = 4, 32
#: The most answers that are kept made for one state, and the most audiences that are read for,
#: without that of those who may see everything: in the largest cluster each keeps some 10 MB.
MAX_MADE, MAX_AUDIENCES = 8, 64
#: The whole state of a very large cluster has some MB. Fifty viewers who begin at once are sent the
#: same bytes, which are counted for each.
BOUNDS = Bounds(unread_bytes=256 * 2**20, unread_s=60.0)


class Viewers:
    """The users of tokens, and what each may see."""

    def __init__(self, api: ApiAsViewer, clock: Callable[[], float]) -> None:
        self._api = api
        self._clock = clock
        self._known = KnownViewers()
        # A lock is there for as long as requests of its viewer hold it or wait for it.
        self._asking: WeakValueDictionary[ViewerId, asyncio.Lock] = WeakValueDictionary()
        self._strangers = Gate(MAX_STRANGERS, MAX_STRANGERS_WAITING)

    async def of(self, token: str) -> Viewer | ViewerRefusal:
        """The viewer, or why it may see nothing."""
        key = viewer_id(token)
        lock = self._asking.setdefault(key, asyncio.Lock())
        async with lock:
            known = self._known.answer(key, self._clock())
            if known is not None:
                return known
            # A viewer that was let in before does not wait for questions about made-up tokens.
            gate = nullcontext() if self._known.is_known(key) else self._strangers.passed()
            try:
                async with gate:
                    found = await self._asked(token)
            except NoAnswer as error:
                found = ViewerRefusal(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
            self._known.keep(key, found, self._clock())
            return found

    def believed_s(self, viewer: Viewer) -> float:
        """For how long the answer about this viewer is believed from now on."""
        return self._known.believed_s(viewer.id, self._clock())

    async def _asked(self, token: str) -> Viewer | ViewerRefusal:
        """Raises NoAnswer."""
        bodies = []
        try:
            for path, body in QUESTIONS:
                reply = await self._api.asked(token, path, body)
                if reply.status == HTTPStatus.UNAUTHORIZED:
                    return BAD_TOKEN
                if reply.status != HTTPStatus.CREATED:
                    said = f"the API server does not say who you are: {error_of(reply)}"
                    return ViewerRefusal(HTTPStatus.SERVICE_UNAVAILABLE, said)
                bodies.append(reply.body)
            about, cards, pods = bodies
            return viewer_of(token, (about, cards, pods))
        except UNDECODABLE as error:
            said = f"the API server does not answer as one: {error}"
            return ViewerRefusal(HTTPStatus.SERVICE_UNAVAILABLE, said)


# The state, read for each audience and sent to its viewers.


@dataclass(slots=True)
class Feed:
    """The state of one audience. `serial` counts changes of the state and of the `problem`."""

    state: PageState = field(default_factory=PageState)
    problem: str = ""
    serial: int = 0
    read_at: float = 0.0
    #: Another one after each restart, and for each audience: versions mean nothing elsewhere.
    epoch: str = field(default_factory=lambda: token_hex(8))
    #: The tokens of present viewers, with the time of their last request.
    tokens: dict[ViewerId, tuple[float, str]] = field(default_factory=dict)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    #: Answers to pages of one version, plain or compressed, the one used last at the end: most
    #: viewers have the newest version, but a request may name any.
    _made: dict[tuple[Version, bool], bytes] = field(default_factory=dict)
    _making: asyncio.Lock = field(default_factory=asyncio.Lock)

    def publish(self, problem: str, *, changed: bool) -> None:
        """Wake requests that wait, if there is anything new."""
        if not changed and problem == self.problem:
            return
        self.problem = problem
        self.serial += 1
        self._made.clear()
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def newer_than(self, since: str, wait_s: float) -> bool:
        """Return True once there is more than a page of this version has, False after that time."""
        try:
            async with asyncio.timeout(wait_s):
                while since == self.version or not self.serial:
                    await self._news.wait()
        except TimeoutError:
            return False
        return True

    @property
    def version(self) -> str:
        """What a page with the newest state shows next time."""
        return f"{self.epoch}-{self.state.version}-{self.serial}"

    async def answer(self, since: str, *, compressed: bool) -> bytes:
        """The rows that a page of this version lacks, all for one of an unknown version."""
        epoch, _, rest = since.partition("-")
        text = rest.partition("-")[0]
        known = int(text) if epoch == self.epoch and text.isdecimal() else 0
        known = known if self.state.knows(known) else 0
        async with self._making:
            serial, made = self.serial, self._made.pop((known, compressed), None)
            if made is None:
                made = b"".join(self._pieces(known))
                if compressed:
                    made = await asyncio.to_thread(partial(gzip.compress, made, 1, mtime=0))
            if serial == self.serial:
                self._made[known, compressed] = made
                if len(self._made) > MAX_MADE:
                    del self._made[next(iter(self._made))]
            return made

    def _pieces(self, known: Version) -> Iterator[bytes]:
        head = {"version": self.version, "whole": not known, "problem": self.problem}
        yield msgspec.json.encode(head)[:-1] + b","
        yield from self.state.changes(known) if known else self.state.whole()
        yield b"}"


class Feeds:
    """Reads for audiences, as `FanOut` decides. An async context manager."""

    def __init__(self, api: ApiAsViewer, clock: Callable[[], float]) -> None:
        self._api = api
        self._clock = clock
        self._fan_out = FanOut()
        self._feeds: dict[Audience, Feed] = {}
        self._group = asyncio.TaskGroup()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for task in tuple(self._tasks):
            task.cancel()
        await self._group.__aexit__(*error)

    def of(self, viewer: Viewer, token: str) -> Feed:
        """What this viewer may see; its token serves to read it. Raises NoAnswer."""
        if viewer.audience not in self._feeds:
            others = len(self._feeds.keys() - {EVERYTHING})
            if others >= MAX_AUDIENCES and viewer.audience != EVERYTHING:
                raise NoAnswer(
                    f"{others} viewers with rights of their own look on, and no more are shown the "
                    "state: try again later"
                )
            self._feeds[viewer.audience] = Feed()
        feed = self._feeds[viewer.audience]
        feed.tokens[viewer.id] = self._clock(), token
        self._handle(ViewerSeen(viewer.id, viewer.audience))
        return feed

    def _handle(self, event: FanOutEvent) -> None:
        now = self._clock()
        for effect in self._fan_out.handle(event, now):
            self._perform(effect)
        if self._timer is not None:
            self._timer.cancel()
        at = self._fan_out.wake_at(now)
        loop = asyncio.get_running_loop()
        wait_s = None if at is None else max(0.0, at - now)
        self._timer = None if wait_s is None else loop.call_later(wait_s, self._woken)

    def _woken(self) -> None:
        self._handle(TimePassed())

    def _perform(self, effect: FanOutEffect) -> None:
        if isinstance(effect, Forget):
            self._feeds.pop(effect.audience, None)
            return
        task = self._group.create_task(self._read(effect))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _read(self, effect: Read) -> None:
        audience, feed = effect.audience, self._feeds[effect.audience]
        began = self._clock()
        feed.tokens = {
            viewer: kept for viewer, kept in feed.tokens.items() if kept[0] + PRESENT_S > began
        }
        _, token = feed.tokens.get(effect.viewer, (0.0, ""))
        try:
            # How cards are joined costs a sixth more; it seldom changes.
            path = f"{ROOT}/{GPUS}?topology=1"
            reply = await self._api.sent(token, path, None, READ_S)
            took_s = self._clock() - began
            problem = _problem_of(reply)
            changed = False if problem else await self._taken(feed, reply.body)
        except (NoAnswer, BadState) as error:
            problem, changed, took_s, reply = str(error), False, self._clock() - began, None
        if reply is not None and reply.status in _REFUSED:
            feed.tokens.pop(effect.viewer, None)
            self._handle(ReadRefused(audience, effect.viewer))
            return
        if problem:
            decision_log.detail("read", message=problem)
        else:
            feed.read_at = self._clock()
        feed.publish(problem, changed=changed)
        event = ReadFailed if problem else ReadEnded
        self._handle(event(audience, took_s))

    async def _taken(self, feed: Feed, body: bytes) -> bool:
        """Take in an answer, while others are answered; raises BadState."""
        steps = feed.state.take(body)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return bool(end.value)
            await asyncio.sleep(0)


_REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


def _problem_of(reply: Reply) -> str:
    """Why this is no state, "" if it is one."""
    if reply.status == HTTPStatus.OK:
        return ""
    error = error_of(reply)
    if reply.status == HTTPStatus.NOT_FOUND:
        return (
            "the API server does not serve state.kubeshare.io: is kubeshare-scheduler installed, "
            "with apiService.enabled (a value of its chart)?"
        )
    if reply.status == HTTPStatus.SERVICE_UNAVAILABLE:
        return f"no scheduler answers: {error.message or error}"
    return f"the API server answers {error}"


def _other_version(error: Exception) -> str:
    return f"the scheduler does not answer as one of this version does: {error}"


# What would become of pasted pods.


class WhatIfQuestions:
    """Asks the API server and the scheduler as the viewer. Raises NoAnswer."""

    def __init__(self, api: ApiAsViewer) -> None:
        self._api = api

    async def about(self, token: str, text: bytes, namespace: str) -> dict[str, object]:
        """What would become of each pod of a text. Raises Unreadable as well."""
        found = what_if.pasted(text)
        known: dict[str, tuple[str, ...] | str] = {}
        answers = []
        for template in found.templates:
            where = template.namespace or namespace
            if where not in known:
                known[where] = await self._schedulers(token, where)
            answers.append(await self._one(token, template, where, known[where]))
        return {"pods": answers, "skipped": found.skipped}

    async def _schedulers(self, token: str, namespace: str) -> tuple[str, ...] | str:
        """The scheduler's names; why they are not known, as a text."""
        reply = await self._api.asked(token, collection_path(ROOT, SCHEDULERS, namespace))
        if reply.status != HTTPStatus.OK:
            return _problem_of(reply)
        try:
            found = msgspec.json.decode(reply.body, type=SchedulerList)
        except UNDECODABLE as error:
            return _other_version(error)
        return tuple(one.name for one in found.schedulers)

    async def _one(
        self, token: str, template: PodTemplate, namespace: str, known: tuple[str, ...] | str
    ) -> WhatIfAnswer:
        answer = WhatIfAnswer(object=template.owner, namespace=namespace)
        if isinstance(known, str):
            return msgspec.structs.replace(answer, message=known)
        admission = await self._admission(token, template, namespace)
        scheduler = chosen_scheduler(template, admission)
        answer = msgspec.structs.replace(
            answer,
            scheduler=scheduler,
            refused=admission.refusal,
            notes=(*((ONE_POD,) if template.path else ()), *admission.notes),
            message=what_if.not_asked(scheduler, known),
        )
        pod = pod_to_ask_about(template, admission, scheduler)
        if admission.refusal or answer.message or pod is None:
            return answer
        reply = await self._api.asked(token, *placement_review(namespace, pod))
        if reply.status != HTTPStatus.CREATED:
            return msgspec.structs.replace(answer, message=_problem_of(reply))
        try:
            prospect = msgspec.json.decode(reply.body, type=AnsweredReview).status
        except UNDECODABLE as error:
            return msgspec.structs.replace(answer, message=_other_version(error))
        return msgspec.structs.replace(
            answer, prospect=prospect, notes=(*answer.notes, *prospect.notes)
        )

    async def _admission(
        self, token: str, template: PodTemplate, namespace: str
    ) -> AdmissionAnswer:
        asked = dry_run(template, namespace)
        if asked is None:
            return AdmissionAnswer()
        reply = await self._api.asked(token, *asked)
        if reply.status == HTTPStatus.CREATED:
            return AdmissionAnswer(pod=reply.body)
        error = error_of(reply)
        return dry_run_refused(reply.status, error.message or str(error), template)


# The server.


def page_files() -> Mapping[str, Asset]:
    """The page's files by name; they are part of the package."""
    folder = resources.files("kubeshare_py.dashboard") / assets.FOLDER
    return {
        one.name: assets.asset(one.name, one.read_bytes())
        for one in folder.iterdir()
        if one.is_file()
    }


class Dashboard:
    """Routes of the page and of its questions."""

    def __init__(
        self, api: ApiAsViewer, feeds: Feeds, past: "PastRoutes | None", clock: Callable[[], float]
    ) -> None:
        self._api = api
        self._feeds = feeds
        self._past = past
        self._clock = clock
        self._viewers = Viewers(api, clock)
        self._what_if = WhatIfQuestions(api)
        self._bodies = HeldBodies(each=what_if.MAX_BYTES, total=8 * what_if.MAX_BYTES)
        self._files = page_files()
        self._build = running_build()

    def routes(self) -> list[web.RouteDef]:
        """All routes; each of the API identifies the viewer itself."""
        live = [HealthCheck("ping", lambda: "")]
        return [
            *probes.routes(lambda: live, lambda: live),
            web.get("/api/me", self._asked(self._me)),
            web.get("/api/state", self._asked(self._state)),
            web.get("/api/pods/{namespace}/{name}", self._asked(self._pod)),
            web.post("/api/what-if", self._asked(self._prospects)),
            *(web.get(path, self._asked(answer)) for path, answer in self._past_answers()),
            web.get("/", self._file),
            web.get("/{name}", self._file),
        ]

    def _past_answers(self) -> "list[tuple[str, _Answer]]":
        if self._past is None:
            return [("/api/past{rest:.*}", self._no_past)]
        return self._past.all()

    async def _no_past(
        self, _request: web.Request, _viewer: Viewer, _token: str
    ) -> web.StreamResponse:
        message = "there is no event log: see --event-log of kubeshare-dashboard"
        return refused(ViewerRefusal(HTTPStatus.NOT_FOUND, message))

    async def _file(self, request: web.Request) -> web.StreamResponse:
        found = self._files.get(request.match_info.get("name", assets.INDEX))
        if found is None:
            return web.Response(status=HTTPStatus.NOT_FOUND, text="there is no such page\n")
        # Asked for again each time, so that a page and its modules are of one release.
        headers = {"ETag": found.etag, "Cache-Control": "no-cache"}
        if assets.is_fresh(request.headers.get("If-None-Match", ""), found.etag):
            return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
        headers["Content-Type"] = found.content_type
        return web.Response(body=found.body, headers=headers)

    def _asked(self, answer: "_Answer") -> Handler:
        """Let viewers through who show a token that may see something."""

        async def handler(request: web.Request) -> web.StreamResponse:
            if assets.is_of_another_site(request.headers.get("Sec-Fetch-Site", "")):
                message = "this is for the page of the dashboard itself"
                return refused(ViewerRefusal(HTTPStatus.FORBIDDEN, message))
            token = token_of(request.headers)
            if isinstance(token, ViewerRefusal):
                return refused(token)
            viewer = await self._viewers.of(token)
            if isinstance(viewer, ViewerRefusal):
                return refused(viewer)
            try:
                return await answer(request, viewer, token)
            except NoAnswer as error:
                return refused(ViewerRefusal(HTTPStatus.SERVICE_UNAVAILABLE, str(error)))

        return handler

    async def _me(self, _request: web.Request, viewer: Viewer, _token: str) -> web.Response:
        return told(
            {
                "user": viewer.name,
                "sees_all": viewer.sees_all,
                "version": self._build.version,
                "has_past": self._past is not None,
            }
        )

    async def _state(self, request: web.Request, viewer: Viewer, token: str) -> web.Response:
        """The rows that the page lacks, once there are any, or after WAIT_S."""
        since = request.query.get("since", "")
        loop = asyncio.get_running_loop()
        until = loop.time() + WAIT_S
        while True:
            feed = self._feeds.of(viewer, token)
            wait_s = min(until - loop.time(), self._viewers.believed_s(viewer))
            has_news = await feed.newer_than(since, wait_s)
            # Rights may have been taken away meanwhile; the state may be another one.
            now = await self._viewers.of(token)
            if isinstance(now, ViewerRefusal):
                return refused(now)
            if now.audience == viewer.audience and (has_news or loop.time() >= until):
                break
            viewer = now
        if not feed.read_at:
            message = feed.problem or "the scheduler's state is being read"
            return refused(ViewerRefusal(HTTPStatus.SERVICE_UNAVAILABLE, message))
        compressed = takes_gzip(request)
        body = await feed.answer(since, compressed=compressed)
        response = told_state(body, compressed=compressed)
        response.headers["Kubeshare-Age"] = f"{self._clock() - feed.read_at:.1f}"
        return response

    async def _pod(self, request: web.Request, _viewer: Viewer, token: str) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        reply = await self._api.asked(token, object_path(ROOT, PODS, name, namespace))
        if reply.status != HTTPStatus.OK:
            error = error_of(reply)
            status = reply.status if reply.status in _PASSED_ON else HTTPStatus.BAD_GATEWAY
            return refused(ViewerRefusal(status, error.message or str(error)))
        try:
            why = msgspec.json.decode(reply.body, type=WhyView)
        except UNDECODABLE as error:
            return refused(ViewerRefusal(HTTPStatus.BAD_GATEWAY, _other_version(error)))
        return told({"why": why, "report": why_report(why, None).plain})

    async def _prospects(self, request: web.Request, _viewer: Viewer, token: str) -> web.Response:
        namespace = request.query.get("namespace") or "default"
        try:
            async with self._bodies.body_of(request) as text:
                return told(await self._what_if.about(token, text, namespace))
        except web.HTTPRequestEntityTooLarge:
            message = f"at most {what_if.MAX_BYTES // 1024} KiB are read"
            return refused(ViewerRefusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message))
        except what_if.Unreadable as error:
            return refused(ViewerRefusal(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)))
        except UNDECODABLE as error:
            message = f"the API server does not answer as one: {error}"
            return refused(ViewerRefusal(HTTPStatus.BAD_GATEWAY, message))


_Answer = Callable[[web.Request, Viewer, str], Awaitable[web.StreamResponse]]
_PASSED_ON = (
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.SERVICE_UNAVAILABLE,
)


async def _with_headers(_request: web.Request, answer: web.StreamResponse) -> None:
    answer.headers.update(assets.HEADERS)


def _past_routes(
    api: ApiAsViewer, log: "PastLog | None", clock: Callable[[], float]
) -> "PastRoutes | None":
    if log is None:
        return None
    # The page of the present needs nothing of it.
    from kubeshare_py.edges.dashboard.past import PastRoutes  # noqa: PLC0415

    return PastRoutes(api, log, clock)


@asynccontextmanager
async def serve(
    anonymous: Credentials,
    address: str,
    port: int,
    context: ssl.SSLContext | None = None,
    clock: Callable[[], float] | None = None,
    past: "PastLog | None" = None,
) -> AsyncIterator[str]:
    """Serve while entered; yields the URL of the page. Raises OSError if it cannot listen.

    `anonymous` are the API server's address and authority, without credentials. `address` "" is
    all, `port` 0 any free one. Without a `context` it speaks plain HTTP. `clock` (s) is the loop's
    by default. `past` is what a time in the past is looked up in.
    """
    clock = clock or asyncio.get_running_loop().time
    scheme = "https" if context else "http"
    async with ApiAsViewer(anonymous) as api, Feeds(api, clock) as feeds:
        app = web.Application()
        app.add_routes(Dashboard(api, feeds, _past_routes(api, past, clock), clock).routes())
        app.on_response_prepare.append(_with_headers)
        async with listening(
            app, address, port, context=context, bounds=BOUNDS, shutdown_s=1.0
        ) as addresses:
            say_listening("kubeshare-dashboard", addresses, scheme)
            yield url(scheme, *addresses[0])
