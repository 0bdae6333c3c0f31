"""Bounds on what clients of our servers may hold, over real sockets and both event loops."""

import asyncio
import contextlib
import gzip
import logging
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path

import pytest
import uvloop
from aiohttp import web

from kubeshare_py.edges.kube.certificates import make_certificates
from kubeshare_py.edges.process.bounded_server import Bounds, listening
from kubeshare_py.edges.process.connection_abort import abort
from tests.controlplane.running import free_ports
from tests.patience import PATIENCE_S

HASTY = Bounds(connections=3, head_s=0.2, idle_s=0.4, busy_s=0.4)
ROOMY = Bounds(connections=3)
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
RUNS = [asyncio.run, uvloop.run]
Run = Callable[[Coroutine[object, object, None]], None]
Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Tls = tuple[ssl.SSLContext | None, ssl.SSLContext | None]


async def _answer(request: web.Request) -> web.Response:
    return web.Response(text="ok")


async def _slow(request: web.Request) -> web.Response:
    await request.read()
    return web.Response(text="late")


@contextlib.asynccontextmanager
async def serving(bounds: Bounds, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    app = web.Application()
    app.add_routes([web.get("/", _answer), web.post("/", _slow)])
    server = listening(app, "127.0.0.1", 0, context=context, bounds=bounds, shutdown_s=0.1)
    async with server as addresses:
        yield addresses[0][1]


async def connect(port: int, sent: bytes = b"", tls: ssl.SSLContext | None = None) -> Client:
    host = "localhost" if tls else None
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname=host)
    writer.write(sent)
    await writer.drain()
    return reader, writer


async def is_answered(client: Client, sent: bytes = GET) -> bool:
    reader, writer = client
    try:
        writer.write(sent)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE_S)
        await reader.readexactly(2)
    except (ConnectionError, asyncio.IncompleteReadError):
        return False
    return head.startswith(b"HTTP/1.1 200")


async def left(client: Client) -> None:
    """Hang up at once."""
    abort(client[1].transport)
    with contextlib.suppress(ConnectionError):
        await client[1].wait_closed()


async def is_hung_up(client: Client) -> bool:
    """Waits until it is; a server that never hangs up fails by the time limit."""
    try:
        return await asyncio.wait_for(client[0].read(), PATIENCE_S) is not None
    except (ConnectionError, ssl.SSLError):
        return True
    finally:
        client[1].close()


@pytest.mark.parametrize("run", RUNS)
def test_a_closed_tls_connection_may_be_closed_once_more_and_aborted(
    run: Run, tmp_path: Path
) -> None:
    made = make_certificates(tmp_path)
    trusting = ssl.create_default_context(cafile=str(made.ca_file))

    async def body() -> None:
        async with serving(ROOMY, made.server_context()) as port:
            _, writer = await connect(port, tls=trusting)
            writer.close()
            writer.close()
            abort(writer.transport)
            abort(writer.transport)
            await writer.wait_closed()
            assert writer.is_closing()

    run(body())


@pytest.mark.parametrize("run", RUNS)
def test_a_head_that_does_not_come_is_not_waited_for(run: Run) -> None:
    async def story() -> None:
        async with serving(HASTY) as port:
            for sent in (
                b"",
                b"GET / HTTP/1.1\r\nHo",
                b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n",
            ):
                assert await is_hung_up(await connect(port, sent))

    run(story())


@pytest.mark.parametrize("run", RUNS)
def test_nor_is_a_handshake(run: Run, tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    trusting = ssl.create_default_context(cafile=str(made.ca_file))

    async def story() -> None:
        async with serving(HASTY, made.server_context()) as port:
            assert await is_hung_up(await connect(port))
            assert await is_hung_up(await connect(port, b"no TLS at all\r\n"))
            assert await is_hung_up(await connect(port, b"GET / HTTP", tls=trusting))
            client = await connect(port, tls=trusting)
            assert await is_answered(client)
            assert await is_hung_up(client)  # it keeps the connection for nothing

    run(story())


@pytest.mark.parametrize("run", RUNS)
def test_many_silent_connections_do_not_keep_others_out(run: Run) -> None:
    async def story() -> None:
        async with serving(ROOMY) as port:
            known = await connect(port)
            assert await is_answered(known)
            crowd = [await connect(port, b"GET") for _ in range(20)]
            late = await connect(port)
            assert await is_answered(late)
            assert await is_answered(known)  # silent for longest, but no stranger
            for one in crowd[:-2]:
                assert await is_hung_up(one)
            for _, writer in (known, late, *crowd):
                writer.close()

    run(story())


@pytest.mark.parametrize("run", RUNS)
def test_many_silent_handshakes_do_not_keep_others_out(run: Run, tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    trusting = ssl.create_default_context(cafile=str(made.ca_file))

    async def story() -> None:
        async with serving(ROOMY, made.server_context()) as port:
            crowd = [await connect(port) for _ in range(20)]
            late = await connect(port, tls=trusting)
            assert await is_answered(late)
            for _, writer in (late, *crowd):
                writer.close()

    run(story())


def test_a_crowd_of_requests_is_hung_up_and_none_of_those_that_are_answered() -> None:
    async def story() -> None:
        app, begun, answer = web.Application(), asyncio.Semaphore(0), asyncio.Event()

        async def wait(request: web.Request) -> web.Response:
            begun.release()
            await answer.wait()
            return web.Response(text="ok")

        app.add_routes([web.get("/", wait)])
        async with listening(app, "127.0.0.1", 0, bounds=ROOMY, shutdown_s=0.1) as [(_, port)]:
            busy = [await connect(port, GET) for _ in range(ROOMY.connections)]
            for _ in busy:
                await begun.acquire()
            assert await is_hung_up(await connect(port))
            answer.set()
            assert all([await is_answered(one, b"") for one in busy])
            for one in busy:
                await left(one)

    asyncio.run(story())


@pytest.mark.parametrize("run", RUNS)
def test_bodies_that_never_end_do_not_keep_others_out(run: Run) -> None:
    async def story() -> None:
        begun = asyncio.Semaphore(0)

        async def read(request: web.Request) -> web.Response:
            begun.release()
            await request.read()
            return web.Response(text="ok")

        async def answer(_: web.Request) -> web.Response:
            return web.Response(text="ok")

        app = web.Application()
        app.add_routes([web.post("/", read), web.get("/", answer)])
        async with listening(app, "127.0.0.1", 0, bounds=ROOMY, shutdown_s=0.1) as [(_, port)]:
            sent = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"
            held = [await connect(port, sent) for _ in range(ROOMY.connections)]
            for _ in held:
                await begun.acquire()
            other = await connect(port)
            assert await is_answered(other)
            ends = [asyncio.create_task(is_hung_up(one)) for one in held]
            done, others = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            assert len(done) == 1
            for end in others:
                end.cancel()
            await asyncio.wait(others)
            for one in (*held, other):
                await left(one)

    run(story())


def test_a_client_that_hangs_up_amid_its_body_leaves_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        async with serving(ROOMY) as port:
            begun = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"
            chunked = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            for sent in (begun, chunked + b"1\r\n{\r\n", chunked + b"zz\r\n"):
                client, other = await connect(port, sent), await connect(port)
                assert await is_answered(other)
                await left(client)
                assert await is_answered(other)
                await left(other)

    caplog.set_level(logging.INFO)
    asyncio.run(story())
    assert not caplog.records


def test_a_packed_body_stays_as_it_is() -> None:
    async def story() -> None:
        app = web.Application()
        lengths: list[int] = []

        async def note(request: web.Request) -> web.Response:
            lengths.append(len(await request.read()))
            return web.Response(text="ok")

        app.add_routes([web.post("/", note)])
        packed = gzip.compress(bytes(1_000_000))
        head = (
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\n"
            f"Content-Length: {len(packed)}\r\n\r\n"
        )
        async with listening(app, "127.0.0.1", 0) as [(_, port)]:
            client = await connect(port)
            assert await is_answered(client, head.encode() + packed)
            await left(client)
        assert lengths == [len(packed)]

    asyncio.run(story())


@pytest.mark.parametrize(
    "sent",
    [
        b"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"GET * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: abc\r\n\r\n",
        b"\x16\x03\x01\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nExpect: \xeb\r\nConnection: close\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nExpect: all\r\nConnection: close\r\n\r\n",
    ],
)
def test_a_strange_head_is_answered_and_leaves_no_traceback(
    sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with serving(ROOMY) as port:
            reader, writer = await connect(port, sent)
            answered = await asyncio.wait_for(reader.read(), PATIENCE_S)
            writer.close()
        assert answered.split()[1].startswith(b"4")

    caplog.set_level(logging.INFO)
    asyncio.run(story())
    assert not caplog.records


def test_a_client_that_goes_away_leaves_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    ended = asyncio.Event()

    async def stream(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        try:
            while True:
                await answer.write(b"x" * 1000)
                await asyncio.sleep(0)
        finally:
            ended.set()

    async def story() -> None:
        app = web.Application()
        app.add_routes([web.get("/", stream)])
        async with listening(app, "127.0.0.1", 0) as [(_, port)]:
            reader, writer = await connect(port, GET)
            await reader.readline()
            abort(writer.transport)
            await asyncio.wait_for(ended.wait(), PATIENCE_S)

    asyncio.run(story())
    assert not [one.exc_info for one in caplog.records if one.exc_info]


def test_a_failing_handler_still_leaves_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(request: web.Request) -> web.Response:
        raise ZeroDivisionError

    async def story() -> None:
        app = web.Application()
        app.add_routes([web.get("/", fail)])
        async with listening(app, "127.0.0.1", 0) as [(_, port)]:
            reader, writer = await connect(port, GET)
            assert await reader.readline() == b"HTTP/1.1 500 Internal Server Error\r\n"
            writer.close()

    asyncio.run(story())
    assert [one.exc_info for one in caplog.records if one.exc_info]


def test_two_servers_do_not_share_an_address() -> None:
    async def story() -> None:
        async with serving(ROOMY) as port:
            with pytest.raises(OSError, match="Address already in use"):
                await listening(web.Application(), "127.0.0.1", port).__aenter__()

    asyncio.run(story())


#: A program that listens on all addresses of a kernel that knows no IPv6.
WITHOUT_IPV6 = """
import asyncio, errno, os, socket, sys

def refuse(event, arguments):
    if event == "socket.__new__" and arguments[1] == socket.AF_INET6:
        raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))

sys.addaudithook(refuse)
from aiohttp import web
from kubeshare_py.edges.process.bounded_server import listening

async def story():
    async with listening(web.Application(), sys.argv[1], 0) as addresses:
        [(host, port)] = addresses
        with socket.create_connection(("127.0.0.1", port)):
            print(host)

asyncio.run(story())
"""
ALL_ADDRESSES = pytest.mark.parametrize("address", ["", "0.0.0.0", "::"])


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


async def listened(address: str, port: int) -> set[str]:
    """The loopback addresses on which a server answers that listens there."""
    app = web.Application()
    app.add_routes([web.get("/", _answer)])
    answered = set()
    async with listening(app, address, port):
        for host in ("127.0.0.1", "::1"):
            with contextlib.suppress(OSError):
                client = await asyncio.open_connection(host, port)
                if await is_answered(client):
                    answered.add(host)
                await left(client)
    return answered


@ALL_ADDRESSES
@pytest.mark.skipif(not has_ipv6(), reason="this host has no IPv6")
async def test_all_addresses_are_those_of_ipv4_and_ipv6(address: str) -> None:
    [port] = free_ports(1)
    assert await listened(address, port) == {"127.0.0.1", "::1"}


@pytest.mark.skipif(not has_ipv6(), reason="this host has no IPv6")
async def test_one_address_is_no_other_one() -> None:
    for address in ("127.0.0.1", "::1"):
        [port] = free_ports(1)
        assert await listened(address, port) == {address}


@pytest.mark.slow
@ALL_ADDRESSES
def test_a_host_without_ipv6_has_ipv4_alone(address: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_IPV6, address], check=False, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("0.0.0.0\n", "")


@ALL_ADDRESSES
async def test_a_port_that_is_taken_in_one_family_is_not_served_in_the_other(address: str) -> None:
    """Half of the clients would reach the other process."""
    for host in ["0.0.0.0", *(["::"] if has_ipv6() else [])]:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with (
            socket.create_server((host, 0), family=family) as taken,
            pytest.raises(OSError, match="in use"),
        ):
            await listened(address, taken.getsockname()[1])


HUGE = 16 * 2**20
GET_HUGE = GET.replace(b"/ ", b"/huge ")


@contextlib.asynccontextmanager
async def serving_huge(
    bounds: Bounds, served: list[asyncio.BaseTransport], context: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """A server of a huge answer, which notes the transports of those who asked."""

    async def huge(request: web.Request) -> web.Response:
        assert request.transport is not None
        served.append(request.transport)
        return web.Response(body=bytes(HUGE))

    app = web.Application()
    app.add_routes([web.get("/huge", huge), web.get("/", _answer)])
    server = listening(app, "127.0.0.1", 0, context=context, bounds=bounds, shutdown_s=0.1)
    async with server as addresses:
        yield addresses[0][1]


@pytest.fixture(params=[False, True], ids=["plain", "tls"])
def tls(request: pytest.FixtureRequest, tmp_path: Path) -> Tls:
    """The contexts of a server and of its clients, or none."""
    if not request.param:
        return None, None
    made = make_certificates(tmp_path)
    return made.server_context(), ssl.create_default_context(cafile=str(made.ca_file))


async def cut_off(served: list[asyncio.BaseTransport]) -> list[bool]:
    """Which of these connections are closed, once one more is."""
    found = [one.is_closing() for one in served]
    async with asyncio.timeout(PATIENCE_S):
        while not any(found):
            await asyncio.sleep(0.01)
            found = [one.is_closing() for one in served]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS)
def test_of_answers_that_are_not_read_the_first_is_cut_off_and_small_ones_get_through(
    run: Run, tls: Tls
) -> None:
    async def ask() -> None:
        served: list[asyncio.BaseTransport] = []
        context, trusting = tls
        async with serving_huge(Bounds(unread_bytes=2 * HUGE + 9), served, context) as port:
            clients = []
            for _ in range(3):
                clients.append(await connect(port, GET_HUGE, trusting))
                await clients[-1][0].readuntil(b"\r\n\r\n")
            assert await cut_off(served) == [True, False, False]
            clients.append(await connect(port, tls=trusting))
            assert await is_answered(clients[-1])
            async with asyncio.timeout(PATIENCE_S):
                assert len(await clients[2][0].readexactly(HUGE)) == HUGE
            for client in clients:
                await left(client)

    run(ask())


@pytest.mark.parametrize("run", RUNS)
def test_a_client_that_does_not_read_its_answer_in_time_is_cut_off(run: Run, tls: Tls) -> None:
    async def ask() -> None:
        served: list[asyncio.BaseTransport] = []
        context, trusting = tls
        async with serving_huge(Bounds(unread_s=0.1), served, context) as port:
            client = await connect(port, GET_HUGE, trusting)
            await client[0].readuntil(b"\r\n\r\n")
            assert await cut_off(served) == [True]
            await left(client)

    run(ask())
