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
from typing import Any, Self
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
from kubeshare_py.dashboard.past import USAGE_BY, PastLog, PastUnknown
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
from kubeshare_py.edges.dashboard.past import Past, StillReading, TooMany
from kubeshare_py.edges.kube.credentials import Credentials
from kubeshare_py.edges.kube.errors import KubeError, kube_error
from kubeshare_py.edges.kube.transport import NO_ANSWER, KubeTransport, Reply, why_unanswered
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
    SELF_ACCESS_REVIEWS,
    AnsweredReview,
    SchedulerList,
    placement_review,
    reviewed,
    self_access_review,
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

PORT = 9008
#: Seconds: for an answer about one object, for one about all cards, and for a request of the page
#: to wait for news.
ASKED_S, READ_S, WAIT_S = 15.0, 60.0, 25.0
#: The most questions to the API server at once, without reads of the state, and with those that
#: wait; of these the most about tokens that showed no rights before.
MAX_ASKED, MAX_WAITING = 16, 128
MAX_STRANGERS, MAX_STRANGERS_WAITING = 4, 32
#: The most answers that are kept made for one state, and the most audiences that are read for,
#: without that of those who may see everything: in the largest cluster each keeps some 10 MB.
MAX_MADE, MAX_AUDIENCES = 8, 64
#: The whole state of a very large cluster has some MB. Fifty viewers who begin at once are sent the
#: same bytes, which are counted for each.
BOUNDS = Bounds(unread_bytes=256 * 2**20, unread_s=60.0)
_JSON = {"Content-Type": "application/json"}


# Requests to the API server, each with the token of a viewer.


class NoAnswer(Exception):
    """The API server did not answer, or was not asked; the text says why."""


class Gate:
    """Lets `most` through at once; `waiting` may be there together, those let through included."""

    def __init__(self, most: int, waiting: int) -> None:
        self._slots = asyncio.Semaphore(most)
        self._left = waiting

    @asynccontextmanager
    async def passed(self) -> AsyncIterator[None]:
        """Entered once it is let through. Raises NoAnswer if too many wait."""
        if not self._left:
            raise NoAnswer("too many questions at once; try again")
        self._left -= 1
        try:
            async with self._slots:
                yield
        finally:
            self._left += 1


class ApiAsViewer:
    """An async context manager that needs a running event loop. `anonymous` has no token."""

    def __init__(self, anonymous: Credentials) -> None:
        self._transport = KubeTransport(anonymous, lambda: True)
        self._gate = Gate(MAX_ASKED, MAX_WAITING)

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._transport.__aexit__(*error)

    async def asked(self, token: str, path: str, body: object = None) -> Reply:
        """GET, or POST of a body that changes nothing, after few others. Raises NoAnswer."""
        async with self._gate.passed():
            return await self.sent(token, path, body, ASKED_S)

    async def sent(self, token: str, path: str, body: object, within_s: float) -> Reply:
        """The same at once. Raises NoAnswer."""
        headers = {"Authorization": f"Bearer {token}"}
        data = b"" if body is None else msgspec.json.encode(body)
        if data:
            headers |= _JSON
        method = "POST" if data else "GET"
        try:
            return await self._transport.send(method, path, headers, data, within_s)
        except NO_ANSWER as error:
            raise NoAnswer(f"the API server does not answer: {why_unanswered(error)}") from error


def _error_of(reply: Reply) -> KubeError:
    return kube_error(reply.status, reply.reason, reply.retry_after, reply.body)


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
            # Made-up tokens keep no viewer waiting who was let in before.
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
                    said = f"the API server does not say who you are: {_error_of(reply)}"
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
    error = _error_of(reply)
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
        error = _error_of(reply)
        return dry_run_refused(reply.status, error.message or str(error), template)


# The past, where there is an event log.


class PastAnswers:
    """Routes about the past; without an event log they answer 404."""

    def __init__(self, api: ApiAsViewer, log: PastLog | None, clock: Callable[[], float]) -> None:
        self._api = api
        self._past = None if log is None else Past(log, self._may_list, clock)

    @property
    def is_there(self) -> bool:
        """Whether there is an event log."""
        return self._past is not None

    async def spans(self, _request: web.Request, _viewer: Viewer, _token: str) -> web.Response:
        """The times that the log covers."""
        return await self._answered(self._spans)

    async def state(self, request: web.Request, viewer: Viewer, token: str) -> web.Response:
        """The whole state as of the time in the query, `at` (ms since 1970)."""
        return await self._answered(lambda past: self._state(past, request, viewer, token))

    async def pod(self, request: web.Request, viewer: Viewer, token: str) -> web.Response:
        """Why a pod was where it was at that time."""
        return await self._answered(lambda past: self._pod(past, request, viewer, token))

    async def usage(self, request: web.Request, viewer: Viewer, token: str) -> web.Response:
        """What was held between `from` and `to` (ms since 1970), `by` a word of USAGE_BY."""
        return await self._answered(lambda past: self._usage(past, request, viewer, token))

    async def _answered(self, answer: Callable[[Past], Awaitable[web.Response]]) -> web.Response:
        if self._past is None:
            message = "there is no event log: see --event-log of kubeshare-dashboard"
            return _refused(ViewerRefusal(HTTPStatus.NOT_FOUND, message))
        try:
            return await answer(self._past)
        except StillReading as progress:
            return _json({"read_to": progress.read_to}, HTTPStatus.ACCEPTED)
        except PastUnknown as error:
            return _refused(ViewerRefusal(HTTPStatus.NOT_FOUND, str(error)))
        except TooMany as error:
            return _refused(ViewerRefusal(HTTPStatus.SERVICE_UNAVAILABLE, str(error)))

    async def _spans(self, past: Past) -> web.Response:
        spans = [(one.begin_ms, one.end_ms) for one in await past.spans()]
        return _json({"spans": spans})

    async def _state(
        self, past: Past, request: web.Request, viewer: Viewer, token: str
    ) -> web.Response:
        compressed = _takes_gzip(request)
        body = await past.state(_time_in(request), viewer, token, compressed=compressed)
        return web.Response(body=body, headers=_page_headers(compressed=compressed))

    async def _pod(
        self, past: Past, request: web.Request, viewer: Viewer, token: str
    ) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        why = await past.why(_time_in(request), viewer, token, namespace, name)
        if why is None:
            message = f"there was no pod {namespace}/{name} at that time"
            return _refused(ViewerRefusal(HTTPStatus.NOT_FOUND, message))
        return _json({"why": why, "report": why_report(why, None).plain})

    async def _usage(
        self, past: Past, request: web.Request, viewer: Viewer, token: str
    ) -> web.Response:
        by = request.query.get("by", "")
        if by not in USAGE_BY:
            raise web.HTTPBadRequest(text=f"by: one of {', '.join(USAGE_BY)} is needed\n")
        times = _time_in(request, "from"), _time_in(request, "to")
        held, rows = await past.usage(times, by, viewer, token)
        return _json({"from": held.from_ms, "to": held.to_ms, "notes": held.notes, "rows": rows})

    async def _may_list(self, token: str, namespace: str) -> bool:
        """Whether the token's owner may list the state's pods there. Raises NoAnswer."""
        reply = await self._api.asked(
            token, SELF_ACCESS_REVIEWS, self_access_review(PODS, namespace)
        )
        if reply.status != HTTPStatus.CREATED:
            raise NoAnswer(f"the API server does not say what you may see: {_error_of(reply)}")
        return reviewed(reply.body).is_allowed


def _time_in(request: web.Request, name: str = "at") -> int:
    """A time in the query (ms since 1970). Raises HTTPBadRequest."""
    try:
        return int(request.query.get(name, ""))
    except ValueError as error:
        raise web.HTTPBadRequest(text=f"{name}: milliseconds since 1970 are needed\n") from error


def _takes_gzip(request: web.Request) -> bool:
    return "gzip" in request.headers.get("Accept-Encoding", "")


def _page_headers(*, compressed: bool) -> dict[str, str]:
    """Of a state as JSON."""
    encoded = {"Content-Encoding": "gzip"} if compressed else {}
    return {**assets.PRIVATE, **_JSON, "Vary": "Accept-Encoding", **encoded}


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
        self, api: ApiAsViewer, feeds: Feeds, past: PastAnswers, clock: Callable[[], float]
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
            web.get("/api/past", self._asked(self._past.spans)),
            web.get("/api/past/state", self._asked(self._past.state)),
            web.get("/api/past/usage", self._asked(self._past.usage)),
            web.get("/api/past/pods/{namespace}/{name}", self._asked(self._past.pod)),
            web.get("/", self._file),
            web.get("/{name}", self._file),
        ]

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
                return _refused(ViewerRefusal(HTTPStatus.FORBIDDEN, message))
            token = token_of(request.headers)
            if isinstance(token, ViewerRefusal):
                return _refused(token)
            viewer = await self._viewers.of(token)
            if isinstance(viewer, ViewerRefusal):
                return _refused(viewer)
            try:
                return await answer(request, viewer, token)
            except NoAnswer as error:
                return _refused(ViewerRefusal(HTTPStatus.SERVICE_UNAVAILABLE, str(error)))

        return handler

    async def _me(self, _request: web.Request, viewer: Viewer, _token: str) -> web.Response:
        return _json(
            {
                "user": viewer.name,
                "sees_all": viewer.sees_all,
                "version": self._build.version,
                "has_past": self._past.is_there,
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
                return _refused(now)
            if now.audience == viewer.audience and (has_news or loop.time() >= until):
                break
            viewer = now
        if not feed.read_at:
            message = feed.problem or "the scheduler's state is being read"
            return _refused(ViewerRefusal(HTTPStatus.SERVICE_UNAVAILABLE, message))
        compressed = _takes_gzip(request)
        headers = _page_headers(compressed=compressed)
        headers["Kubeshare-Age"] = f"{self._clock() - feed.read_at:.1f}"
        return web.Response(body=await feed.answer(since, compressed=compressed), headers=headers)

    async def _pod(self, request: web.Request, _viewer: Viewer, token: str) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        reply = await self._api.asked(token, object_path(ROOT, PODS, name, namespace))
        if reply.status != HTTPStatus.OK:
            error = _error_of(reply)
            status = reply.status if reply.status in _PASSED_ON else HTTPStatus.BAD_GATEWAY
            return _refused(ViewerRefusal(status, error.message or str(error)))
        try:
            why = msgspec.json.decode(reply.body, type=WhyView)
        except UNDECODABLE as error:
            return _refused(ViewerRefusal(HTTPStatus.BAD_GATEWAY, _other_version(error)))
        return _json({"why": why, "report": why_report(why, None).plain})

    async def _prospects(self, request: web.Request, _viewer: Viewer, token: str) -> web.Response:
        namespace = request.query.get("namespace") or "default"
        try:
            async with self._bodies.body_of(request) as text:
                return _json(await self._what_if.about(token, text, namespace))
        except web.HTTPRequestEntityTooLarge:
            message = f"at most {what_if.MAX_BYTES // 1024} KiB are read"
            return _refused(ViewerRefusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message))
        except what_if.Unreadable as error:
            return _refused(ViewerRefusal(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)))
        except UNDECODABLE as error:
            message = f"the API server does not answer as one: {error}"
            return _refused(ViewerRefusal(HTTPStatus.BAD_GATEWAY, message))


_Answer = Callable[[web.Request, Viewer, str], Awaitable[web.StreamResponse]]
_PASSED_ON = (
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.SERVICE_UNAVAILABLE,
)


def _json(value: object, status: int = HTTPStatus.OK) -> web.Response:
    headers = {**assets.PRIVATE, **_JSON}
    return web.Response(status=status, body=msgspec.json.encode(value), headers=headers)


def _refused(refusal: ViewerRefusal) -> web.Response:
    headers = {**assets.PRIVATE, **_JSON}
    body = msgspec.json.encode({"message": refusal.message})
    return web.Response(status=refusal.status, body=body, headers=headers)


async def _with_headers(_request: web.Request, answer: web.StreamResponse) -> None:
    answer.headers.update(assets.HEADERS)


@asynccontextmanager
async def serve(
    anonymous: Credentials,
    address: str,
    port: int,
    context: ssl.SSLContext | None = None,
    clock: Callable[[], float] | None = None,
    past: PastLog | None = None,
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
        answers = PastAnswers(api, past, clock)
        app.add_routes(Dashboard(api, feeds, answers, clock).routes())
        app.on_response_prepare.append(_with_headers)
        async with listening(
            app, address, port, context=context, bounds=BOUNDS, shutdown_s=1.0
        ) as addresses:
            say_listening("kubeshare-dashboard", addresses, scheme)
            yield url(scheme, *addresses[0])
