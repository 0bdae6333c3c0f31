"""Who gets the next turn, and how much of the time turns take."""

import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter

import pytest

from kubeshare_py.edges.process.question_turns import QuestionTurns, TooManyQuestions, aside
from tests.patience import PATIENCE_S

FREE = 1e9


@asynccontextmanager
async def occupied(turns: QuestionTurns) -> AsyncIterator[None]:
    """Others ask while one has its turn."""
    async with turns.turn("first", 0):
        yield


async def order_of(turns: QuestionTurns, *asked: tuple[str, int], cost_s: float = 0.0) -> list[int]:
    """The order in which these get their turns if all wait before the first."""
    found: list[int] = []

    async def ask(number: int, client: str, size: int) -> None:
        async with turns.turn(client, size):
            found.append(number)
            end = perf_counter() + cost_s
            while perf_counter() < end:
                pass

    async with asyncio.TaskGroup() as group, occupied(turns):
        for number, (client, size) in enumerate(asked):
            group.create_task(ask(number, client, size))
        await asyncio.sleep(0)
    return found


async def test_small_questions_of_a_client_come_before_large_ones() -> None:
    asked = (("a", 4_000_000), ("a", 2_000_000), ("a", 9000), ("a", 100), ("a", 200))
    assert await order_of(QuestionTurns(burst_s=FREE), *asked) == [3, 4, 2, 1, 0]


async def test_a_client_that_had_less_comes_before_one_that_had_more() -> None:
    turns = QuestionTurns(burst_s=FREE)
    await order_of(turns, ("flood", 0), ("flood", 0), cost_s=0.02)
    asked = [*(("flood", 0),) * 20, ("calm", 3_000_000)]
    assert (await order_of(turns, *asked, cost_s=0.001))[0] == 20


async def test_turns_take_no_more_than_their_share_of_the_time() -> None:
    turns = QuestionTurns(share=0.25, burst_s=0.0)
    began_s = perf_counter()
    await order_of(turns, *(("a", 0),) * 5, cost_s=0.02)
    # No question waits in the pause after the last one.
    assert perf_counter() - began_s >= 4 * 0.02 * 4


async def test_of_too_many_the_largest_of_the_client_with_most_is_refused() -> None:
    turns = QuestionTurns(burst_s=FREE, most_waiting=3)
    refused: list[str] = []

    async def ask(name: str, client: str, size: int) -> None:
        try:
            async with turns.turn(client, size):
                pass
        except TooManyQuestions:
            refused.append(name)

    async with asyncio.TaskGroup() as group, occupied(turns):
        for name, client, size in (
            ("calm", "b", 9_000_000),
            ("small", "a", 10),
            ("large", "a", 3_000_000),
            ("late", "a", 10),
        ):
            group.create_task(ask(name, client, size))
            await asyncio.sleep(0)
    assert refused == ["large"]


async def test_who_gives_up_while_waiting_or_just_then_keeps_no_turn() -> None:
    turns = QuestionTurns(burst_s=FREE)

    async def ask() -> None:
        async with turns.turn("a", 0):
            pass

    async with occupied(turns):
        waiting, next_one = asyncio.create_task(ask()), asyncio.create_task(ask())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    next_one.cancel()  # its turn was given to it a moment ago
    await asyncio.gather(next_one, return_exceptions=True)
    assert waiting.cancelled()
    async with asyncio.timeout(PATIENCE_S):
        await ask()


async def test_a_question_that_fails_ends_its_turn() -> None:
    turns = QuestionTurns(burst_s=FREE)
    with pytest.raises(ValueError, match="no question"):
        async with turns.turn("a", 0):
            raise ValueError("no question")
    async with asyncio.timeout(PATIENCE_S):
        assert await order_of(turns, ("a", 0)) == [0]


async def test_who_gives_up_keeps_the_turn_until_the_thread_has_ended() -> None:
    """Else as many threads as a client gives up questions would run at a time."""
    turns, began, ends = QuestionTurns(burst_s=FREE), threading.Event(), threading.Event()

    def read() -> None:
        began.set()
        ends.wait(PATIENCE_S)

    async def ask() -> None:
        async with turns.turn("a", 0):
            await aside(read)

    first = asyncio.create_task(ask())
    await asyncio.to_thread(began.wait, PATIENCE_S)
    first.cancel()
    next_one = asyncio.create_task(order_of(turns, ("a", 0)))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not first.done()
    assert not next_one.done()
    ends.set()
    assert await next_one == [0]
    assert first.cancelled()


class _Unreadable(Exception):
    pass


async def test_a_failure_on_the_thread_leaves_nothing_behind() -> None:
    """Else the bodies of questions that cannot be read would stay until cycles are searched for."""

    def fail() -> None:
        raise _Unreadable

    failures: list[weakref.ref[_Unreadable]] = []
    gc.disable()
    try:
        try:
            await aside(fail)
        except _Unreadable as error:
            failures.append(weakref.ref(error))
        await asyncio.sleep(0)
        assert [one() for one in failures] == [None]
    finally:
        gc.enable()
