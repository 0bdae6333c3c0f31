"""Reads a stream that may be silent: when to check it, and when to give up."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from kubeshare_py.edges.kube.errors import KubeUnreachable


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a watch may be silent, in seconds.

    look_s: after this silence, and again after as much more, check whether it is right. silence_s:
    then the connection counts as dead in any case. API servers send a bookmark about every 60 s:
    https://kubernetes.io/docs/reference/using-api/api-concepts/#watch-bookmarks
    """

    look_s: float = 20.0
    silence_s: float = 90.0


async def with_timeout(
    chunks: AsyncIterator[bytes], patience: Patience, look: Callable[[], Awaitable[bool]]
) -> AsyncGenerator[bytes, None]:
    """Pass on what arrives, until it ends or `look` says that continuing is useless.

    Raises KubeUnreachable after too long a silence, and what `look` raises.
    """
    silent_s = 0.0
    while True:
        try:
            async with asyncio.timeout(patience.look_s) as limit:
                chunk = await anext(chunks, None)
        except TimeoutError:
            if not limit.expired():
                raise
            silent_s += patience.look_s
            if silent_s >= patience.silence_s:
                raise KubeUnreachable(f"nothing heard for {silent_s:.0f} s") from None
            if not await look():
                return
            continue
        if chunk is None:
            return
        silent_s = 0.0
        yield chunk
        del chunk  # not kept while the stream is silent


async def complete_lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[list[bytes], None]:
    """Split chunks of any size into complete lines; an unfinished last line is dropped."""
    head: list[bytes] = []
    async for chunk in chunks:
        lines = chunk.split(b"\n")
        if len(lines) == 1:
            head.append(chunk)
            continue
        lines[0] = b"".join((*head, lines[0]))
        head = [lines.pop()]
        yield [line for line in lines if line]
        del chunk, lines
