"""Requests of a command that starts, asks and ends: blocking, directly or through a proxy."""

import base64
import contextlib
import http
import http.client
import ipaddress
import re
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit

# Why the scheduler's state is not available, in sentences that a user can act on.


class StateError(Exception):
    """No state is available; the text is for the user."""


class StateUnreachable(StateError):
    """The scheduler cannot be reached, or its answer cannot be understood."""


class StateRefused(StateError):
    """The scheduler or the API server refused the request."""


class HasEnded(StateError):
    """What is asked about has ended, so that there is nothing to say of its cards; no failure."""


class NotFound(StateRefused):
    """The requested object does not exist."""


# Sockets to a host, directly or through a proxy: HTTP CONNECT and SOCKS5 (RFC 9110, RFC 1928).


HTTP_PORT, SOCKS_PORT = 80, 1080
_MAX_HEAD = 16_384
_NO_METHOD, _NO_AUTHENTICATION, _PASSWORD = 0xFF, 0, 2
_SOCKS, _CONNECT, _BY_NAME, _BY_IPV4, _BY_IPV6 = 5, 1, 3, 1, 4
_OK = 200


class ProxyError(OSError):
    """The proxy is not supported, or refuses the connection; the text says which."""


def proxy_of_environment(url: str, environ: Mapping[str, str]) -> str | None:
    """The proxy for a URL by $HTTPS_PROXY, $HTTP_PROXY and $NO_PROXY, as in Go programs.

    Rules: https://pkg.go.dev/golang.org/x/net/http/httpproxy
    """
    parts = urlsplit(url)
    name = f"{parts.scheme}_proxy"
    proxy = environ.get(name.upper()) or environ.get(name)
    if not proxy or not parts.hostname:
        return None
    spared = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if _is_here(parts.hostname) or any(_spares(one, parts) for one in spared.split(",")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def dial(host: str, port: int, proxy: str | None, timeout_s: float) -> socket.socket:
    """Connect to a host; raises OSError, and ProxyError if the proxy is the reason."""
    if proxy is None:
        return socket.create_connection((host, port), timeout_s)
    parts = urlsplit(proxy)
    through = {"http": _tunnel, "socks5": _socks, "socks5h": _socks}.get(parts.scheme)
    if through is None or not parts.hostname:
        raise ProxyError(f"proxy {_named(parts)} is not http://HOST:PORT or socks5://HOST:PORT")
    default = HTTP_PORT if parts.scheme == "http" else SOCKS_PORT
    try:
        connected = socket.create_connection((parts.hostname, parts.port or default), timeout_s)
    except OSError as error:
        raise ProxyError(f"proxy {_named(parts)}: {error}") from error
    try:
        through(connected, parts, host, port)
    except BaseException:
        connected.close()
        raise
    return connected


def _named(parts: SplitResult) -> str:
    """The proxy's URL without user and password."""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _is_here(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _spares(entry: str, url: SplitResult) -> bool:
    """Whether one entry of $NO_PROXY covers this URL's host."""
    entry, host = entry.strip().lower(), url.hostname or ""
    if not entry or entry == "*":
        return entry == "*"
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    name, colon, port = entry.rpartition(":")
    if colon and port.isdigit():
        if int(port) != (url.port or {"http": 80}.get(url.scheme, 443)):
            return False
        entry = name
    suffix = entry.removeprefix("*")
    is_below = host.endswith(suffix if suffix.startswith(".") else f".{suffix}")
    return is_below or (host == entry and not suffix.startswith("."))


def _tunnel(to: socket.socket, proxy: SplitResult, host: str, port: int) -> None:
    name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    head = f"CONNECT {name} HTTP/1.1\r\nHost: {name}\r\n"
    if proxy.username is not None:
        pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        head += f"Proxy-Authorization: Basic {base64.b64encode(pair.encode()).decode()}\r\n"
    to.sendall(f"{head}\r\n".encode())
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        if len(answer) > _MAX_HEAD or not (byte := to.recv(1)):
            raise ProxyError(f"proxy {_named(proxy)} does not answer as an HTTP proxy")
        answer += byte
    status = answer.split(b"\r\n", 1)[0].decode(errors="replace")
    if status.split(" ")[1:2] != [str(_OK)]:
        raise ProxyError(f"proxy {_named(proxy)} answers {status}")


def _socks(to: socket.socket, proxy: SplitResult, host: str, port: int) -> None:
    method = _NO_AUTHENTICATION if proxy.username is None else _PASSWORD
    to.sendall(bytes((_SOCKS, 1, method)))
    version, chosen = _exactly(to, 2, proxy)
    if version != _SOCKS or chosen != method:
        raise ProxyError(f"proxy {_named(proxy)} does not accept how we would log in")
    if method == _PASSWORD:
        user = unquote(proxy.username or "").encode()
        password = unquote(proxy.password or "").encode()
        to.sendall(bytes((1, len(user))) + user + bytes((len(password),)) + password)
        if _exactly(to, 2, proxy)[1]:
            raise ProxyError(f"proxy {_named(proxy)} does not accept its user and password")
    name = host.encode("idna")
    address = bytes((_BY_NAME, len(name))) + name
    to.sendall(bytes((_SOCKS, _CONNECT, 0)) + address + struct.pack("!H", port))
    _, refused, _, kind = _exactly(to, 4, proxy)
    if refused:
        raise ProxyError(f"proxy {_named(proxy)} cannot connect to {host}:{port} ({refused})")
    length = {_BY_IPV4: 4, _BY_IPV6: 16}.get(kind) or _exactly(to, 1, proxy)[0]
    _exactly(to, length + 2, proxy)


def _exactly(to: socket.socket, count: int, proxy: SplitResult) -> bytes:
    got = b""
    while len(got) < count:
        if not (more := to.recv(count - len(got))):
            raise ProxyError(f"proxy {_named(proxy)} closes the connection")
        got += more
    return got


# Requests of a command that starts, asks and ends: blocking, over http.client, one connection.
#
# aiohttp takes 0.2 s to import and 8 MB to install; a command with one request needs neither.


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
