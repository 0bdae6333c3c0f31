"""Sockets to a host, directly or through a proxy: HTTP CONNECT and SOCKS5 (RFC 9110, RFC 1928)."""

import base64
import contextlib
import ipaddress
import socket
import struct
from collections.abc import Mapping
from urllib.parse import SplitResult, unquote, urlsplit

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
