"""Answers about the past, from an event log, to each viewer as far as its rights go now."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable, Iterable
from http import HTTPStatus
from typing import TypeVar

from aiohttp import web

from kubeshare_py.dashboard.fan_out import ViewerId
from kubeshare_py.dashboard.past import (
    USAGE_BY,
    HeldUsage,
    MayName,
    PastLog,
    PastMoment,
    PastSpan,
    PastUnknown,
    UsageSum,
    page_of,
    usage_by,
)
from kubeshare_py.dashboard.viewers import KEPT_S, Newest, Viewer, ViewerRefusal
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
from kubeshare_py.manifests.decoding import UNDECODABLE
from kubeshare_py.manifests.state_group import (
    PODS,
    SELF_ACCESS_REVIEWS,
    reviewed,
    self_access_review,
)
from kubeshare_py.terminal.why_report import why_report
from kubeshare_py.views.view import WhyView

R = TypeVar("R")
#: The log is read for so many seconds, then the page is told how far that is.
READ_S = 4.0
#: The most namespaces in which a viewer's rights are asked; pods of others have no names.
MAX_NAMESPACES = 256
#: The most answers about rights that are remembered.
MAX_RIGHTS = 10_000
#: For how long (s) the last sums are kept.
USAGE_KEPT_S = 60.0
#: The most viewers at once: one is answered, and the others wait.
MAX_LOOKING = 16

#: What answers a request of a viewer with this token. Raises NoAnswer.
Answer = Callable[[web.Request, Viewer, str], Awaitable[web.StreamResponse]]


class BadQuestion(Exception):
    """The query is none that the page sends; the text says what is missing."""


class StillReading(Exception):
    """The log was read up to `read_to` (ms since 1970), and is read on at the next question."""

    def __init__(self, read_to: int) -> None:
        self.read_to = read_to
        super().__init__(read_to)


class Past:
    """Asks a log about one viewer's moment after the other's, on threads."""

    def __init__(self, api: ApiAsViewer, log: PastLog, clock: Callable[[], float]) -> None:
        self._api, self._log, self._clock = api, log, clock
        #: Handlers of aiohttp go on if their viewer is gone, so that no two threads are at the log.
        self._gate = Gate(1, MAX_LOOKING)
        #: The times that were asked for last, until when (s) the answer is kept, and the answer.
        self._usage: tuple[tuple[int, int], float, HeldUsage | None] = ((0, 0), 0.0, None)
        self._rights: Newest[tuple[ViewerId, str], bool] = Newest(MAX_RIGHTS)

    async def spans(self) -> list[PastSpan]:
        """The times that the log covers. Raises PastUnknown and NoAnswer."""
        async with self._gate.passed():
            return list(await asyncio.to_thread(self._log.spans))

    async def state(self, at_ms: int, viewer: Viewer, token: str, *, compressed: bool) -> bytes:
        """The whole state at that time, as JSON.

        Raises PastUnknown, StillReading and NoAnswer.
        """

        def page(moment: PastMoment, may_name: MayName) -> bytes:
            made = b"".join(page_of(moment, may_name))
            return gzip.compress(made, 1, mtime=0) if compressed else made

        return await self._read(at_ms, viewer, token, page)

    async def why(
        self, at_ms: int, viewer: Viewer, token: str, namespace: str, name: str
    ) -> WhyView | None:
        """Why a pod was where it was; None if the viewer sees none. Raises as `state` does."""

        def found(moment: PastMoment, may_name: MayName) -> WhyView | None:
            return moment.why(namespace, name, may_name) if may_name(namespace) else None

        return await self._read(at_ms, viewer, token, found)

    async def usage(
        self, times: tuple[int, int], by: str, viewer: Viewer, token: str
    ) -> tuple[HeldUsage, list[UsageSum]]:
        """What was held between these times (ms), and its sums by a word of USAGE_BY.

        Raises PastUnknown and NoAnswer.
        """
        async with self._gate.passed():
            held = await self._held(times)
            may_name = await self._may_name(viewer, token, {one.namespace for one in held.rows})
            return held, usage_by(held.rows, by, may_name)

    async def _held(self, times: tuple[int, int]) -> HeldUsage:
        """The last answer is kept: the page asks for it by team, then by pod."""
        asked, kept_until, held = self._usage
        if asked != times or held is None or self._clock() >= kept_until:
            held = await asyncio.to_thread(self._log.usage, *times)
            self._usage = times, self._clock() + USAGE_KEPT_S, held
        return held

    async def _read(
        self,
        at_ms: int,
        viewer: Viewer,
        token: str,
        read: Callable[[PastMoment, MayName], R],
    ) -> R:
        async with self._gate.passed():
            found = await asyncio.to_thread(self._log.moment, at_ms, READ_S)
            if isinstance(found, int):
                raise StillReading(found)
            may_name = await self._may_name(viewer, token, found.namespaces())
            return await asyncio.to_thread(read, found, may_name)

    async def _may_name(self, viewer: Viewer, token: str, names: Iterable[str]) -> MayName:
        """By rights of now: those of the past are not in the log."""
        if viewer.sees_all:
            return lambda namespace: True
        seen = set()
        for namespace in sorted(names)[:MAX_NAMESPACES]:
            allowed = self._rights.answer((viewer.id, namespace), self._clock())
            if allowed is None:
                allowed = await self._may_list(token, namespace)
                self._rights.keep((viewer.id, namespace), allowed, self._clock() + KEPT_S)
            if allowed:
                seen.add(namespace)
        return seen.__contains__

    async def _may_list(self, token: str, namespace: str) -> bool:
        """Whether the token's owner may list the state's pods there. Raises NoAnswer."""
        reply = await self._api.asked(
            token, SELF_ACCESS_REVIEWS, self_access_review(PODS, namespace)
        )
        if reply.status != HTTPStatus.CREATED:
            raise NoAnswer(f"the API server does not say what you may see: {error_of(reply)}")
        try:
            return reviewed(reply.body).is_allowed
        except UNDECODABLE as error:
            raise NoAnswer(f"the API server does not answer as one: {error}") from error


class PastRoutes:
    """Answers to what the page asks of the past, each to a viewer that the server identified."""

    def __init__(self, api: ApiAsViewer, log: PastLog, clock: Callable[[], float]) -> None:
        self._past = Past(api, log, clock)

    def all(self) -> list[tuple[str, Answer]]:
        """The paths with what answers them."""
        return [
            ("/api/past", self._answering(self._spans)),
            ("/api/past/state", self._answering(self._state)),
            ("/api/past/usage", self._answering(self._usage)),
            ("/api/past/pods/{namespace}/{name}", self._answering(self._pod)),
        ]

    def _answering(self, answer: Answer) -> Answer:
        async def answered(request: web.Request, viewer: Viewer, token: str) -> web.StreamResponse:
            try:
                return await answer(request, viewer, token)
            except StillReading as progress:
                return told({"read_to": progress.read_to}, HTTPStatus.ACCEPTED)
            except BadQuestion as error:
                return refused(ViewerRefusal(HTTPStatus.BAD_REQUEST, str(error)))
            except PastUnknown as error:
                return refused(ViewerRefusal(HTTPStatus.NOT_FOUND, str(error)))

        return answered

    async def _spans(self, _request: web.Request, _viewer: Viewer, _token: str) -> web.Response:
        """The times that the log covers."""
        spans = [(one.begin_ms, one.end_ms) for one in await self._past.spans()]
        return told({"spans": spans})

    async def _state(self, request: web.Request, viewer: Viewer, token: str) -> web.Response:
        compressed = takes_gzip(request)
        body = await self._past.state(_time_in(request), viewer, token, compressed=compressed)
        return told_state(body, compressed=compressed)

    async def _pod(self, request: web.Request, viewer: Viewer, token: str) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        why = await self._past.why(_time_in(request), viewer, token, namespace, name)
        if why is None:
            message = f"there was no pod {namespace}/{name} at that time"
            return refused(ViewerRefusal(HTTPStatus.NOT_FOUND, message))
        return told({"why": why, "report": why_report(why, None).plain})

    async def _usage(self, request: web.Request, viewer: Viewer, token: str) -> web.Response:
        by = request.query.get("by", "")
        if by not in USAGE_BY:
            raise BadQuestion(f"by: one of {', '.join(USAGE_BY)} is needed")
        times = _time_in(request, "from"), _time_in(request, "to")
        held, rows = await self._past.usage(times, by, viewer, token)
        return told({"from": held.from_ms, "to": held.to_ms, "notes": held.notes, "rows": rows})


def _time_in(request: web.Request, name: str = "at") -> int:
    """A time in the query (ms since 1970). Raises BadQuestion."""
    try:
        return int(request.query.get(name, ""))
    except ValueError as error:
        raise BadQuestion(f"{name}: milliseconds since 1970 are needed") from error
