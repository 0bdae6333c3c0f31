"""The embedded Kubernetes API server: `embedded_cluster.apiserver.requests` behind HTTPS.

A stock kubectl, the scheduler, simulated kubelets and tests use it like a real cluster. Users are
identified by bearer tokens and client certificates; known users may do everything, and
administrators may impersonate others. Faults can be injected (`faults`).
"""

import asyncio
import random
import secrets
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from aiohttp import web

from kubeshare_py.edges.kube.certificates import Certificates, make_certificates, write_private
from kubeshare_py.edges.kube.credential_reading import KubeReading
from kubeshare_py.edges.kube.credentials import Credentials
from kubeshare_py.embedded_cluster.apiserver.requests import ApiAnswer, ApiService
from kubeshare_py.embedded_cluster.protocol.messages import (
    ADMIN_GROUPS,
    ApiRequest,
    ApiResponse,
    RequestUser,
    refusal_response,
)
from kubeshare_py.embedded_cluster.protocol.mutation import Mutation, unchanged
from kubeshare_py.embedded_cluster.protocol.status import ApiRefusal, failure
from kubeshare_py.embedded_cluster.serving.aggregator import ApiAggregator
from kubeshare_py.embedded_cluster.serving.callers import certified, impersonated
from kubeshare_py.embedded_cluster.serving.client_certificates import make_client_authority
from kubeshare_py.embedded_cluster.serving.faults import ApiFaults
from kubeshare_py.embedded_cluster.serving.kubeconfigs import (
    certificate_kubeconfig_text,
    kubeconfig_text,
)
from kubeshare_py.embedded_cluster.serving.watch_stream import WatchStreams

ADMIN = "admin"
SCHEDULER = "system:serviceaccount:kube-system:kubeshare-scheduler"
_LARGEST_BODY = 3 * 1024 * 1024
_OPEN_PATHS = ("/healthz", "/livez", "/readyz", "/version")


class ApiServer:
    """A server on 127.0.0.1; `async with ApiServer(directory=...) as server:` runs it.

    directory: certificates are kept there (made if missing). clock: Unix time (s). seed: determines
    uids and generated names. port 0: any free one. mutation: the admission of new pods, in place of
    policies and webhooks.
    """

    def __init__(
        self,
        *,
        directory: Path,
        clock: Callable[[], float] = time.time,
        seed: int = 0,
        port: int = 0,
        mutation: Mutation = unchanged,
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
        self._certificates: Certificates = make_certificates(directory)
        self._streams = WatchStreams()
        self._clients = make_client_authority("clients")
        #: Forwards to other servers; APIServices have conditions while it is kept (`keep`).
        self.aggregator = ApiAggregator(self.service, clock, directory, self._clients.pem())
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """`https://127.0.0.1:<port>`; only while it runs."""
        return f"https://127.0.0.1:{self._port}"

    @property
    def ca_file(self) -> Path:
        """The certificate authority that clients must trust."""
        return self._certificates.ca_file

    @property
    def certificates(self) -> Certificates:
        """All of them, for other servers of the same embedded cluster."""
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

    def write_kubeconfig(self, path: Path, user: str = ADMIN) -> Path:
        """The same in a file that only its owner may read."""
        return write_private(path, self.kubeconfig(user))

    def write_client_kubeconfig(self, path: Path, user: str, *groups: str) -> Path:
        """A kubeconfig for a user with a client certificate and no token."""
        pair = self._clients.write_client(path.with_suffix(".pem"), user, groups)
        authority = self.ca_file.read_bytes()
        return write_private(path, certificate_kubeconfig_text(self.url, authority, user, pair))

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
        context = self._certificates.server_context()
        context.load_verify_locations(cadata=self._clients.pem())
        context.verify_mode = ssl.CERT_OPTIONAL
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
