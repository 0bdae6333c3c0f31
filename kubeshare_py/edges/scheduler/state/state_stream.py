"""Large answers of the state's endpoints: sent while they are made, a portion at a time."""

import asyncio
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from time import perf_counter
from typing import TypeVar

import msgspec
from aiohttp import web

from kubeshare_py.edges.process.connection_abort import abort
from kubeshare_py.views.view import ClusterView

#: The most answers being made and sent, and with those that wait; further requests are refused.
MAX_MADE, MAX_ASKED = 4, 32
#: A reader that is slower (s) is cut off; otherwise a few of them would keep out all others.
SLOWEST_S = 60.0

T = TypeVar("T")


class ViewStreams:
    """Sends views, a few at a time, in at most every other iteration of the event loop."""

    def __init__(self, slowest_s: float = SLOWEST_S) -> None:
        self._slowest_s = slowest_s
        self._slots = asyncio.Semaphore(MAX_MADE)
        #: Held while a portion is made, so that decisions come after each, however many read.
        self._making = asyncio.Lock()
        self._asked = 0

    @property
    def busy(self) -> bool:
        """Whether so many requests wait already that one more should be repeated later."""
        return self._asked >= MAX_ASKED

    async def send(
        self, request: web.Request, portions: Iterable[ClusterView], more: Mapping[str, object]
    ) -> web.StreamResponse:
        """Answer with the portions as one JSON object, with the additional fields `more`.

        The first portion has all that is no list. Other tasks run after each.
        """
        return await self.send_texts(request, view_texts(portions, more))

    async def send_texts(self, request: web.Request, texts: Iterator[bytes]) -> web.StreamResponse:
        """Answer with these pieces of JSON as they are made. Other tasks run after each."""
        answer = web.StreamResponse()
        answer.content_type = "application/json"
        self._asked += 1
        try:
            async with self._slots, asyncio.timeout(self._slowest_s):
                await answer.prepare(request)
                while (text := await self._made(texts)) is not None:
                    await answer.write(text)
                await answer.write_eof()
        except TimeoutError:
            # Without the end, the reader sees that the answer is incomplete.
            abort(request.transport)
        finally:
            self._asked -= 1
        return answer

    async def make(self, steps: Generator[None, None, T]) -> T:
        """An answer that is made in steps; after each, other tasks run for as long as it took.

        So however many ask, at least half of the time is left for decisions.
        """
        self._asked += 1
        try:
            async with self._slots:
                while True:
                    await self._making.acquire()
                    began_s = perf_counter()
                    try:
                        next(steps)
                    except StopIteration as end:
                        answer: T = end.value
                        return answer
                    finally:
                        pause_s = perf_counter() - began_s
                        asyncio.get_running_loop().call_later(pause_s, self._making.release)
        finally:
            self._asked -= 1

    async def _made(self, texts: Iterator[bytes]) -> bytes | None:
        async with self._making:
            text = next(texts, None)
            await asyncio.sleep(0)
            return text


def view_texts(portions: Iterable[ClusterView], more: Mapping[str, object]) -> Iterator[bytes]:
    """JSON in pieces; each list is where its first items came."""
    missing, opened = ["nodes", "pods"], ""
    for number, portion in enumerate(portions):
        text = b""
        if not number:
            head = msgspec.to_builtins(replace(portion, nodes=(), pods=()))
            del head["nodes"], head["pods"]
            text = msgspec.json.encode({**more, **head})[:-1]
        for name in ("nodes", "pods"):
            items = getattr(portion, name)
            if not items:
                continue
            if name != opened:
                text += b'],"%b":[' % name.encode() if opened else b',"%b":[' % name.encode()
                missing.remove(name)
            else:
                text += b","
            opened = name
            text += msgspec.json.encode(items)[1:-1]
        yield text
    end = b"]" if opened else b""
    yield end + b"".join(b',"%b":[]' % name.encode() for name in missing) + b"}"
