"""Requests of a command that starts, asks and ends: blocking, over http.client, one connection.

aiohttp takes 0.2 s to import and 8 MB to install; a command with one request needs neither.
"""

import http
import http.client
import re
import ssl
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from kubeshare_py.edges.cli.proxies import dial
from kubeshare_py.edges.cli.state_errors import StateUnreachable

CONNECT_TIMEOUT_S = 5.0
TIMEOUT_S = 60.0
USER_AGENT = "kubectl-kubeshare"
JSON = "application/json"
THROTTLED_TRIES, THROTTLED_S = 5, 1.0
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """A server. `name` is its name for people, `remedy` what to do about its certificate."""

    url: str
    name: str
    remedy: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    server_hostname: str | None = None
    proxy: str | None = field(default=None, repr=False)
    timeout_s: float | None = TIMEOUT_S

    @property
    def via(self) -> str:
        """Its name and URL, as words."""
        return f"{self.name} at {self.url}"


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An HTTP status and the whole body; `warnings` are the texts of its Warning headers."""

    status: int
    body: bytes
    warnings: tuple[str, ...] = ()


class _HttpsConnection(http.client.HTTPConnection):
    """A connection to an origin through its proxy; TLS checks the name in its certificate."""

    def __init__(self, origin: Origin) -> None:
        parts = urlsplit(origin.url)
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        super().__init__(host, port, timeout=origin.timeout_s)
        self._origin = origin

    def connect(self) -> None:
        origin = self._origin
        limit_s = min(origin.timeout_s or CONNECT_TIMEOUT_S, CONNECT_TIMEOUT_S)
        self.sock = dial(self.host, self.port, origin.proxy, limit_s)
        if origin.tls is not None:
            name = origin.server_hostname or self.host
            self.sock = origin.tls.wrap_socket(self.sock, server_hostname=name)
        self.sock.settimeout(origin.timeout_s)


class HttpsClient:
    """Requests to one origin, one after the other. Redirects are answers, and not followed."""

    def __init__(self, origin: Origin, sleep: Callable[[float], object] = time.sleep) -> None:
        self.origin = origin
        self._sleep = sleep
        self._connection: http.client.HTTPConnection | None = None

    def get(self, path: str, *, accept: str = JSON) -> HttpAnswer:
        """Send one GET; repeated a few times if the server answers 429, that it is overloaded.

        Raises StateUnreachable without an answer.
        """
        return self._patiently(path, accept, None)

    def post(self, path: str, body: bytes) -> HttpAnswer:
        """Send one POST of JSON that may be sent again, as a dry run may; as `get` otherwise."""
        return self._patiently(path, JSON, body)

    def _patiently(self, path: str, accept: str, body: bytes | None) -> HttpAnswer:
        for _ in range(THROTTLED_TRIES - 1):
            answer = self._answer(path, accept, body)
            if answer.status != http.HTTPStatus.TOO_MANY_REQUESTS:
                return answer
            self._sleep(THROTTLED_S)
        return self._answer(path, accept, body)

    def _answer(self, path: str, accept: str, body: bytes | None) -> HttpAnswer:
        tries = 2 if self._connection is not None else 1
        while True:
            tries -= 1
            try:
                return self._send(path, accept, body)
            except (http.client.HTTPException, OSError) as error:
                self.close()
                # A kept connection may have ended meanwhile.
                if not tries or isinstance(error, TimeoutError):
                    raise self._unreachable(error) from error

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _send(self, path: str, accept: str, body: bytes | None) -> HttpAnswer:
        if self._connection is None:
            self._connection = _HttpsConnection(self.origin)
        send = self._connection
        method = "GET" if body is None else "POST"
        send.putrequest(method, urlsplit(self.origin.url).path.rstrip("/") + path)
        for name, value in self._headers(accept):
            send.putheader(name, value)
        if body is not None:
            send.putheader("Content-Type", JSON)
            send.putheader("Content-Length", str(len(body)))
        send.endheaders(body)
        with send.getresponse() as response:
            warnings = map(_warning, response.headers.get_all("Warning", []))
            return HttpAnswer(response.status, response.read(), tuple(filter(None, warnings)))

    def _unreachable(self, error: Exception) -> StateUnreachable:
        if isinstance(error, ssl.SSLCertVerificationError):
            return StateUnreachable(
                f"{self.origin.via} shows a certificate that is not trusted: "
                f"{error.verify_message}; {self.origin.remedy}"
            )
        said = str(error) or type(error).__name__
        return StateUnreachable(f"cannot reach {self.origin.via}: {said}")

    def _headers(self, accept: str) -> Iterable[tuple[str, str]]:
        yield "Accept", accept
        yield "User-Agent", USER_AGENT
        yield from self.origin.headers


def _warning(header: str) -> str:
    """The text of a Warning header as kube-apiserver writes it: `299 - "text"`; "" for others.

    https://kubernetes.io/blog/2020/09/03/warnings/
    """
    found = re.fullmatch(r'299 \S+ "((?:[^"\\]|\\.)*)".*', header)
    return re.sub(r"\\(.)", r"\1", found[1]) if found else ""
