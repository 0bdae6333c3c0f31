"""An event loop on which time runs faster: the product's own timeouts and pauses, sooner over."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import TypeVar

T = TypeVar("T")


class _QuickSelector(selectors.DefaultSelector):
    """Waits a fraction of the time that it is asked to wait."""

    speed = 1.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found: list[tuple[selectors.SelectorKey, int]] = super().select(
            None if timeout is None else timeout / self.speed
        )
        return found


class FastLoop(asyncio.SelectorEventLoop):
    """Its second takes 1 / `speed` of a second."""

    def __init__(self, speed: float) -> None:
        selector = _QuickSelector()
        selector.speed = speed
        self._speed = speed
        super().__init__(selector)

    def time(self) -> float:
        return super().time() * self._speed


def run(story: Callable[[], Coroutine[object, object, T]], speed: float) -> T:
    """Run a story to its end on such a loop."""
    with asyncio.Runner(loop_factory=lambda: FastLoop(speed)) as runner:
        return runner.run(story())


def clock_of_the_loop(epoch: float = 1_800_000_000.0) -> Callable[[], float]:
    """Unix time (s) that passes as fast as the running loop's."""
    started = asyncio.get_running_loop().time()
    return lambda: epoch + asyncio.get_running_loop().time() - started
