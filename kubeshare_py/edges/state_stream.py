"""Large answers of the state's endpoints: sent while they are made, a portion at a time."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import msgspec
from aiohttp import web

from kubeshare_py.domain.view import ClusterView

#: Answers of many portions that are made at a time, and requests that wait for that.
MOST_MADE, MOST_WAITING = 4, 32
#: A reader who is slower (s) is cut off, or a few of them would keep out everybody else.
SLOWEST_S = 60.0


class ViewStreams:
    """Sends views, a few at a time."""

    def __init__(self) -> None:
        self._turn = asyncio.Semaphore(MOST_MADE)
        self._waiting = 0

    @property
    def busy(self) -> bool:
        """Whether so many wait already that one more had better come back."""
        return self._waiting >= MOST_WAITING

    async def send(
        self, request: web.Request, portions: Iterable[ClusterView], more: Mapping[str, object]
    ) -> web.StreamResponse:
        """Answer with the portions as one JSON object, which has these fields more.

        The first portion says what is no list. Others get their turn after each.
        """
        self._waiting += 1
        try:
            async with self._turn, asyncio.timeout(SLOWEST_S):
                answer = web.StreamResponse()
                answer.content_type = "application/json"
                await answer.prepare(request)
                for text in _texts(portions, more):
                    await answer.write(text)
                    await asyncio.sleep(0)
                await answer.write_eof()
                return answer
        finally:
            self._waiting -= 1


def _texts(portions: Iterable[ClusterView], more: Mapping[str, object]) -> Iterator[bytes]:
    """JSON in pieces; each list stands where its first items came."""
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
