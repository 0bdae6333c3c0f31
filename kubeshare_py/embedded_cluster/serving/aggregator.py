"""API groups of other servers: requests are forwarded with the user's name and groups.

As by kube-aggregator:
https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer/
"""

import asyncio
import base64
import json
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import aiohttp
import msgspec
import yarl
from aiohttp import web

from kubeshare_py.embedded_cluster.apiserver.requests import ApiService
from kubeshare_py.embedded_cluster.kinds.services import (
    API_SERVICES,
    AVAILABLE,
    SERVICES,
    condition_of,
    registered,
    resources_of,
    service_of,
)
from kubeshare_py.embedded_cluster.protocol.messages import ApiRequest, RequestUser
from kubeshare_py.embedded_cluster.protocol.resources import Resource
from kubeshare_py.embedded_cluster.protocol.status import Json
from kubeshare_py.embedded_cluster.protocol.store import ApiStore
from kubeshare_py.embedded_cluster.protocol.times import timestamp
from kubeshare_py.embedded_cluster.serving.credentials import make_client_authority

# The server behind an APIService of the embedded API server, and its trusted authority.


@dataclass(frozen=True, slots=True)
class ServiceTarget:
    """A URL, the name in its certificate, and the bundle that verifies it.

    `bundle` is base64 of PEM, "" for the system's authorities.
    """

    url: str
    host: str
    bundle: str
    insecure: bool


class Unavailable(Exception):
    """The group is not available; `reason` is that of the condition, the text its message."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def target_of(store: ApiStore, service: Json) -> ServiceTarget:
    """The server behind an APIService. Raises Unavailable.

    Only external names are supported: there is no network of pods here.
    """
    spec = service["spec"]
    namespace, name = spec["service"]["namespace"], spec["service"]["name"]
    entry = store.get(SERVICES.store_bucket, namespace, name)
    if entry is None:
        raise Unavailable("ServiceNotFound", f'service/{name} in "{namespace}" is not present')
    host = entry.object["spec"].get("externalName")
    if not host:
        message = f'endpoints for service/{name} in "{namespace}" have no addresses'
        raise Unavailable("MissingEndpoints", message)
    return ServiceTarget(
        url=f"https://{host}:{spec['service']['port']}",
        host=f"{name}.{namespace}.svc",
        bundle=spec.get("caBundle", ""),
        insecure=bool(spec.get("insecureSkipTLSVerify")),
    )


class Contexts:
    """TLS contexts by target, each with the proxy's own certificate; the last one is kept."""

    def __init__(self, pair: Path) -> None:
        """`pair` is a file of certificate and key."""
        self._pair = pair
        self._last: tuple[ServiceTarget, ssl.SSLContext] | None = None

    def of(self, target: ServiceTarget) -> ssl.SSLContext:
        """The context for a target. Raises Unavailable for a bad bundle."""
        if self._last is None or self._last[0] != target:
            self._last = target, self._made(target)
        return self._last[1]

    def _made(self, target: ServiceTarget) -> ssl.SSLContext:
        try:
            bundle = base64.b64decode(target.bundle).decode()
            context = ssl.create_default_context(cadata=bundle or None)
        except (ValueError, ssl.SSLError) as error:
            message = f"unable to load root certificates: {error}"
            raise Unavailable("FailedDiscoveryCheck", message) from error
        if target.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        context.load_cert_chain(self._pair)
        return context


#: Seconds between checks of the servers; also checked at once after a change.
CHECK_S = 2.0
NAME = "front-proxy-client"
_CONFIG_MAPS = "/api/v1/namespaces/kube-system/configmaps"
_SELF = RequestUser(name="system:kube-aggregator", groups=("system:masters",))
_TIMEOUT = aiohttp.ClientTimeout(total=60, sock_connect=5)
_CHECK_TIMEOUT = aiohttp.ClientTimeout(total=5)
#: Headers that are not forwarded: of the connection, credentials, and those that only this server
#: may set.
_KEPT_BACK = (
    "authorization", "connection", "content-length", "host", "keep-alive", "te", "upgrade",
    "transfer-encoding", "impersonate-", "x-remote-",
)  # fmt: skip


class ApiAggregator:
    """Forwards requests for one API server, and keeps the conditions of its APIServices."""

    def __init__(
        self, service: ApiService, clock: Callable[[], float], directory: Path, clients: str
    ) -> None:
        """`clock` gives Unix time (s); `clients` is the authority of users' certificates.

        The proxy's own certificate is written to the directory.
        """
        self._service = service
        self._clock = clock
        self._changed = asyncio.Event()
        self._ended = False
        authority = make_client_authority("front-proxy-ca")
        self._contexts = Contexts(authority.write_client(directory / "front-proxy.pem", NAME))
        self._clients, self._authority = clients, authority.pem()

    def is_for(self, path: str) -> bool:
        """Whether another server serves that path."""
        return service_of(self._service.store, path) is not None

    def noticed(self, request: ApiRequest) -> None:
        """Check servers again after a request that may have changed something."""
        if request.method != "GET" and (
            "apiservices" in request.path or "services" in request.path
        ):
            self._changed.set()

    async def forward(self, asked: ApiRequest, request: web.Request) -> web.StreamResponse:
        """The other server's own answer; 503 while it is not available."""
        found = service_of(self._service.store, asked.path)
        if found is None or condition_of(found).get("status") != "True":
            return _unavailable("service unavailable\n")
        headers = [
            (name, value)
            for name, value in request.headers.items()
            if not name.lower().startswith(_KEPT_BACK)
        ]
        headers += _named(asked.user)
        try:
            target = target_of(self._service.store, found)
            async with (
                aiohttp.ClientSession(timeout=_TIMEOUT, auto_decompress=False) as session,
                session.request(
                    asked.method,
                    yarl.URL(target.url + request.raw_path, encoded=True),
                    headers=headers,
                    data=asked.body or None,
                    ssl=self._contexts.of(target),
                    server_hostname=target.host,
                    allow_redirects=False,
                ) as answer,
            ):
                return await _passed_on(answer, request)
        except (Unavailable, aiohttp.ClientError, OSError, TimeoutError) as error:
            return _unavailable(f"error trying to reach service: {error}\n")

    async def keep(self) -> None:
        """Publish this server's proxy certificate, and check APIServices until `end`."""
        self._publish()
        while not self._ended:
            self._changed.clear()
            await self.check()
            try:
                async with asyncio.timeout(CHECK_S):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def end(self) -> None:
        """End `keep` after the check under way: a cancelled handshake would leave a socket."""
        self._ended = True
        self._changed.set()

    async def check(self) -> None:
        """Ask each server for its resources, and record whether it answers."""
        rows: list[Resource] = []
        for one in list(registered(self._service.store)):
            try:
                target = target_of(self._service.store, one)
                rows += resources_of(one, await self._listed(one, target))
            except Unavailable as error:
                self._write(one, "False", error.reason, str(error))
            else:
                self._write(one, "True", "Passed", "all checks passed")
        self._service.aggregated = tuple(rows)

    async def _listed(self, one: Json, target: ServiceTarget) -> Json:
        url = f"{target.url}/apis/{one['spec']['group']}/{one['spec']['version']}"
        said = f"failing or missing response from {url}"
        try:
            async with (
                aiohttp.ClientSession(timeout=_CHECK_TIMEOUT) as session,
                session.get(
                    url,
                    headers=_named(_SELF),
                    ssl=self._contexts.of(target),
                    server_hostname=target.host,
                    allow_redirects=False,
                ) as answer,
            ):
                body = await answer.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            message = f'{said}: Get "{url}": {str(error) or "timeout"}'
            raise Unavailable("FailedDiscoveryCheck", message) from error
        if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
            message = f"{said}: bad status from {url}: {answer.status}"
            raise Unavailable("FailedDiscoveryCheck", message)
        try:
            return msgspec.json.decode(body, type=dict)
        except msgspec.MsgspecError as error:
            raise Unavailable("FailedDiscoveryCheck", f"{said}: {error}") from error

    def _write(self, one: Json, status: str, reason: str, message: str) -> None:
        now, before = self._clock(), condition_of(one)
        wanted = {"type": AVAILABLE, "status": status, "reason": reason, "message": message}
        if {key: before.get(key) for key in wanted} == wanted:
            return
        same = before.get("status") == status
        since = before["lastTransitionTime"] if same else timestamp(now)
        conditions = [{**wanted, "lastTransitionTime": since}]
        self._handle("PATCH", f"{_path(one)}/status", {"status": {"conditions": conditions}})

    def _publish(self) -> None:
        data = {
            "client-ca-file": self._clients,
            "requestheader-client-ca-file": self._authority,
            "requestheader-allowed-names": json.dumps([NAME]),
            "requestheader-username-headers": '["X-Remote-User"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
            "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        }
        metadata = {"name": "extension-apiserver-authentication"}
        self._handle("POST", _CONFIG_MAPS, {"metadata": metadata, "data": data})

    def _handle(self, method: str, path: str, body: Json) -> None:
        self._service.handle(
            ApiRequest(
                method=method,
                path=path,
                body=msgspec.json.encode(body),
                content_type="application/merge-patch+json" if method == "PATCH" else "",
                user=_SELF,
            ),
            self._clock(),
        )


def _path(one: Json) -> str:
    name = one["metadata"]["name"]
    return f"/apis/{API_SERVICES.api_version}/{API_SERVICES.plural}/{name}"


def _named(user: RequestUser) -> list[tuple[str, str]]:
    """The headers that name a user."""
    return [("X-Remote-User", user.name), *(("X-Remote-Group", one) for one in user.groups)]


def _unavailable(text: str) -> web.Response:
    return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, text=text)


async def _passed_on(answer: aiohttp.ClientResponse, request: web.Request) -> web.StreamResponse:
    """The same answer, a piece at a time."""
    sent = web.StreamResponse(status=answer.status)
    for name, value in answer.headers.items():
        if not name.lower().startswith(_KEPT_BACK):
            sent.headers.add(name, value)
    await sent.prepare(request)
    async for piece in answer.content.iter_any():
        await sent.write(piece)
    await sent.write_eof()
    return sent
