"""What the webhook takes in, over real TLS."""

import asyncio
import io
import ssl
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from kubeshare_py.edges.admission import MAX_BYTES, MAX_HELD_BYTES, AdmissionResponder, serve
from kubeshare_py.edges.kube.certificates import make_certificates
from kubeshare_py.edges.process.question_turns import LARGE
from tests.patience import PATIENCE_S


@asynccontextmanager
async def asking(
    folder: Path, patience_s: float = 30.0, answer: AdmissionResponder | None = None
) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of a webhook whose answer is how many bytes it was sent, or this one."""
    made = make_certificates(folder)

    def counted(body: bytes) -> bytes:
        return str(len(body)).encode()

    answer = answer or counted

    trusting = ssl.create_default_context(cafile=str(made.ca_file))
    server = serve(
        "127.0.0.1",
        0,
        made.server_context(),
        {"/pods": answer, "/others": answer},
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


@pytest.mark.slow
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


async def test_a_body_that_gives_way_while_it_waits_for_its_answer_is_let_go(
    tmp_path: Path,
) -> None:
    """Clients that send large reviews one after the other would fill the memory with them."""
    held: set[int] = set()
    began, ends = threading.Event(), threading.Event()

    def answer(body: bytes) -> bytes:
        held.add(len(body))
        began.set()
        ends.wait(PATIENCE_S)
        return b"{}"

    most = MAX_HELD_BYTES // MAX_BYTES - 1  # beside the first
    async with asking(tmp_path, answer=answer) as session:

        async def post(size: int) -> bool:
            try:
                async with session.post("/pods", data=io.BytesIO(bytes(size))) as found:
                    return found.status == 200
            except aiohttp.ClientError:
                return False

        first = asyncio.create_task(post(LARGE))
        await asyncio.to_thread(began.wait, PATIENCE_S)
        others = {asyncio.create_task(post(MAX_BYTES - one)) for one in range(most + 3)}
        async with asyncio.timeout(PATIENCE_S):
            while len(others) > most:
                gone, others = await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
                assert not any(one.result() for one in gone)
        ends.set()
        assert await first
        assert all(await asyncio.gather(*others))
    assert len(held) == 1 + most  # those that gave way were not answered at all
