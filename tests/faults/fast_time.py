"""An event loop whose time runs faster while it has nothing to do.

The product's own timeouts and pauses are sooner over. While the loop works, and while a busy
machine makes it wait for its turn, time runs as ours does: what takes long to compute does not
time out sooner than in production.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from time import perf_counter
from typing import TypeVar

T = TypeVar("T")

_TURN_S, _LONGEST_LEAVE = 0.01, 200


class _QuickSelector(selectors.DefaultSelector):
    """Waits a fraction of the time that it is asked to wait; `ahead_s` is what was left out."""

    speed = 1.0
    ahead_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        began = perf_counter()
        found: list[tuple[selectors.SelectorKey, int]] = super().select(
            None if timeout is None else timeout / self.speed
        )
        waited = perf_counter() - began
        passed = waited * self.speed
        if timeout is not None:
            passed = min(passed, max(timeout, 0.0))
        self.ahead_s += passed - waited
        return found


class FastLoop(asyncio.SelectorEventLoop):
    """Its idle second takes 1 / `speed` of a second."""

    def __init__(self, speed: float) -> None:
        self._quick = _QuickSelector()
        self._quick.speed = speed
        super().__init__(self._quick)

    def time(self) -> float:
        return perf_counter() + self._quick.ahead_s

    async def hung_up(self) -> None:
        """Wait a moment for connections that are about to close: TLS takes leave of its peer."""
        own = 1  # by which other threads wake it
        for _ in range(_LONGEST_LEAVE):
            if len(self._quick.get_map()) <= own:
                return
            await asyncio.sleep(_TURN_S)


def run(scenario: Callable[[], Coroutine[object, object, T]], speed: float) -> T:
    """Run a story to its end on such a loop."""
    with asyncio.Runner(loop_factory=lambda: FastLoop(speed)) as runner:
        try:
            return runner.run(scenario())
        finally:
            loop = runner.get_loop()
            assert isinstance(loop, FastLoop)
            runner.run(loop.hung_up())


def clock_of_the_loop(epoch: float = 1_800_000_000.0) -> Callable[[], float]:
    """Unix time (s) that passes as fast as the running loop's."""
    started = asyncio.get_running_loop().time()
    return lambda: epoch + asyncio.get_running_loop().time() - started
