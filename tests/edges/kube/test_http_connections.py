"""Connections to a server that answers with bytes of the test's choice."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
import yarl

from kubeshare_py.edges.kube.transport import BrokenAnswer, HttpConnections, Reply

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
#: Longer than any of these tests (s).
LONG = 30.0


@dataclass
class Server:
    """Answers each request with the next of `answers`; an empty one ends the connection."""

    answers: list[bytes] = field(default_factory=lambda: [OK] * 9)
    #: What was received, by connection.
    received: list[list[bytes]] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: list["asyncio.Task[None] | None"] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.tasks.append(asyncio.current_task())
        mine: list[bytes] = []
        self.received.append(mine)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
                mine.append(head + await reader.readexactly(length))
                self.asked.set()
                if not self.answers:
                    continue
                answer = self.answers.pop(0)
                if not answer:
                    break
                writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        self.ended.set()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


@asynccontextmanager
async def connected(server: Server, idle_s: float = LONG) -> AsyncIterator[HttpConnections]:
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    connections = HttpConnections(
        yarl.URL(f"http://127.0.0.1:{port}"),
        headers={"Accept": "application/json"},
        tls=ssl.create_default_context(),
        server_hostname=None,
        connect_within_s=LONG,
        idle_s=idle_s,
    )
    try:
        yield connections
    finally:
        connections.close()
        listening.close()
        await asyncio.gather(*filter(None, server.tasks))


async def post(
    connections: HttpConnections, target: str = "/a?b=c", within_s: float = LONG
) -> Reply:
    return await connections.request("POST", target, {"X-Y": "z"}, b"body", within_s)


async def test_a_request_is_written_as_http() -> None:
    server = Server()
    async with connected(server) as connections:
        reply = await post(connections)
    assert (reply.status, reply.reason, reply.body) == (200, "OK", b"{}")
    [[request]] = server.received
    head, _, body = request.partition(b"\r\n\r\n")
    first, host, *others = head.split(b"\r\n")
    assert first == b"POST /a?b=c HTTP/1.1"
    assert host.startswith(b"Host: 127.0.0.1:")
    assert others == [b"Accept: application/json", b"X-Y: z", b"Content-Length: 4"]
    assert body == b"body"


async def test_a_connection_is_used_again_once_its_answer_is_there() -> None:
    server = Server()
    async with connected(server) as connections:
        await post(connections)
        await post(connections)
        await asyncio.gather(post(connections), post(connections))
    assert [len(requests) for requests in server.received] == [3, 1]


async def test_a_connection_that_was_idle_for_too_long_is_not_used_again() -> None:
    server = Server()
    async with connected(server, idle_s=-1.0) as connections:
        await post(connections)
        await post(connections)
    assert len(server.received) == 2


async def test_a_connection_that_the_server_is_about_to_close_is_not_used_again() -> None:
    closing = b"HTTP/1.1 201 Created\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    server = Server(answers=[closing, OK])
    async with connected(server) as connections:
        assert (await post(connections)).status == 201
        assert (await post(connections)).status == 200
    assert len(server.received) == 2


async def test_a_connection_that_the_server_closed_is_not_used_again() -> None:
    server = Server(answers=[OK + b"HTTP/1.1 408 Timeout\r\nContent-Length: 0\r\n\r\n", OK])
    async with connected(server) as connections:
        await post(connections)
        await server.ended.wait()  # what nobody asked for ends it
        assert (await post(connections)).status == 200
    assert len(server.received) == 2


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
            b"abc",
        ),
        (b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + OK, b"{}"),
    ],
)
async def test_answers_come_in_many_forms(answer: bytes, body: bytes) -> None:
    async with connected(Server(answers=[answer])) as connections:
        assert (await post(connections)).body == body


async def test_the_time_to_wait_and_the_reason_are_those_of_this_answer() -> None:
    busy = b"HTTP/1.1 429 Too Many\r\nRETRY-after: 7\r\nContent-Length: 0\r\n\r\n"
    async with connected(Server(answers=[busy, OK])) as connections:
        first, second = await post(connections), await post(connections)
    assert (first.status, first.reason, first.retry_after) == (429, "Too Many", "7")
    assert (second.reason, second.retry_after) == ("OK", "")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", "not an answer in HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "not an answer"),
        (b"", "the server closed the connection"),
    ],
)
async def test_what_is_no_answer_is_an_error_and_ends_the_connection(
    answer: bytes, words: str
) -> None:
    server = Server(answers=[answer, OK])
    async with connected(server) as connections:
        with pytest.raises(BrokenAnswer, match=words):
            await post(connections)
        await server.ended.wait()
        assert (await post(connections)).status == 200


async def test_an_answer_that_ends_early_is_an_error() -> None:
    server = Server(answers=[b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab", b""])
    async with connected(server) as connections:
        asking = asyncio.create_task(post(connections))
        await server.asked.wait()
        connections.close()
        with pytest.raises(BrokenAnswer):
            await asking


async def test_a_late_answer_is_never_that_of_another_request() -> None:
    server = Server(answers=[])
    async with connected(server) as connections:
        with pytest.raises(TimeoutError):
            await post(connections, within_s=0.01)
        await server.ended.wait()
        server.answers = [OK]
        assert (await post(connections)).status == 200
    assert len(server.received) == 2


async def test_whoever_does_not_wait_any_more_takes_the_connection_along() -> None:
    server = Server(answers=[])
    async with connected(server) as connections:
        asking = asyncio.create_task(post(connections))
        await server.asked.wait()
        asking.cancel()
        await server.ended.wait()
        with pytest.raises(asyncio.CancelledError):
            await asking


@pytest.mark.parametrize("target", ["/a b", "/a\r\nX: y", "a", "/ä"])
async def test_a_target_that_would_end_the_head_is_not_sent(target: str) -> None:
    server = Server()
    async with connected(server) as connections:
        with pytest.raises(ValueError, match="target"):
            await post(connections, target)
    assert not server.received


async def test_a_header_that_would_end_the_head_is_not_sent() -> None:
    server = Server()
    async with connected(server) as connections:
        with pytest.raises(ValueError, match="Authorization"):
            await connections.request("POST", "/", {"Authorization": "a\r\nX: y"}, b"", LONG)
    assert not server.received
