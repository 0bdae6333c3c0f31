"""Programs of a story that end as by SIGKILL at any await, or by it, and start again."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Protocol, Self

from tests.controlplane.processes import dying_with_us

#: Turns of the loop in which a program gets to where it would wait for what is under way.
TURNS = 3
_TAIL = 4000


class Killable(Protocol):
    """A program; `kills` counts its ends. What it had sent may still arrive."""

    kills: int

    async def start(self) -> None:
        """Start it."""

    async def kill(self) -> None:
        """End it without letting it finish anything; it must have run so far."""


class CrashingProgram:
    """A program of this process, killed at an await."""

    def __init__(
        self, group: asyncio.TaskGroup, work: Callable[[], Coroutine[None, None, None]]
    ) -> None:
        self._group = group
        self._work = work
        self._running: asyncio.Task[None] | None = None
        self._is_killed = False
        self.kills = 0

    async def start(self) -> None:
        self._is_killed = False
        self._running = self._group.create_task(self._run())

    async def kill(self) -> None:
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


class KilledCommand:
    """A command of this installation as a process, killed by SIGKILL; it logs into `folder`.

    Enter it, so that it does not outlive a test that fails.
    """

    def __init__(self, folder: Path, module: str, *arguments: str) -> None:
        self._log = folder / f"{module}.log"
        self._command: list[str | Path] = [
            sys.executable, "-m", f"kubeshare_cmd.{module}", *arguments
        ]  # fmt: skip
        self._running: asyncio.subprocess.Process | None = None
        self.kills = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._running is not None and self._running.returncode is None:
            self._running.kill()
            await self._running.wait()

    async def start(self) -> None:
        with self._log.open("ab") as file:
            self._running = await asyncio.create_subprocess_exec(
                *dying_with_us(self._command), stdout=file, stderr=file
            )

    async def kill(self) -> None:
        running, self._running = self._running, None
        assert running is not None
        assert running.returncode is None, self._log.read_text()[-_TAIL:]
        running.kill()
        await running.wait()
        self.kills += 1
