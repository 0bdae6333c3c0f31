"""What clients send that no library would: bytes over TLS."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from kubeshare_py.edges.process.connection_abort import abort

ANSWER_S = 20.0

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def trusting() -> ssl.SSLContext:
    """An attacker asks no server who it is."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def connected(port: int) -> Connection:
    """A TLS connection to this machine's port."""
    return await asyncio.open_connection("127.0.0.1", port, ssl=trusting())


async def answered(port: int, sent: bytes) -> bytes:
    """All that is answered to these bytes until the connection is closed, b"" for nothing."""
    reader, writer = await connected(port)
    found = b""
    with suppress(ConnectionError, ssl.SSLError):
        writer.write(sent)
        async with asyncio.timeout(ANSWER_S):
            found = await reader.read()
    await closed(writer)
    return found


def request(method: str, path: str, *headers: str, body: bytes = b"") -> bytes:
    """One request after which the connection is closed."""
    lines = [f"{method} {path} HTTP/1.1", "Host: x", "Connection: close", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def status(answer: bytes) -> int:
    """Of an answer; 0 if there is none."""
    words = answer.split(b" ", 2)
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0


@asynccontextmanager
async def crowd(port: int, size: int, sent: bytes = b"") -> AsyncIterator[None]:
    """So many connections that send this much and then nothing, while entered."""
    found = await asyncio.gather(*(connected(port) for _ in range(size)), return_exceptions=True)
    writers = [one[1] for one in found if not isinstance(one, BaseException)]
    for writer in writers:
        with suppress(ConnectionError):
            writer.write(sent)
    try:
        yield
    finally:
        await asyncio.gather(*(closed(one) for one in writers))


async def closed(writer: asyncio.StreamWriter) -> None:
    """Close it, whatever the other side did."""
    abort(writer.transport)
    with suppress(ConnectionError, ssl.SSLError, TimeoutError):
        async with asyncio.timeout(ANSWER_S):
            await writer.wait_closed()
