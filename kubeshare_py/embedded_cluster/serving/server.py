"""The embedded Kubernetes API server: `embedded_cluster.apiserver.requests` behind HTTPS.

A stock kubectl, the scheduler, simulated kubelets and tests use it like a real cluster. Users are
identified by bearer tokens and client certificates; known users may do everything, and
administrators may impersonate others. Faults can be injected (`ApiFaults`).
"""

import asyncio
import random
import re
import secrets
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import msgspec
from aiohttp import web

from kubeshare_py.edges.kube.certificates import Certificates, make_certificates, write_private
from kubeshare_py.edges.kube.credentials import Credentials
from kubeshare_py.edges.kube.kubeconfig import KubeReading
from kubeshare_py.edges.process.connection_abort import abort
from kubeshare_py.embedded_cluster.apiserver.requests import ApiAnswer, ApiService
from kubeshare_py.embedded_cluster.protocol.messages import (
    ADMIN_GROUPS,
    ApiRequest,
    ApiResponse,
    RequestUser,
    WatchAnswer,
    refusal_response,
)
from kubeshare_py.embedded_cluster.protocol.mutation import Mutation, unchanged
from kubeshare_py.embedded_cluster.protocol.status import ApiRefusal, failure
from kubeshare_py.embedded_cluster.protocol.watches import Subscription
from kubeshare_py.embedded_cluster.serving.aggregator import ApiAggregator
from kubeshare_py.embedded_cluster.serving.credentials import (
    certificate_kubeconfig_text,
    certified,
    impersonated,
    kubeconfig_text,
    make_client_authority,
)

# Faults of the embedded API server: errors, lost answers, silence.
#
# A fault is chosen by method and by a pattern over the path, and used up after `times` requests.


@dataclass(slots=True, kw_only=True)
class Fault:
    """One fault.

    status: answer with this code, without doing anything; 0: cut the connection instead.
    applies_first: perform the request, then lose the answer (status 0) or replace it. delay_s: wait
    this long (s) before answering. only_slow: after that delay perform and answer as usual.
    """

    method: str
    path: str  # regular expression, searched in the path
    status: int = 0
    reason: str = "InternalError"
    message: str = "injected fault"
    retry_after_s: int = 0
    applies_first: bool = False
    delay_s: float = 0.0
    only_slow: bool = False
    times: int = 1

    def matches(self, request: ApiRequest) -> bool:
        """Whether it applies to this request."""
        return self.method == request.method and re.search(self.path, request.path) is not None

    async def answer(self, request: web.Request) -> web.Response:
        """The bad answer; for status 0 the connection is cut."""
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        if not self.status:
            abort(request.transport)
            return web.Response(status=503)
        body = msgspec.json.encode(failure(self.status, self.reason, self.message))
        response = web.Response(status=self.status, body=body, content_type="application/json")
        if self.retry_after_s:
            response.headers["Retry-After"] = str(self.retry_after_s)
        return response


class ApiFaults:
    """The faults still to come, and whether the server is paused."""

    def __init__(self) -> None:
        self._waiting: list[Fault] = []
        self._running = asyncio.Event()
        self._running.set()
        self._waited = asyncio.Event()

    def inject(self, fault: Fault) -> None:
        """Use it for the next matching requests."""
        self._waiting.append(fault)

    def clear(self) -> None:
        """Drop all that were not used."""
        self._waiting.clear()

    def pause(self) -> None:
        """Answer no new request until `resume`; open watches go on."""
        self._waited.clear()
        self._running.clear()

    def resume(self) -> None:
        """Answer again, those that waited first."""
        self._running.set()

    async def passable(self) -> None:
        """Wait while paused."""
        if not self._running.is_set():
            self._waited.set()
            await self._running.wait()

    async def someone_waits(self) -> None:
        """Return once a request has run into the pause."""
        await self._waited.wait()

    def take(self, request: ApiRequest) -> Fault | None:
        """The first fault for this request, used up by one."""
        for fault in self._waiting:
            if fault.matches(request):
                fault.times -= 1
                if fault.times <= 0:
                    self._waiting.remove(fault)
                return fault
        return None


# Watches over HTTP: chunked JSON lines, one stream per watcher, bookmarks, a timely end.


BOOKMARK_PERIOD_S = 60.0
_BEFORE_END_S = 2.0
_DEFAULT_TIMEOUT_S = (1800.0, 3600.0)


class WatchStreams:
    """All open watches of one server."""

    def __init__(self) -> None:
        self._open: dict[Subscription, web.Request] = {}
        self._closing = False

    def cut(self) -> int:
        """Abort every watch's connection; returns how many there were."""
        found = list(self._open.values())
        for request in found:
            abort(request.transport)
        return len(found)

    def close(self) -> None:
        """End every watch in order, after its pending lines."""
        self._closing = True
        for subscription in self._open:
            subscription.ended = True
            subscription.on_ready()

    async def send(self, request: web.Request, answer: WatchAnswer) -> web.StreamResponse:
        """Stream until the watch ends, times out, falls behind, or the client leaves."""
        subscription = answer.subscription
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        self._open[subscription] = request
        try:
            await response.prepare(request)
            await self._pump(response, answer)
            await response.write_eof()
        except ConnectionError:
            pass  # The client left.
        finally:
            subscription.close()
            del self._open[subscription]
        return response

    async def _pump(self, response: web.StreamResponse, answer: WatchAnswer) -> None:
        subscription, ready = answer.subscription, asyncio.Event()
        subscription.on_ready = ready.set
        clock = asyncio.get_running_loop().time
        end = clock() + (answer.timeout_s or random.uniform(*_DEFAULT_TIMEOUT_S))
        bookmark_at = _next_bookmark(clock(), end) if answer.bookmarks else end
        while True:
            ready.clear()
            if lines := subscription.take():
                await response.write(lines)
                continue
            now = clock()
            if subscription.ended or self._closing or now >= end:
                return
            if now >= bookmark_at:
                subscription.bookmark()
                bookmark_at = _next_bookmark(now, end)
                continue
            try:
                async with asyncio.timeout_at(min(bookmark_at, end)):
                    await ready.wait()
            except TimeoutError:
                continue


def _next_bookmark(now: float, end: float) -> float:
    """About once a minute and once shortly before the end, as the real server does."""
    last = end - _BEFORE_END_S
    return min(now + BOOKMARK_PERIOD_S, last if last > now else end)


ADMIN = "admin"
SCHEDULER = "system:serviceaccount:kube-system:kubeshare-scheduler"
_LARGEST_BODY = 3 * 1024 * 1024
_OPEN_PATHS = ("/healthz", "/livez", "/readyz", "/version")


class ApiServer:
    """A server on 127.0.0.1; `async with ApiServer(directory=...) as server:` runs it.

    directory: certificates are kept there (made if missing). clock: Unix time (s). seed: determines
    uids and generated names. port 0: any free one. mutation: the admission of new pods, in place of
    policies and webhooks. Without `tls` it speaks plain HTTP, and knows no client certificates.
    """

    def __init__(
        self,
        *,
        directory: Path,
        clock: Callable[[], float] = time.time,
        seed: int = 0,
        port: int = 0,
        mutation: Mutation = unchanged,
        tls: bool = True,
    ) -> None:
        self.service = ApiService(rng=random.Random(seed), now=clock())
        self.service.mutation = mutation
        self.service.access.user_of = self._user_of
        self.faults = ApiFaults()
        #: Called with each request as it arrives, before any fault, like an audit log.
        self.audit: Callable[[ApiRequest], None] = _forget
        self.tokens = {user: secrets.token_urlsafe(24) for user in (ADMIN, SCHEDULER)}
        self._clock = clock
        self._port = port
        self._tls = tls
        self._certificates: Certificates = make_certificates(directory)
        self._streams = WatchStreams()
        self._clients = make_client_authority("clients")
        #: Forwards to other servers; APIServices have conditions while it is kept (`keep`).
        self.aggregator = ApiAggregator(self.service, clock, directory, self._clients.pem())
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """`https://127.0.0.1:<port>`, or `http:`; only while it runs."""
        return f"http{'s' * self._tls}://127.0.0.1:{self._port}"

    @property
    def ca_file(self) -> Path:
        """The certificate authority that clients must trust."""
        return self._certificates.ca_file

    @property
    def certificates(self) -> Certificates:
        """The keys and certificates, for other servers of the same embedded cluster."""
        return self._certificates

    def client_context(self) -> ssl.SSLContext:
        """A TLS context that trusts this server."""
        return self._certificates.client_context()

    def add_user(self, user: str, *paths: str) -> str:
        """A token for one more user, with these nonResourceURLs of other servers."""
        self.service.access.paths.setdefault(user, []).extend(paths)
        return self.tokens.setdefault(user, secrets.token_urlsafe(24))

    def kubeconfig(self, user: str = ADMIN) -> str:
        """A kubeconfig as YAML text; raises KeyError for unknown users."""
        return kubeconfig_text(self.url, self.ca_file.read_bytes(), user, self.tokens[user])

    def credentials(self, user: str = ADMIN) -> Credentials:
        """The same for a client in this process; raises KeyError for unknown users."""
        reading = KubeReading(
            server=self.url,
            authorization=f"Bearer {self.tokens[user]}",
            ca=self.ca_file.read_text(),
        )
        return Credentials(f"the embedded cluster's {user}", lambda: reading)

    def anonymous(self) -> Credentials:
        """The address and the authority for a client that shows the tokens of others."""
        reading = KubeReading(server=self.url, ca=self.ca_file.read_text())
        return Credentials("the embedded cluster", lambda: reading)

    def write_kubeconfig(self, path: Path, user: str = ADMIN) -> Path:
        """The same in a file that only its owner may read."""
        return write_private(path, self.kubeconfig(user))

    def write_client_kubeconfig(self, path: Path, user: str, *groups: str) -> Path:
        """A kubeconfig for a user with a client certificate and no token."""
        pair = self._clients.write_client(path.with_suffix(".pem"), user, groups)
        authority = self.ca_file.read_bytes()
        return write_private(path, certificate_kubeconfig_text(self.url, authority, user, pair))

    def _server_context(self) -> ssl.SSLContext:
        context = self._certificates.server_context()
        context.load_verify_locations(cadata=self._clients.pem())
        context.verify_mode = ssl.CERT_OPTIONAL
        return context

    def cut_watches(self) -> int:
        """Break all open watches, as a restarting server does; returns how many."""
        return self._streams.cut()

    def compact(self) -> None:
        """Drop the history: older resourceVersions get 410 from now on."""
        self.service.store.compact()

    async def start(self) -> None:
        """Listen; after a `stop` on the same port and with the same objects."""
        self._streams = WatchStreams()
        app = web.Application(client_max_size=_LARGEST_BODY)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0
        )
        await self._runner.setup()
        context = self._server_context() if self._tls else None
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, ssl_context=context)
        await site.start()
        self._port = int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """End watches, finish requests, stop listening."""
        self.faults.resume()
        self._streams.close()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        await self.faults.passable()
        try:
            user = self._caller(request)
        except ApiRefusal as refusal:
            return plain(refusal_response(refusal))
        asked = ApiRequest(
            method=request.method,
            path=request.path,
            query=dict(request.query),
            accept=",".join(request.headers.getall("Accept", [])),
            content_type=request.headers.get("Content-Type", ""),
            body=await request.read(),
            user=user,
        )
        self.audit(asked)
        fault = self.faults.take(asked)
        if fault is not None and fault.only_slow:
            await asyncio.sleep(fault.delay_s)
            fault = None
        if fault is not None and not fault.applies_first:
            return await fault.answer(request)
        if self.aggregator.is_for(asked.path):
            return await self.aggregator.forward(asked, request)
        answer = await self.perform(asked, request)
        self.aggregator.noticed(asked)
        if fault is not None:
            return await fault.answer(request)
        return await self.send(request, answer)

    async def perform(self, asked: ApiRequest, request: web.Request) -> ApiAnswer:
        """Perform a request; nothing is sent yet."""
        return self.service.handle(asked, self._clock())

    async def send(self, request: web.Request, answer: ApiAnswer) -> web.StreamResponse:
        """Send the answer of `perform`."""
        if isinstance(answer, ApiResponse):
            return plain(answer)
        return await self._streams.send(request, answer)

    def _user_of(self, token: str) -> RequestUser | None:
        for name, known in self.tokens.items():
            if secrets.compare_digest(token.encode(), known.encode()):
                groups = ADMIN_GROUPS if name == ADMIN else ADMIN_GROUPS[1:]
                return RequestUser(name=name, groups=groups)
        return None

    def _caller(self, request: web.Request) -> RequestUser:
        """The authenticated or impersonated user. Raises ApiRefusal."""
        user = self._user(request)
        if user is None:
            raise ApiRefusal(failure(401, "Unauthorized", "Unauthorized"))
        return impersonated(user, request.headers)

    def _user(self, request: web.Request) -> RequestUser | None:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self._user_of(token.strip())
        if user := certified(request):
            return user
        if request.path in _OPEN_PATHS:
            return RequestUser(name="system:anonymous", groups=("system:unauthenticated",))
        return None


def _forget(_request: ApiRequest) -> None:
    """Keep no audit log."""


def plain(answer: ApiResponse) -> web.Response:
    """The same for aiohttp."""
    response = web.Response(status=answer.status, body=answer.body)
    if answer.content_type:  # a 304 has none, or clients would apply it to their cached answer
        response.headers["Content-Type"] = answer.content_type
    for name, value in answer.headers:
        response.headers.add(name, value)
    return response
