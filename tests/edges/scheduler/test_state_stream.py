"""Large answers, and readers who are many or slow: decisions do not wait for them."""

import asyncio
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient

from kubeshare_py.domain.values import replace
from kubeshare_py.edges.scheduler.state_api import MAX_ASKED, MAX_MADE, ViewStreams
from kubeshare_py.views.view import ClusterView
from tests.edges.served_app import asking
from tests.terminal.views import a_pod_view, a_small_view

EMPTY = replace(a_small_view(), nodes=(), pods=())
Client = TestClient[web.Request, web.Application]


@asynccontextmanager
async def served(portions: Iterator[ClusterView], streams: ViewStreams) -> AsyncIterator[Client]:
    async def handler(request: web.Request) -> web.StreamResponse:
        return await streams.send(request, portions, {"kind": "GPUList"})

    async with asking([web.get("/", handler)]) as client:
        yield client


@pytest.mark.parametrize(
    "portions",
    [
        [a_small_view()],
        [EMPTY],
        [EMPTY, replace(a_small_view(), nodes=()), replace(a_small_view(), pods=())],
        [EMPTY, *(replace(EMPTY, pods=(pod,)) for pod in a_small_view().pods)],
        [replace(a_small_view(), pods=()), EMPTY],
    ],
)
async def test_portions_are_one_object_in_whatever_order_they_come(
    portions: list[ClusterView],
) -> None:
    async with served(iter(portions), ViewStreams()) as client, client.get("/") as answer:
        body: dict[str, Any] = msgspec.json.decode(await answer.read())
    assert body["kind"] == "GPUList"
    view = msgspec.convert(body, ClusterView)
    assert view.nodes == tuple(node for one in portions for node in one.nodes)
    assert view.pods == tuple(pod for one in portions for pod in one.pods)


def endless() -> Iterator[ClusterView]:
    pods = tuple(a_pod_view(f"p{number}") for number in range(500))
    while True:
        yield replace(EMPTY, pods=pods)


async def test_a_reader_who_does_not_read_is_cut_off_and_sees_it() -> None:
    streams, ended = ViewStreams(slowest_s=0.3), asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        try:
            return await streams.send(request, endless(), {})
        finally:
            ended.set()

    async with asking([web.get("/", handler)]) as client, client.get("/") as answer:
        await ended.wait()
        with pytest.raises(aiohttp.ClientError):
            await answer.read()


async def test_between_two_portions_others_have_their_turn_however_many_read() -> None:
    turns: list[int] = [0]
    made: list[int] = []

    async def others() -> None:
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    def portions() -> Iterator[ClusterView]:
        for _ in range(20):
            made.append(turns[0])
            yield EMPTY

    async def handler(request: web.Request) -> web.StreamResponse:
        return await streams.send(request, portions(), {})

    streams = ViewStreams()
    busy = asyncio.create_task(others())
    async with asking([web.get("/", handler)]) as client:

        async def read() -> None:
            async with client.get("/") as answer:
                await answer.read()

        await asyncio.gather(*(read() for _ in range(MAX_MADE)))
    busy.cancel()
    assert len(made) == len(set(made)) == 20 * MAX_MADE


async def test_after_each_step_other_tasks_run_for_as_long_as_it_took() -> None:
    streams, loop = ViewStreams(), asyncio.get_running_loop()
    began: list[float] = []

    def slow() -> Generator[None, None, int]:
        for _ in range(2):
            began.append(loop.time())
            while loop.time() < began[-1] + 0.05:
                pass
            yield
        return len(began)

    assert max(await asyncio.gather(*(streams.make(slow()) for _ in range(2)))) == 4
    assert all(later - earlier >= 0.09 for earlier, later in pairwise(began))


async def test_of_too_many_the_rest_is_sent_away() -> None:
    streams, ended = ViewStreams(), asyncio.Event()

    def endless() -> Generator[None, None, None]:
        while not ended.is_set():
            yield

    waiting = [asyncio.create_task(streams.make(endless())) for _ in range(MAX_ASKED - 1)]
    await asyncio.sleep(0)
    assert not streams.busy
    waiting.append(asyncio.create_task(streams.make(endless())))
    await asyncio.sleep(0)
    assert streams.busy
    ended.set()
    await asyncio.gather(*waiting)
    assert not streams.busy
