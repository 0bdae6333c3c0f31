"""Answers about the past, from an event log, to each viewer as far as its rights go now."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TypeVar

from kubeshare_py.dashboard.fan_out import ViewerId
from kubeshare_py.dashboard.past import (
    HeldUsage,
    MayName,
    PastLog,
    PastMoment,
    PastSpan,
    UsageSum,
    page_of,
    usage_by,
)
from kubeshare_py.dashboard.viewers import Viewer
from kubeshare_py.views.view import WhyView

R = TypeVar("R")
#: Seconds for which the log is read on before the page is told how far that is.
READ_S = 4.0
#: The most namespaces in which a viewer's rights are asked; pods of others have no names.
MAX_NAMESPACES = 256
#: For how long (s) rights are believed, and the most of them that are remembered.
KEPT_S, MAX_KEPT = 10.0, 10_000
#: For how long (s) the last sums are kept.
USAGE_KEPT_S = 60.0
#: The most viewers who wait while the log is read for another one.
MAX_WAITING = 16

#: Whether the owner of a token may list the state's pods in a namespace.
MayList = Callable[[str, str], Awaitable[bool]]


class TooMany(Exception):
    """Others are asking about the past."""


class StillReading(Exception):
    """The log was read up to `read_to` (ms since 1970), and is read on at the next question."""

    def __init__(self, read_to: int) -> None:
        self.read_to = read_to
        super().__init__(read_to)


class Past:
    """Asks a log about one viewer's moment after the other's, on threads."""

    def __init__(self, log: PastLog, may_list: MayList, clock: Callable[[], float]) -> None:
        self._log, self._may_list, self._clock = log, may_list, clock
        self._turn = asyncio.Lock()
        self._waiting = 0
        #: The times that were asked for last, until when (s) the answer is kept, and the answer.
        self._usage: tuple[tuple[int, int], float, HeldUsage | None] = ((0, 0), 0.0, None)
        self._rights: dict[tuple[ViewerId, str], tuple[float, bool]] = {}

    async def spans(self) -> list[PastSpan]:
        """The times that the log covers. Raises PastUnknown and TooMany."""
        return list(await self._in_turn(partial(asyncio.to_thread, self._log.spans)))

    async def state(self, at_ms: int, viewer: Viewer, token: str, *, compressed: bool) -> bytes:
        """The whole state at that time, as JSON.

        Raises PastUnknown, StillReading and TooMany.
        """

        def page(moment: PastMoment, may_name: MayName) -> bytes:
            made = b"".join(page_of(moment, may_name))
            return gzip.compress(made, 1, mtime=0) if compressed else made

        return await self._in_turn(partial(self._read, at_ms, viewer, token, page))

    async def why(
        self, at_ms: int, viewer: Viewer, token: str, namespace: str, name: str
    ) -> WhyView | None:
        """Why a pod was where it was; None if the viewer sees none. Raises as `state` does."""

        def found(moment: PastMoment, may_name: MayName) -> WhyView | None:
            return moment.why(namespace, name, may_name) if may_name(namespace) else None

        return await self._in_turn(partial(self._read, at_ms, viewer, token, found))

    async def usage(
        self, times: tuple[int, int], by: str, viewer: Viewer, token: str
    ) -> tuple[HeldUsage, list[UsageSum]]:
        """What was held between these times (ms), and its sums by a word of USAGE_BY.

        Raises PastUnknown and TooMany.
        """

        async def read() -> tuple[HeldUsage, list[UsageSum]]:
            held = await self._held(times)
            may_name = await self._may_name(viewer, token, {one.namespace for one in held.rows})
            return held, usage_by(held.rows, by, may_name)

        return await self._in_turn(read)

    async def _held(self, times: tuple[int, int]) -> HeldUsage:
        """The last answer is kept: the page asks for it by team, then by pod."""
        asked, kept_until, held = self._usage
        if asked != times or held is None or self._clock() >= kept_until:
            held = await asyncio.to_thread(self._log.usage, *times)
            self._usage = times, self._clock() + USAGE_KEPT_S, held
        return held

    async def _read(
        self,
        at_ms: int,
        viewer: Viewer,
        token: str,
        read: Callable[[PastMoment, MayName], R],
    ) -> R:
        found = await asyncio.to_thread(self._log.moment, at_ms, READ_S)
        if isinstance(found, int):
            raise StillReading(found)
        may_name = await self._may_name(viewer, token, found.namespaces())
        return await asyncio.to_thread(read, found, may_name)

    async def _in_turn(self, answer: Callable[[], Awaitable[R]]) -> R:
        """The answer, once those before it are made.

        It is made even if its viewer is gone: handlers of aiohttp go on, and so no two threads are
        at the log.
        """
        if self._waiting >= MAX_WAITING:
            raise TooMany("others are looking at the past; try again")
        self._waiting += 1
        try:
            async with self._turn:
                return await answer()
        finally:
            self._waiting -= 1

    async def _may_name(self, viewer: Viewer, token: str, names: Iterable[str]) -> MayName:
        """By rights of now: those of the past are not in the log."""
        if viewer.sees_all:
            return lambda namespace: True
        seen = set()
        for namespace in sorted(names)[:MAX_NAMESPACES]:
            until, allowed = self._rights.get((viewer.id, namespace), (0.0, False))
            if self._clock() >= until:
                allowed = await self._may_list(token, namespace)
                if len(self._rights) >= MAX_KEPT:
                    self._rights.clear()
                self._rights[viewer.id, namespace] = self._clock() + KEPT_S, allowed
            if allowed:
                seen.add(namespace)
        return seen.__contains__
