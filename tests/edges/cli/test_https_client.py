"""Requests of the command: connections that end, servers with too much to do, proxies."""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from kubeshare_py.edges.cli.https_client import (
    THROTTLED_S,
    THROTTLED_TRIES,
    HttpsClient,
    Origin,
    ProxyError,
    StateUnreachable,
    dial,
    proxy_of_environment,
)


def origin(url: str, **fields: Any) -> Origin:
    return Origin(url=url, name="the server", remedy="", **fields)


@asynccontextmanager
async def answering(
    *statuses: int, ends: Callable[[], bool] = lambda: False
) -> AsyncIterator[tuple[str, list[str]]]:
    """Plain HTTP on a port of its own; the last status again and again. Gives the URL and paths."""
    left, paths = list(statuses), list[str]()

    async def answer(request: web.Request) -> web.StreamResponse:
        paths.append(request.path_qs)
        status = left.pop(0) if len(left) > 1 else left[0]
        response = web.Response(status=status, text=f"{status}")
        if ends():
            response.force_close()
        return response

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, keepalive_timeout=60)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", paths
    finally:
        await runner.cleanup()


async def test_a_path_of_the_servers_url_goes_before_the_others() -> None:
    async with answering(200) as (url, paths):
        client = HttpsClient(origin(f"{url}/k8s/clusters/c-1"))
        await asyncio.to_thread(client.get, "/api/v1/pods?limit=5")
        client.close()
    assert paths == ["/k8s/clusters/c-1/api/v1/pods?limit=5"]


async def test_a_server_with_too_much_to_do_is_asked_again_a_few_times() -> None:
    slept: list[float] = []
    async with answering(429, 429, 200) as (url, paths):
        client = HttpsClient(origin(url), slept.append)
        assert (await asyncio.to_thread(client.get, "/a")).status == 200
        client.close()
    assert slept == [THROTTLED_S] * 2
    async with answering(429) as (url, paths):
        client = HttpsClient(origin(url), slept.append)
        assert (await asyncio.to_thread(client.get, "/a")).status == 429
        client.close()
    assert len(paths) == THROTTLED_TRIES


async def test_a_connection_that_ended_meanwhile_is_opened_again() -> None:
    client: HttpsClient | None = None
    async with answering(200, ends=lambda: True) as (url, paths):
        client = HttpsClient(origin(url))
        for _ in range(3):
            assert (await asyncio.to_thread(client.get, "/a")).status == 200
    assert len(paths) == 3
    with pytest.raises(StateUnreachable, match="cannot reach the server at http"):
        await asyncio.to_thread(client.get, "/a")


async def test_an_answer_that_does_not_come_is_not_waited_for_for_ever() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        client = HttpsClient(origin(f"http://127.0.0.1:{port}", timeout_s=0.05))
        with pytest.raises(StateUnreachable, match="timed out"):
            await asyncio.to_thread(client.get, "/a")


async def test_requests_go_through_the_proxy() -> None:
    async with answering(200) as (url, paths):
        there = url.removeprefix("http://")

        async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"CONNECT api.test:80 ")
            host, port = there.split(":")
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            far_writer.write(await reader.readuntil(b"\r\n\r\n"))
            # The answer's head, and its body of three bytes.
            writer.write(await far_reader.readuntil(b"\r\n\r\n"))
            writer.write(await far_reader.readexactly(3))
            far_writer.close()
            writer.close()

        server = await asyncio.start_server(proxy, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            client = HttpsClient(origin("http://api.test", proxy=f"http://127.0.0.1:{port}"))
            assert (await asyncio.to_thread(client.get, "/a")).status == 200
            client.close()
    assert paths == ["/a"]


# --- Sockets through proxies of the test's own, and which URLs go through one ---------------------


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
PAIR = base64.b64encode(b"ann:p w").decode()


@asynccontextmanager
async def listening(talk: Talk) -> AsyncIterator[str]:
    """A server for one conversation after the other; gives HOST:PORT."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await talk(reader, writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def reached(proxy: str, host: str = "api.test") -> bytes:
    """What the far end says first."""

    def ask() -> bytes:
        with dial(host, 6443, proxy, 5.0) as connected:
            return connected.recv(100)

    return await asyncio.to_thread(ask)


def http_proxy(answer: bytes, seen: list[bytes]) -> Talk:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        await writer.drain()

    return talk


async def test_an_http_proxy_is_asked_to_connect() -> None:
    seen: list[bytes] = []
    answer = b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\nhello"
    async with listening(http_proxy(answer, seen)) as there:
        assert await reached(f"http://ann:p%20w@{there}", "fd00::1") == b"hello"
    lines = seen[0].decode().split("\r\n")
    assert lines[:2] == ["CONNECT [fd00::1]:6443 HTTP/1.1", "Host: [fd00::1]:6443"]
    assert lines[2] == f"Proxy-Authorization: Basic {PAIR}"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "407 Proxy Authentication"),
        (b"SSH-2.0\r\n", "does not answer as an HTTP proxy"),
        (b"x" * 20_000, "does not answer as an HTTP proxy"),
    ],
)
async def test_a_proxy_that_does_not_let_us_through_is_named(answer: bytes, told: str) -> None:
    async with listening(http_proxy(answer, [])) as there:
        with pytest.raises(ProxyError, match=f"proxy http://{there} .*{told}"):
            await reached(f"http://ann:secret@{there}")


@pytest.mark.parametrize(
    ("user", "method", "refusal", "kind"),
    [("", 0, 0, b"\x01" + bytes(4)), ("ann:p%20w@", 2, 0, b"\x03\x04name"), ("", 0, 5, b"")],
)
async def test_socks_5(user: str, method: int, refusal: int, kind: bytes) -> None:
    asked: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(3) == bytes((5, 1, method))
        writer.write(bytes((5, method)))
        if user:
            assert await reader.readexactly(9) == b"\x01\x03ann\x03p w"
            writer.write(b"\x01\x00")
        asked.append(await reader.readexactly(15))
        writer.write(bytes((5, refusal, 0)) + (kind or b"\x01") + b"\x00\x50hello")
        await writer.drain()

    async with listening(talk) as there:
        if refusal:
            with pytest.raises(ProxyError, match=r"cannot connect to api.test:6443 \(5\)"):
                await reached(f"socks5://{there}")
        else:
            assert await reached(f"socks5://{user}{there}") == b"hello"
    assert asked == [b"\x05\x01\x00\x03\x08api.test\x19\x2b"]


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ((b"\x05\xff",), "does not accept how we would log in"),
        ((b"\x05\x02", b"\x01\x01"), "does not accept its user and password"),
        ((b"",), "closes the connection"),
    ],
)
async def test_a_socks_proxy_that_refuses_is_named(answers: tuple[bytes, ...], told: str) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await reader.read(100)
            writer.write(answer)
            await writer.drain()

    async with listening(talk) as there:
        with pytest.raises(ProxyError, match=told):
            await reached(f"socks5://ann:secret@{there}")


async def test_other_kinds_of_proxies_and_those_that_are_away_are_named() -> None:
    with pytest.raises(ProxyError, match="proxy https://p:1 is not http://HOST:PORT or socks5"):
        await reached("https://ann:secret@p:1")
    with pytest.raises(ProxyError, match=r"proxy http://127.0.0.1:1: "):
        await reached("http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("url", "variables", "proxy"),
    [
        ("https://api.test", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://api.test", {"https_proxy": "p:1"}, "http://p:1"),
        ("https://api.test", {"HTTP_PROXY": "http://p:1"}, None),
        ("http://api.test", {"HTTP_PROXY": "http://p:1"}, "http://p:1"),
        ("https://localhost:6443", {"HTTPS_PROXY": "http://p:1"}, None),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": "http://p:1"}, None),
        ("https://api.test", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "x, test"}, None),
        ("https://api.test", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".api.test"}, "http://p:1"),
        ("https://a.api.test", {"HTTPS_PROXY": "http://p:1", "no_proxy": "*.api.test"}, None),
        ("https://api.test", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}, None),
        ("https://api.test", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "pi.test"}, "http://p:1"),
        ("https://10.1.2.3", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, None),
        ("https://10.1.2.3", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "10.1.2.4"}, "http://p:1"),
        ("https://api.test:1", {"HTTPS_PROXY": "p:1", "NO_PROXY": "api.test:1"}, None),
        ("https://api.test", {"HTTPS_PROXY": "p:1", "NO_PROXY": "api.test:1"}, "http://p:1"),
    ],
)
def test_the_environment_says_which_urls_go_through_a_proxy(
    url: str, variables: dict[str, str], proxy: str | None
) -> None:
    assert proxy_of_environment(url, variables) == proxy
