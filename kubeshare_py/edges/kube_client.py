"""One HTTP client for one API server: bytes out, bytes in, errors as our own exceptions.

HTTP/1.1 with keep-alive over aiohttp; Kubernetes models are never built.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from time import perf_counter
from types import TracebackType
from typing import Any, Self, TypedDict, TypeVar, Unpack, cast
from urllib.parse import urlencode

import aiohttp
import msgspec
import tenacity
import yarl

from kubeshare_py.edges.credentials import Credentials
from kubeshare_py.edges.http_connections import Connections, Reply
from kubeshare_py.edges.kube_errors import KubeError, KubeUnreachable, KubeWithheld, kube_error
from kubeshare_py.exporters.client_metrics import RequestTallies
from kubeshare_py.manifests.watch import UNDECODABLE

R = TypeVar("R", aiohttp.ClientResponse, Reply)

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"

Query = Mapping[str, str | int]
#: A decoded JSON object, on cold paths only.
Object = dict[str, Any]

HEADERS = {"Accept": JSON, "User-Agent": "kubeshare-py"}
OUTSIDE = "KubeClient is used outside its context"
TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 5.0
#: A dead connection is noticed after IDLE + INTERVAL x PROBES seconds, also where nothing is sent.
KEEPALIVE_IDLE_S, KEEPALIVE_INTERVAL_S, KEEPALIVE_PROBES = 20, 5, 4
#: A watch hands over at most twice this at once: about 150 pods, 3 ms of decoding.
STREAM_BUFSIZE = 512 * 1024
THROTTLED_ATTEMPTS = 5
LONGEST_RETRY_AFTER_S = 30.0
#: Verbs that may be repeated: a second time changes nothing.
REPEATABLE = frozenset({"GET", "PATCH"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A successful answer: HTTP status (2xx) and the undecoded body."""

    status: int
    body: bytes


class _Options(TypedDict, total=False):
    data: bytes | None
    timeout: aiohttp.ClientTimeout
    read_bufsize: int
    server_hostname: str | None


class KubeClient:
    """Requests to one API server; an async context manager. Needs a running event loop to enter.

    At most `concurrency` requests are in flight and the rest wait their turn, without their
    timeout running; streams (watches) are not counted. What must not wait behind others, such as
    the Lease, uses a client of its own.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        concurrency: int = 32,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        may_write: Callable[[], bool] = lambda: True,
        tallies: RequestTallies | None = None,
    ) -> None:
        """`may_write` is asked when a request is about to leave, GET excepted.

        Clients of one process share `tallies`.
        """
        self._credentials = credentials
        server = yarl.URL(credentials.server)
        #: The path of a server that is reached through a proxy of its own, as Rancher's.
        self._prefix = server.raw_path.rstrip("/")
        host = server.host_port_subcomponent or "none"
        self.tallies = tallies or RequestTallies(host)
        self._may_write = may_write
        self._turn = asyncio.Semaphore(concurrency)
        self._session: aiohttp.ClientSession | None = None
        #: For all but GET, whose answers may be large: it asks for them compressed.
        self._connections: Connections | None = None
        self._throttled = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(_is_throttled),
            wait=_wait_as_told,
            stop=tenacity.stop_after_attempt(THROTTLED_ATTEMPTS),
            sleep=sleep,
            reraise=True,
        )

    def another(self, *, concurrency: int) -> "KubeClient":
        """One more client with these credentials, to be entered; it may write at any time."""
        return KubeClient(self._credentials, concurrency=concurrency, tallies=self.tallies)

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            # The limit on requests is ours: aiohttp's would count watches, and its timeouts
            # include the time spent waiting for a free connection.
            connector=aiohttp.TCPConnector(
                limit=0,
                ssl=self._credentials.ssl_context,
                keepalive_timeout=60,
                socket_factory=_watched_socket,
            ),
            headers=HEADERS,
            read_bufsize=2 * 1024 * 1024,
            proxy=self._credentials.proxy,
            auto_decompress=True,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        if self._credentials.proxy is None:
            self._connections = Connections(
                yarl.URL(self._credentials.server),
                headers=HEADERS,
                tls=self._credentials.ssl_context,
                server_hostname=self._credentials.server_hostname,
                connect_within_s=CONNECT_TIMEOUT_S,
                tune=_watch,
            )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._connections is not None:
            self._connections.close()
            self._connections = None
        if self._session is not None:
            await self._session.close()
            self._session = None

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
    ) -> Answer:
        """Send one request; `body` is bytes or anything that msgspec encodes.

        Raises KubeError for an answer other than 2xx, KubeUnreachable where there is none, and
        KubeWithheld where nothing was sent. Unless `patient` is false, GET and PATCH are repeated
        when the server says 429, after the time that it asks for; other verbs never.
        """
        data = body if isinstance(body, bytes | None) else msgspec.json.encode(body)
        target = _target(path, query)
        headers = {} if data is None else {"Content-Type": content_type}
        tries = 0

        async def once() -> Answer:
            nonlocal tries
            tries += 1
            if tries > 1:
                self.tallies.sent_again(method, HTTPStatus.TOO_MANY_REQUESTS)
            asked_s = perf_counter()
            async with self._turn:
                self.tallies.waited(method, perf_counter() - asked_s)
                return await self._send(method, target, data, headers, timeout_s)

        if patient and method in REPEATABLE:
            return await self._throttled(once)
        return await once()

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Query | None = None, read_timeout_s: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """GET whose answer arrives in pieces, each of any size, until the server ends it.

        Raises KubeError or KubeUnreachable, on entering and while reading; the latter too when
        nothing arrives for `read_timeout_s`.
        """
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=read_timeout_s
        )
        target = _target(path, query)
        response: aiohttp.ClientResponse | None = None

        async def begin(headers: Mapping[str, str]) -> aiohttp.ClientResponse:
            nonlocal response
            if response is not None:
                response.release()
            response = await self._open(
                "GET", target, headers, timeout=timeout, read_bufsize=STREAM_BUFSIZE
            )
            return response

        try:
            async with await self._authorized("GET", target, begin) as response:
                self.tallies.began("GET", response.status)
                if response.status >= HTTPStatus.MULTIPLE_CHOICES:
                    raise _refusal(_reply(response, await response.read()))
                yield response.content.iter_any()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            if response is None:
                self.tallies.began("GET", None)
            raise self._unreachable("GET", target, error) from error

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
        """PUT an object; with metadata.resourceVersion in it, 409 if someone was faster."""
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
        """DELETE; with `uid`, only that very object (else 409)."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if grace_period_s is not None:
            options["gracePeriodSeconds"] = grace_period_s
        return _object(await self.request("DELETE", path, body=options))

    async def _send(
        self,
        method: str,
        target: str,
        data: bytes | None,
        headers: Mapping[str, str],
        timeout_s: float,
    ) -> Answer:
        exchange = self._fetch if method == "GET" or self._connections is None else self._write
        sent_s = perf_counter()
        try:
            reply = await self._authorized(
                method,
                target,
                lambda more: exchange(method, target, {**headers, **more}, data, timeout_s),
            )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self.tallies.ended(method, None, perf_counter() - sent_s)
            raise self._unreachable(method, target, error) from error
        self.tallies.ended(method, reply.status, perf_counter() - sent_s)
        if reply.status >= HTTPStatus.MULTIPLE_CHOICES:
            raise _refusal(reply)
        return Answer(status=reply.status, body=reply.body)

    async def _authorized(
        self, method: str, target: str, send: Callable[[Mapping[str, str]], Awaitable[R]]
    ) -> R:
        """Send with the Authorization header; after a 401 once more if that may help."""
        for last in (False, True):
            authorization = await self._credentials.headers()
            if method != "GET" and not self._may_write():
                server = self._credentials.server
                raise KubeWithheld(
                    f"{method} {server}{target}: not sent, this process does not lead"
                )
            reply = await send(authorization)
            if reply.status != HTTPStatus.UNAUTHORIZED or last:
                break
            if not await self._credentials.renew(authorization):
                break
        return reply

    def _unreachable(self, method: str, target: str, error: BaseException) -> KubeUnreachable:
        url = self._credentials.server + target
        return KubeUnreachable(f"{method} {url}: {type(error).__name__}: {error}".rstrip(": "))

    async def _write(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        data: bytes | None,
        timeout_s: float,
    ) -> Reply:
        if self._connections is None:
            raise RuntimeError(OUTSIDE)
        return await self._connections.request(
            method, self._prefix + target, headers, data or b"", timeout_s
        )

    async def _fetch(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        data: bytes | None,
        timeout_s: float,
    ) -> Reply:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S)
        # aiohttp's own limit on the whole forgets that its task was cancelled when both happen
        # in one turn of the loop (seen with 3.14.5): whoever waits for the task waits for ever.
        async with asyncio.timeout(timeout_s):
            response = await self._open(method, target, headers, data=data, timeout=timeout)
            async with response:
                return _reply(response, await response.read())

    async def _open(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        **options: Unpack[_Options],
    ) -> aiohttp.ClientResponse:
        """Send, until the head of the answer is there."""
        if self._session is None:
            raise RuntimeError(OUTSIDE)
        options["server_hostname"] = self._credentials.server_hostname
        url = yarl.URL(self._credentials.server + target, encoded=True)
        return await self._session.request(
            method, url, headers=headers, allow_redirects=False, **options
        )


def decode(body: bytes) -> Object:
    """Decode an answer that is a JSON object; KubeUnreachable if it is not one."""
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except UNDECODABLE as error:
        raise KubeUnreachable(f"not an answer of an API server: {body[:100]!r}") from error


def _object(answer: Answer) -> Object:
    return decode(answer.body)


def _target(path: str, query: Query | None) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _reply(response: aiohttp.ClientResponse, body: bytes) -> Reply:
    return Reply(
        status=response.status,
        reason=response.reason or "",
        retry_after=response.headers.get("Retry-After", ""),
        body=body,
    )


def _refusal(reply: Reply) -> KubeError:
    return kube_error(reply.status, reply.reason, reply.retry_after, reply.body)


def _is_throttled(error: BaseException) -> bool:
    return isinstance(error, KubeError) and error.status == HTTPStatus.TOO_MANY_REQUESTS


def _wait_as_told(state: tenacity.RetryCallState) -> float:
    outcome = state.outcome
    error = cast(KubeError, outcome.exception()) if outcome is not None else KubeError(0)
    told = 1.0 if error.retry_after_s is None else error.retry_after_s
    return min(told, LONGEST_RETRY_AFTER_S)


def _watched_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    _watch(made)
    return made


def _watch(made: socket.socket) -> None:
    """Let the kernel notice a peer that is gone: half-open watches end."""
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE_S),
        ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_S),
        ("TCP_KEEPCNT", KEEPALIVE_PROBES),
    ):
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
