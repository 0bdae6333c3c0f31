"""A request that is cancelled in the very moment in which it takes too long ends as cancelled."""

import asyncio

import pytest
from aiohttp import web

from tests.edges.bare_server import client_of

TIMEOUT_S = 5.0


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock can be put forward: what was due meanwhile is due at once."""

    ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_s


async def cancelled_late(loop: JumpingLoop, began: bool) -> None:
    asked = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        if began:
            await response.prepare(request)
        asked.set()
        await asyncio.Event().wait()
        return response

    async with client_of(handler) as client:
        task = asyncio.create_task(client.request("GET", "/api", timeout_s=TIMEOUT_S))
        await asked.wait()
        loop.call_later(TIMEOUT_S, task.cancel)
        loop.ahead_s += 2 * TIMEOUT_S
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("began", [False, True], ids=["no answer", "half an answer"])
def test_a_cancellation_at_the_moment_of_the_timeout_is_not_lost(began: bool) -> None:
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, JumpingLoop)
        runner.run(cancelled_late(loop, began))
