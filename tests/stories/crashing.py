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
        self._running: asyncio.Task[None] | None = None
        self._is_killed = False
        self.kills = 0

    def start(self) -> None:
        """Start it."""
        self._is_killed = False
        self._running = self._group.create_task(self._run())

    async def kill(self) -> None:
        """End it without letting it finish anything; it must have run so far."""
        running, self._running = self._running, None
        assert running is not None
        assert not running.done()
        self.kills += 1
        self._is_killed = True
        while not running.done():
            running.cancel()
            for _ in range(TURNS):
                await asyncio.sleep(0)
            await asyncio.wait([running], timeout=0.05)

    async def _run(self) -> None:
        """What it raises while it is torn apart is of no interest."""
        try:
            await self._work()
        except BaseException:
            if not self._is_killed:
                raise
