"""One HTTP client for one API server: bytes out, bytes in, errors as our own exceptions.

HTTP/1.1 with keep-alive over aiohttp; Kubernetes models are never built.
"""

import asyncio
import threading
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

from kubeshare_py.edges.kube.api_contact import ApiContact
from kubeshare_py.edges.kube.credentials import Credentials
from kubeshare_py.edges.kube.errors import KubeError, KubeUnreachable, kube_error
from kubeshare_py.edges.kube.http_connections import Reply
from kubeshare_py.edges.kube.transport import (
    JSON,
    NO_ANSWER,
    KubeTransport,
    reply,
    why_unanswered,
)
from kubeshare_py.exporters.client_metrics import RequestTallies
from kubeshare_py.manifests.undecodable import UNDECODABLE

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
