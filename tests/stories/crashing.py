"""Programs of a story that end as by SIGKILL at any await, and start again."""

import asyncio
from collections.abc import Callable, Coroutine

#: Turns of the loop in which a program gets to where it would wait for what is under way.
TURNS = 3


class CrashingProgram:
    """A program; `kills` counts its ends. What it had sent may still arrive."""

    def __init__(
        self, group: asyncio.TaskGroup, work: Callable[[], Coroutine[None, None, None]]
    ) -> None:
        self._group = group
        self._work = work
        self._task: asyncio.Task[None] | None = None
        self.kills = 0

    def start(self) -> None:
        """Start it."""
        self._task = self._group.create_task(self._work())

    async def kill(self) -> None:
        """End it without letting it finish anything; it must have run so far."""
        task, self._task = self._task, None
        assert task is not None
        assert not task.done()
        self.kills += 1
        while not task.done():
            task.cancel()
            for _ in range(TURNS):
                await asyncio.sleep(0)
            await asyncio.wait([task], timeout=0.05)
