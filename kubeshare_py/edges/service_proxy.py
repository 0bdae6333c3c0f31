"""The API server's service proxy: GETs forwarded to an URL registered for a service.

`/api/v1/namespaces/{ns}/services/{[scheme:]name[:port]}/proxy/{path}`

Headers go along, but not the caller's Authorization: the real server takes it away when it has
recognised the caller (k8s.io/apiserver/pkg/endpoints/filters/authentication.go). As the real one
does, it asks for no certificate of an authority that it knows, unless it is told one.
"""

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp

from kubeshare_py.simulation.api_messages import ApiRequest, ApiResponse, refusal_response
from kubeshare_py.simulation.api_status import Refusal, failure, method_not_allowed

_PATH = re.compile(r"^/api/v1/namespaces/([^/]+)/services/([^/]+)/proxy(/.*)?$")
_TIMEOUT = aiohttp.ClientTimeout(total=30)
#: Headers of this connection, not of the message; and the caller's credentials.
_KEPT_BACK = frozenset(
    {"authorization", "connection", "content-length", "host", "keep-alive", "te", "upgrade"}
)


@dataclass(frozen=True, slots=True)
class _Target:
    url: str
    ssl_context: ssl.SSLContext | None


class ServiceProxy:
    """Which service leads where; opens its client session on first use."""

    def __init__(self) -> None:
        self._targets: dict[tuple[str, str], _Target] = {}
        self._session: aiohttp.ClientSession | None = None

    def register(
        self, namespace: str, name: str, url: str, ssl_context: ssl.SSLContext | None
    ) -> None:
        """Forward that service to `url`."""
        self._targets[namespace, name] = _Target(url.rstrip("/"), ssl_context)

    def is_for(self, path: str) -> bool:
        """Whether the path is a service proxy's."""
        return _PATH.match(path) is not None

    async def forward(self, request: ApiRequest, headers: Mapping[str, str]) -> ApiResponse:
        """The service's own answer; 503 when nobody is there."""
        found = _PATH.match(request.path)
        if found is None or request.method != "GET":
            return refusal_response(method_not_allowed())
        pieces = found[2].split(":")
        name = pieces[1] if len(pieces) == len(("scheme", "name", "port")) else pieces[0]
        target = self._targets.get((found[1], name))
        if target is None:
            return _unavailable(f'no endpoints available for service "{name}"')
        try:
            return await self._get(target, found[3] or "/", request, headers)
        except (aiohttp.ClientError, TimeoutError) as error:
            return _unavailable(f"error trying to reach service: {error}")

    async def close(self) -> None:
        """Close the client session."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _get(
        self, target: _Target, path: str, request: ApiRequest, headers: Mapping[str, str]
    ) -> ApiResponse:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=_TIMEOUT)
        async with self._session.get(
            target.url + path,
            params=dict(request.query),
            headers={
                name: value for name, value in headers.items() if name.lower() not in _KEPT_BACK
            },
            ssl=target.ssl_context or False,
        ) as response:
            return ApiResponse(
                status=response.status,
                body=await response.read(),
                content_type=response.headers.get("Content-Type", "application/octet-stream"),
            )


def _unavailable(message: str) -> ApiResponse:
    return refusal_response(Refusal(failure(503, "ServiceUnavailable", message)))
