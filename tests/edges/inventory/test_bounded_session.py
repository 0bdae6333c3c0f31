"""Answers have a limit in size and in time, whoever sends them."""

import asyncio
import zlib

import pytest
from aiohttp import web

from kubeshare_py.edges.inventory.prometheus_child import (
    MAX_BYTES,
    MAX_S,
    AnswerRefused,
    bounded_session,
)
from tests.edges.bare_server import Handler, serving


async def got(
    handler: Handler, *, most_bytes: int = MAX_BYTES, most_s: float = MAX_S
) -> tuple[bytes, list[bytes]]:
    bodies: list[bytes] = []

    def ask(url: str) -> bytes:
        with bounded_session(bodies.append, most_bytes=most_bytes, most_s=most_s) as session:
            return session.get(url, timeout=5).content

    async with serving(handler) as url:
        return await asyncio.to_thread(ask, url), bodies


async def test_an_answer_is_heard_and_then_read() -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=b"text" * 100_000)

    body, bodies = await got(answer)
    assert body == b"text" * 100_000
    assert bodies == [body]


@pytest.mark.parametrize("packed", [False, True])
async def test_a_large_answer_is_refused_before_it_is_there(packed: bool) -> None:
    async def answer(_request: web.Request) -> web.Response:
        body = b"a" * 5_000_000
        headers = {"Content-Encoding": "deflate"} if packed else {}
        return web.Response(body=zlib.compress(body) if packed else body, headers=headers)

    with pytest.raises(AnswerRefused, match="an answer of more than 1000000 bytes"):
        await got(answer, most_bytes=1_000_000)


async def test_an_answer_that_drips_is_refused() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"a")
        await response.write_eof()
        return response

    with pytest.raises(AnswerRefused, match="takes more than"):
        await got(answer, most_s=-1.0)


async def test_an_answer_that_breaks_off_is_refused() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"a")
        assert request.transport is not None
        request.transport.close()
        return response

    with pytest.raises(AnswerRefused, match=r"IncompleteRead|ProtocolError"):
        await got(answer)
