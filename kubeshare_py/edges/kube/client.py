"""One HTTP client for one API server: bytes out, bytes in, errors as our own exceptions.

HTTP/1.1 with keep-alive over aiohttp; Kubernetes models are never built.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from time import perf_counter
from typing import Any, Self, cast
from urllib.parse import urlencode

import aiohttp
import msgspec
import tenacity
import yarl

from kubeshare_py.edges.kube.credentials import Credentials
from kubeshare_py.edges.kube.errors import KubeError, KubeUnreachable, kube_error
from kubeshare_py.edges.kube.transport import (
    JSON,
    NO_ANSWER,
    KubeTransport,
    Reply,
    reply,
    why_unanswered,
)
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.process.decision_log import LogLimit
from kubeshare_py.exporters.client_metrics import RequestTallies
from kubeshare_py.manifests.decoding import UNDECODABLE

# Whether one API server answers, and the log lines about it.
#
# A dozen loops of one process use the same server, and all of them notice when it is away. The log
# has one line when it stops answering, one per minute while that lasts, and one when it answers
# again.


AWAY, BACK, BY_PAGES = "api server away", "api server back", "list by pages"


class ApiContact:
    """Shared by the clients of one process, on any of its threads. `server` is host:port."""

    def __init__(self, server: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` is in seconds, and never set."""
        self._server = server
        self._clock = clock
        self._lines = LogLimit(clock)
        self._cuts = LogLimit(clock)
        self._away_since: float | None = None
        self._logged_away = False
        self._lists_by_pages = False
        self._lock = threading.Lock()

    @property
    def is_away(self) -> bool:
        """Whether the last request had no answer."""
        return self._away_since is not None

    def answered(self) -> None:
        """The server answered a request, whatever the answer."""
        if self._away_since is None:
            return
        with self._lock:
            self._answered()

    def missed(self, message: str) -> None:
        """A request had no answer; `message` names the request and the reason."""
        with self._lock:
            self._missed(message)

    def failed(self, event: str, error: Exception | None, path: str, **fields: object) -> None:
        """A repeated request failed; `error` None: the answer ended early.

        Logged at most once a minute per path; for all paths together if the server is in trouble
        (5xx, 429), has lost its history (410) or breaks connections. A path's first break within a
        minute is not logged: servers are restarted, and `missed` reports it if none answers after
        that.
        """
        fields = {"path": path, **fields, "message": str(error or "ended early")}
        is_cut = error is None or isinstance(error, KubeUnreachable)
        if self.is_away or (is_cut and not self._cuts.seen_lately(f"{event} {path}")):
            decision_log.detail(event, **fields)
            return
        trouble = "cut" if is_cut else _trouble(error)
        if self._lines.is_due(trouble or f"{event} {path}"):
            decision_log.warn(event, **fields)
        else:
            decision_log.detail(event, **fields)

    def lists_by_pages(self, path: str, message: str, *, is_for_good: bool) -> None:
        """The server did not begin a watch with its list, and said why.

        `is_for_good`: it never does, for any resource. That is logged once for all paths, because a
        scheduler follows some twenty resources.
        """
        if not is_for_good:
            decision_log.inform(BY_PAGES, path=path, message=message)
            return
        with self._lock:
            is_first, self._lists_by_pages = not self._lists_by_pages, True
        log = decision_log.inform if is_first else decision_log.detail
        log(BY_PAGES, path=path, message=f"all lists are read by pages: {message}")

    def _answered(self) -> None:
        if self._away_since is None:
            return  # another thread noticed it first
        away_s = self._clock() - self._away_since
        self._away_since = None
        if self._logged_away:
            self._logged_away = False
            decision_log.inform(BACK, server=self._server, away_s=round(away_s, 1))

    def _missed(self, message: str) -> None:
        if self._away_since is None:
            self._away_since = self._clock()
        if self._lines.is_due(AWAY):
            self._logged_away = True
            away_s = round(self._clock() - self._away_since, 1)
            decision_log.warn(AWAY, server=self._server, message=message, away_s=away_s)
        else:
            decision_log.detail(AWAY, server=self._server, message=message)


def _trouble(error: Exception | None) -> str:
    """The trouble of the whole server, "" if only this request failed.

    Busy, broken, or without the history from which all its watches were to resume.
    """
    for one in (error, error.__cause__ if error is not None else None):
        if isinstance(one, KubeError) and (one.may_pass or one.status == HTTPStatus.GONE):
            return str(one.status)
    return ""


MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"

Query = Mapping[str, str | int]
#: A decoded JSON object, on cold paths only.
Object = dict[str, Any]

TIMEOUT_S = 30.0
THROTTLED_ATTEMPTS = 5
LONGEST_RETRY_AFTER_S = 30.0
#: Verbs that may be repeated, because a second time changes nothing.
REPEATABLE = frozenset({"GET", "PATCH"})


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeAnswer:
    """A successful answer: HTTP status (2xx) and the undecoded body."""

    status: int
    body: bytes


class KubeClient:
    """Requests to one API server; an async context manager that needs a running event loop.

    At most `concurrency` requests are in flight and the rest wait their turn, without their timeout
    running; streams (watches) are not counted. Requests that must not wait behind others, such as
    the Lease's, use a client of their own.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        concurrency: int = 32,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        may_write: Callable[[], bool] = lambda: True,
        tallies: RequestTallies | None = None,
        contact: ApiContact | None = None,
    ) -> None:
        """`may_write` is called before a request is sent, except GET.

        Clients of one process share `tallies` and `contact`, even on several threads.
        """
        self._credentials = credentials
        host = yarl.URL(credentials.server).host_port_subcomponent or "none"
        self.tallies = tallies or RequestTallies(host, threading.Lock())
        self.contact = contact or ApiContact(host)
        self._transport = KubeTransport(credentials, may_write)
        self._slots = asyncio.Semaphore(concurrency)
        self._throttled = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(_is_throttled),
            wait=_wait_retry_after,
            stop=tenacity.stop_after_attempt(THROTTLED_ATTEMPTS),
            sleep=sleep,
            reraise=True,
        )

    def another(self, *, concurrency: int) -> "KubeClient":
        """One more client with these credentials, to be entered; it may always write."""
        return KubeClient(
            self._credentials,
            concurrency=concurrency,
            tallies=self.tallies,
            contact=self.contact,
        )

    def elsewhere(self, *, concurrency: int) -> "KubeClient":
        """One more client, to be entered on another event loop; it may always write."""
        return KubeClient(
            self._credentials.another(),
            concurrency=concurrency,
            tallies=self.tallies,
            contact=self.contact,
        )

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._transport.__aexit__(*error)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: object = None,
        content_type: str = JSON,
        timeout_s: float = TIMEOUT_S,
        patient: bool = True,
    ) -> KubeAnswer:
        """Send one request; `body` is bytes or anything that msgspec encodes.

        Raises KubeError for an answer other than 2xx, KubeUnreachable without an answer, and
        KubeWithheld if nothing was sent. Unless `patient` is false, GET and PATCH are repeated when
        the server answers 429, after the time that it asks for; other verbs never.
        """
        data = body if isinstance(body, bytes | None) else msgspec.json.encode(body)
        target = _target(path, query)
        headers = {} if data is None else {"Content-Type": content_type}
        tries = 0

        async def once() -> KubeAnswer:
            nonlocal tries
            tries += 1
            if tries > 1:
                self.tallies.sent_again(method, HTTPStatus.TOO_MANY_REQUESTS)
            asked_s = perf_counter()
            async with self._slots:
                self.tallies.waited(method, perf_counter() - asked_s)
                return await self._send(method, target, headers, data or b"", timeout_s)

        if patient and method in REPEATABLE:
            return await self._throttled(once)
        return await once()

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Query | None = None, read_timeout_s: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """GET an answer that arrives in pieces of any size, until the server ends it.

        Raises KubeError or KubeUnreachable, on entering and while reading; the latter also when
        nothing arrives for `read_timeout_s`.
        """
        target = _target(path, query)
        response: aiohttp.ClientResponse | None = None
        try:
            async with self._transport.stream(target, read_timeout_s=read_timeout_s) as response:
                self.tallies.began("GET", response.status)
                self.contact.answered()
                if response.status >= HTTPStatus.MULTIPLE_CHOICES:
                    raise _refusal(await reply(response))
                yield response.content.iter_any()
        except NO_ANSWER as error:
            failure = _unreachable("GET", target, error)
            if response is None:
                self.tallies.began("GET", None)
                self.contact.missed(str(failure))
            raise failure from error

    async def get(self, path: str, query: Query | None = None) -> Object:
        """GET one object (or one page of a list)."""
        return _object(await self.request("GET", path, query=query))

    async def list_all(self, path: str, query: Query | None = None) -> list[Object]:
        """LIST every item, by pages of 500."""
        items: list[Object] = []
        more: Query = {**(query or {}), "limit": 500}
        while True:
            page = await self.get(path, more)
            items.extend(page.get("items") or [])
            following = (page.get("metadata") or {}).get("continue")
            if not following:
                return items
            more = {**more, "continue": following}

    async def create(self, path: str, body: object, query: Query | None = None) -> Object:
        """POST an object to a collection or a subresource."""
        return _object(await self.request("POST", path, body=body, query=query))

    async def replace(self, path: str, body: object) -> Object:
        """PUT an object; with metadata.resourceVersion in it, 409 if it changed meanwhile."""
        return _object(await self.request("PUT", path, body=body))

    async def merge_patch(self, path: str, body: object) -> Object:
        """PATCH by RFC 7396: lists are replaced as a whole."""
        return _object(await self.request("PATCH", path, body=body, content_type=MERGE_PATCH))

    async def strategic_patch(self, path: str, body: object) -> Object:
        """PATCH by Kubernetes' rules: lists with merge keys, such as conditions, are merged."""
        return _object(await self.request("PATCH", path, body=body, content_type=STRATEGIC_PATCH))

    async def delete(
        self, path: str, *, uid: str | None = None, grace_period_s: int | None = None
    ) -> Object:
        """DELETE; with `uid`, only that object (else 409)."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if grace_period_s is not None:
            options["gracePeriodSeconds"] = grace_period_s
        return _object(await self.request("DELETE", path, body=options))

    async def _send(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes, timeout_s: float
    ) -> KubeAnswer:
        sent_s = perf_counter()
        try:
            got = await self._transport.send(method, target, headers, body, timeout_s)
        except NO_ANSWER as error:
            self.tallies.ended(method, None, perf_counter() - sent_s)
            failure = _unreachable(method, target, error)
            self.contact.missed(str(failure))
            raise failure from error
        self.tallies.ended(method, got.status, perf_counter() - sent_s)
        self.contact.answered()
        if got.status >= HTTPStatus.MULTIPLE_CHOICES:
            raise _refusal(got)
        return KubeAnswer(status=got.status, body=got.body)


def decode(body: bytes) -> Object:
    """Decode an answer that is a JSON object. Raises KubeUnreachable if it is not one."""
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except UNDECODABLE as error:
        raise KubeUnreachable(f"not an answer of an API server: {body[:100]!r}") from error


def _object(answer: KubeAnswer) -> Object:
    return decode(answer.body)


def _unreachable(method: str, target: str, error: BaseException) -> KubeUnreachable:
    """The error with the request and the reason, without the server, which is always the same."""
    return KubeUnreachable(f"{method} {target.partition('?')[0]}: {why_unanswered(error)}")


def _target(path: str, query: Query | None) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _refusal(got: Reply) -> KubeError:
    return kube_error(got.status, got.reason, got.retry_after, got.body)


def _is_throttled(error: BaseException) -> bool:
    return isinstance(error, KubeError) and error.status == HTTPStatus.TOO_MANY_REQUESTS


def _wait_retry_after(state: tenacity.RetryCallState) -> float:
    outcome = state.outcome
    error = cast(KubeError, outcome.exception()) if outcome is not None else KubeError(0)
    wanted_s = 1.0 if error.retry_after_s is None else error.retry_after_s
    return min(wanted_s, LONGEST_RETRY_AFTER_S)
