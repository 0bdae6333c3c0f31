"""Namespaces that wait for the same few turns get them in turn."""

import asyncio
from collections.abc import Iterable

from kubeshare_py.edges.scheduler.writes.fair_semaphore import FairSemaphore

Names = list[str]


class Waiting:
    """Tasks that each take a turn and keep it until `end`; `begun` says in which order."""

    def __init__(self, at_once: int) -> None:
        self._turns = FairSemaphore(at_once)
        self.begun: Names = []
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def ask(self, names: Iterable[str]) -> None:
        """Ask for a turn for each name, of the namespace that its first letter is."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self._tasks[name] = asyncio.create_task(self._take(name))
            await settled()

    async def end(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()
            await settled()

    async def cancel(self, *names: str) -> None:
        for name in names:
            self._tasks[name].cancel()
        await asyncio.gather(*(self._tasks[name] for name in names), return_exceptions=True)
        await settled()

    def end_soon(self, name: str) -> None:
        self._ends[name].set()

    def cancel_soon(self, name: str) -> None:
        self._tasks[name].cancel()

    async def _take(self, name: str) -> None:
        async with self._turns.slot(name[0]):
            self.begun.append(name)
            await self._ends[name].wait()


async def settled() -> None:
    """Let all tasks go on until each waits for something."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_so_many_go_at_once() -> None:
    waiting = Waiting(2)
    await waiting.ask(["a1", "a2", "a3"])
    assert waiting.begun == ["a1", "a2"]
    await waiting.end("a2")
    assert waiting.begun == ["a1", "a2", "a3"]
    await waiting.end("a1", "a3")


async def test_namespaces_take_turns_and_each_keeps_its_order() -> None:
    waiting = Waiting(1)
    names = ["a1", "a2", "a3", "a4", "b1", "b2", "c1"]
    await waiting.ask(names)
    for _ in names:
        await waiting.end(waiting.begun[-1])
    assert waiting.begun == ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]


async def test_one_that_is_cancelled_while_it_waits_takes_no_turn() -> None:
    waiting = Waiting(1)
    await waiting.ask(["a1", "a2", "b1"])
    await waiting.cancel("a2")
    await waiting.end("a1")
    assert waiting.begun == ["a1", "b1"]
    await waiting.end("b1")
    await waiting.ask(["c1"])
    assert waiting.begun[-1] == "c1"
    await waiting.end("c1")


async def test_a_turn_that_is_given_to_one_being_cancelled_goes_to_the_next() -> None:
    waiting = Waiting(1)
    await waiting.ask(["a1", "b1", "c1"])
    waiting.end_soon("a1")
    # The turn ends in this step of the loop, and the one that gets it is cancelled in the same.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel_soon("b1")
    await settled()
    assert waiting.begun[-1] == "c1"
    await waiting.end("c1")


async def test_a_turn_ends_where_what_it_was_for_fails() -> None:
    turns, entered = FairSemaphore(1), False
    for _ in range(2):
        try:
            async with turns.slot("a"):
                raise ValueError
        except ValueError:
            pass
    async with turns.slot("b"):
        entered = True
    assert entered
