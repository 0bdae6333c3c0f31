"""Reads the scheduler's state: the values of `domain.view` from its HTTPS endpoint."""

from dataclasses import replace
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import quote

import aiohttp
import msgspec
import yarl

from kubeshare_py.domain.view import ClusterView, WhyView
from kubeshare_py.edges.state_errors import StateError, StateRefused, StateUnreachable
from kubeshare_py.edges.state_route import TOKEN_VARIABLE, Route

TIMEOUT_S = 60.0
CONNECT_TIMEOUT_S = 5.0

_View = TypeVar("_View", ClusterView, WhyView)
_TOKEN_HELP = f"give the scheduler's token with --token-file or {TOKEN_VARIABLE}"


class _Message(msgspec.Struct):
    """What comes with an error: the scheduler's own, or the API server's Status."""

    message: str = ""
    kind: str = ""


async def cluster(route: Route, *, topology: bool = False) -> ClusterView:
    """Fetch everything there is; pods by namespace and name; how cards are joined if asked for.

    Raises StateRefused or StateUnreachable.
    """
    query = "?topology=1" if topology else ""
    view = await _fetch(route, f"/state/v1/cluster{query}", ClusterView)
    # Not the server's work: sorting 50,000 pods would hold its loop.
    return replace(view, pods=tuple(sorted(view.pods, key=lambda pod: (pod.namespace, pod.name))))


async def why(route: Route, namespace: str, pod: str) -> WhyView:
    """Fetch why a pod is where it is; StateRefused if the scheduler does not know it."""
    path = f"/state/v1/why/{quote(namespace, safe='')}/{quote(pod, safe='')}"
    return await _fetch(route, path, WhyView)


async def _fetch(route: Route, path: str, kind: type[_View]) -> _View:
    status, body = await _get(route, path)
    if status != HTTPStatus.OK:
        raise _refusal(route, status, body)
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StateUnreachable(
            f"{route.via} does not answer as a kubeshare-scheduler of this version does: {error}"
        ) from error


async def _get(route: Route, path: str) -> tuple[int, bytes]:
    try:
        async with (
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=route.tls),
                timeout=aiohttp.ClientTimeout(total=TIMEOUT_S, sock_connect=CONNECT_TIMEOUT_S),
                headers={"Accept": "application/json", "User-Agent": "kubectl-kubeshare"},
                proxy=route.proxy,
                cookie_jar=aiohttp.DummyCookieJar(),
            ) as session,
            session.get(
                yarl.URL(route.url + path, encoded=True),
                headers=route.headers,
                # A redirect would carry the token elsewhere.
                allow_redirects=False,
                server_hostname=route.server_hostname,
            ) as response,
        ):
            return response.status, await response.read()
    except aiohttp.ClientConnectorCertificateError as error:
        raise StateUnreachable(
            f"{route.via} shows a certificate that is not trusted: "
            f"{error.certificate_error}; name its authority with --ca-file"
        ) from error
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise StateUnreachable(
            f"cannot reach the scheduler at {route.via}: {str(error) or type(error).__name__}"
        ) from error


def _refusal(route: Route, status: int, body: bytes) -> StateError:
    try:
        said = msgspec.json.decode(body, type=_Message)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        text = body[:200].decode(errors="replace")
        return StateUnreachable(f"{route.via} answers {status}: {text!r}")
    if said.kind == "Status":
        return StateUnreachable(_api_server_says(route, status, said.message))
    if status == HTTPStatus.UNAUTHORIZED and not route.has_token:
        return StateRefused(
            f"the scheduler asks for a token ({said.message}), and the kubeconfig has none, only "
            f"a client certificate perhaps: {_TOKEN_HELP}"
        )
    if status == HTTPStatus.UNAUTHORIZED:
        return StateRefused(
            f"the scheduler does not accept the token: {said.message}; {_TOKEN_HELP}"
        )
    if status == HTTPStatus.FORBIDDEN:
        return StateRefused(f"the scheduler does not let this user read its state: {said.message}")
    return StateRefused(said.message or f"{route.via} answers {status}")


def _api_server_says(route: Route, status: int, message: str) -> str:
    """Explain an answer that comes from the API server in the scheduler's place."""
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        return (
            f"no scheduler answers at {route.via}: {message} "
            f"(is its pod running and ready? kubectl -n {route.namespace} get pods)"
        )
    if status == HTTPStatus.FORBIDDEN:
        return (
            f"the API server does not let this user through (needs get services/proxy): {message}"
        )
    return f"the API server answers {status} for {route.via}: {message}"
