"""Requests of the command: connections that end, servers with too much to do, proxies."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from kubeshare_py.edges.cli.https_client import THROTTLED_S, THROTTLED_TRIES, HttpsClient, Origin
from kubeshare_py.edges.cli.state_errors import StateUnreachable


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
