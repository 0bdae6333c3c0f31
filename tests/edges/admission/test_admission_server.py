"""What the webhook takes in, over real TLS."""

import asyncio
import io
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from kubeshare_py.edges.admission.admission_server import MAX_BYTES, MAX_HELD_BYTES, serve
from kubeshare_py.edges.kube.certificates import make_certificates
from tests.patience import PATIENCE_S


@asynccontextmanager
async def asking(folder: Path, patience_s: float = 30.0) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of a webhook whose answer is how many bytes it was sent."""
    made = make_certificates(folder)

    def counted(body: bytes) -> bytes:
        return str(len(body)).encode()

    trusting = ssl.create_default_context(cafile=str(made.ca_file))
    server = serve(
        "127.0.0.1",
        0,
        made.server_context(),
        {"/pods": counted, "/others": counted},
        problem=lambda: "",
        patience_s=patience_s,
    )
    connector = aiohttp.TCPConnector(ssl=trusting, limit=0)
    async with server as url, aiohttp.ClientSession(url, connector=connector) as session:
        yield session


@pytest.mark.parametrize("path", ["/pods", "/others"])
async def test_the_largest_review_there_can_be_is_answered_and_a_larger_one_refused(
    tmp_path: Path, path: str
) -> None:
    async def chunks(total: int) -> AsyncIterator[bytes]:
        for _ in range(total // 2**16):
            yield bytes(2**16)
        yield bytes(total % 2**16)

    async with asking(tmp_path) as session:
        for body in (io.BytesIO(bytes(MAX_BYTES)), chunks(MAX_BYTES)):
            async with session.post(path, data=body) as answer:
                assert await answer.text() == str(MAX_BYTES)
        for more in (io.BytesIO(bytes(MAX_BYTES + 1)), chunks(MAX_BYTES + 1)):
            async with session.post(path, data=more) as answer:
                assert answer.status == 413


async def test_bodies_that_do_not_come_are_not_waited_for(tmp_path: Path) -> None:
    never, begun = asyncio.Event(), asyncio.Semaphore(0)

    async def dribble() -> AsyncIterator[bytes]:
        yield b"{"
        begun.release()
        await never.wait()

    async def post(session: aiohttp.ClientSession, body: object) -> int:
        async with session.post("/pods", data=body) as answer:
            return answer.status

    async with asking(tmp_path) as session, asyncio.TaskGroup() as group:
        slow = [group.create_task(post(session, dribble())) for _ in range(100)]
        for _ in slow:
            await begun.acquire()
        assert await post(session, b"{}") == 200
        assert not any(one.done() for one in slow)
        for one in slow:
            one.cancel()
    async with asking(tmp_path, 0.2) as session:
        answers = await asyncio.gather(*(post(session, dribble()) for _ in range(10)))
        assert answers == [429] * 10


async def test_large_bodies_that_do_not_end_give_way_to_others(tmp_path: Path) -> None:
    never, begun = asyncio.Event(), asyncio.Semaphore(0)

    async def almost() -> AsyncIterator[bytes]:
        yield bytes(MAX_BYTES - 1)
        begun.release()
        await never.wait()

    async with asking(tmp_path) as session, asyncio.TaskGroup() as group:

        async def post() -> bool:
            try:
                async with session.post("/pods", data=almost()) as answer:
                    return answer.status == 200
            except aiohttp.ClientError:
                return False

        most = MAX_HELD_BYTES // MAX_BYTES
        waiting = {group.create_task(post()) for _ in range(most + 4)}
        for _ in range(most + 4):
            await begun.acquire()
        async with asyncio.timeout(PATIENCE_S):
            while len(waiting) > most:
                _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        async with session.post("/pods", data=b"{}") as answer:
            assert answer.status == 200
        for one in waiting:
            one.cancel()
