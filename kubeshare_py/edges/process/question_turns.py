"""Turns for questions whose answers take the event loop's time, shared fairly among clients.

Any client of a port may ask without end. So answers are made one at a time and in all take a
share of the process' time; which one is next is decided by what its client had so far, and among
the questions of one client by their size. A flood, or a few huge questions, then cost others one
answer and not all of them, even where all come through one address, such as a proxy's.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

#: What a client had is halved in this time (s).
_HALVED_S = 1.0
#: A client that had less (s) is as one that had nothing, so that clients are not kept for ever.
_NOTHING_S = 0.001
#: After a turn of so long (s), the next one is chosen once others were read for so long (s).
_LONG_S, _READING_S = 0.005, 0.003
#: Questions from this size (bytes) on should be read on another thread: 3 MB may take a tenth of a
#: second, in which the loop goes on.
LARGE = 64 * 1024
#: Sizes (bytes) below this are the same; above, each doubling comes later.
_SMALL = 4096


async def aside(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """The function's result, from another thread. A caller that gives up waits until it has ended.

    Otherwise threads would go on, each with its question, after their turns.
    """
    asked = asyncio.to_thread(function, *arguments, **named)
    running = asyncio.gather(asked, return_exceptions=True)
    try:
        return _only([*await asyncio.shield(running)])
    except asyncio.CancelledError:
        await running
        raise
    finally:
        del running


def _only(results: list[T | BaseException]) -> T:
    """The result, which is taken out, or raised.

    A failure refers to the frames that it went through: one that was left in a variable of theirs
    would be a cycle, in which the arguments, megabytes of them, wait for the next search for them.
    """
    result = results.pop()
    try:
        if isinstance(result, BaseException):
            raise result
        return result
    finally:
        del result


class TooManyQuestions(Exception):
    """So many wait that this one should be asked again later."""


@dataclass(slots=True)
class _WaitingQuestion:
    client: str
    size: int
    number: int
    turn: asyncio.Future[None] = field(repr=False)


class QuestionTurns:
    """One turn at a time; in all `share` of the time, after `burst_s` (s) that are free."""

    def __init__(
        self, *, share: float = 0.5, burst_s: float = 0.25, most_waiting: int = 64
    ) -> None:
        """Of more than `most_waiting`, the largest question of the client with most is refused."""
        self._share, self._burst_s, self._most_waiting = share, burst_s, most_waiting
        self._waiting: list[_WaitingQuestion] = []
        self._numbers = 0
        self._is_taken = False
        #: Seconds of turns that may be begun at once; negative after a long turn.
        self._budget_s, self._counted_at = burst_s, 0.0
        self._timer: asyncio.TimerHandle | None = None
        #: What clients had (s), as of `_halved_at`.
        self._had: dict[str, float] = {}
        self._halved_at = 0.0

    @asynccontextmanager
    async def turn(self, client: str, size: int) -> AsyncIterator[None]:
        """Wait for a turn; its end is the context's. Raises TooManyQuestions."""
        await self._wait(client, size)
        began_s = perf_counter()
        try:
            yield
        finally:
            took_s = perf_counter() - began_s
            self._budget_s -= took_s
            self._had[client] = self._had.get(client, 0.0) + took_s
            if took_s > _LONG_S:
                # Questions that came meanwhile are still in their sockets, smaller ones too.
                asyncio.get_running_loop().call_later(_READING_S, self._free)
            else:
                self._free()

    def _free(self) -> None:
        self._is_taken = False
        self._next()

    async def _wait(self, client: str, size: int) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._numbers += 1
        own = _WaitingQuestion(client, max(size, _SMALL).bit_length(), self._numbers, turn)
        self._waiting.append(own)
        if len(self._waiting) > self._most_waiting:
            self._refuse_one()
        self._next()
        try:
            await turn
        except BaseException:
            if own in self._waiting:
                self._waiting.remove(own)
            elif turn.done() and not turn.cancelled() and turn.exception() is None:
                # Cancelled between the turn's beginning and this task's: it was given in vain.
                self._free()
            raise

    def _next(self) -> None:
        """Give the turn to the next one, or come back when there is a budget."""
        if self._is_taken or not self._waiting:
            return
        loop = asyncio.get_running_loop()
        self._count(loop.time())
        if self._budget_s < 0:
            if self._timer is None:
                self._timer = loop.call_later(-self._budget_s / self._share, self._again)
            return
        first = min(
            self._waiting, key=lambda one: (self._had.get(one.client, 0.0), one.size, one.number)
        )
        self._waiting.remove(first)
        if not first.turn.done():
            self._is_taken = True
            first.turn.set_result(None)
        else:
            self._next()

    def _again(self) -> None:
        self._timer = None
        self._next()

    def _count(self, now: float) -> None:
        """Add what the time since brings, and forget a part of what clients had."""
        since_s, self._counted_at = now - self._counted_at, now
        self._budget_s = min(self._burst_s, self._budget_s + since_s * self._share)
        halvings = (now - self._halved_at) / _HALVED_S
        if halvings > 1 / 16:
            self._halved_at = now
            left = {one: had_s * 0.5**halvings for one, had_s in self._had.items()}
            self._had = {one: had_s for one, had_s in left.items() if had_s >= _NOTHING_S}

    def _refuse_one(self) -> None:
        counts: dict[str, int] = {}
        for one in self._waiting:
            counts[one.client] = counts.get(one.client, 0) + 1
        worst = max(self._waiting, key=lambda one: (counts[one.client], one.size, one.number))
        self._waiting.remove(worst)
        if not worst.turn.done():
            worst.turn.set_exception(TooManyQuestions)
