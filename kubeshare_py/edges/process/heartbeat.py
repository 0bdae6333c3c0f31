"""Whether one thread's event loop still turns, as seen from another thread."""

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

#: The clock that all processes of a machine share; where available, it also counts the time in
#: which the machine was suspended. Setting the time of day moves neither.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
#: The most calls of the stack that are named, the innermost first.
_FRAMES = 3


def steady_s() -> float:
    """Seconds since some moment before this process began."""
    return time.clock_gettime(_CLOCK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """An event loop has not turned for `for_s` (s).

    `where` is its thread's stack, innermost first.
    """

    for_s: float
    where: str


class Heartbeat:
    """Written by one event loop every `every_s` seconds, as far as its turns allow.

    It is begun and ended on that loop's thread; `stall` may be called from any other.
    """

    def __init__(self, every_s: float, clock: Callable[[], float] = steady_s) -> None:
        self._every_s = every_s
        self._clock = clock
        self._at = clock()
        self._thread = threading.get_ident()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Start beating."""
        self._at = self._clock()
        self._timer = asyncio.get_running_loop().call_later(self._every_s, self.begin)

    def end(self) -> None:
        """Stop beating."""
        if self._timer is not None:
            self._timer.cancel()

    def stall(self, after_s: float) -> Stall | None:
        """The stall, if the last beat is `after_s` or more ago; else None."""
        for_s = self._clock() - self._at
        if for_s < after_s:
            return None
        frame = sys._current_frames().get(self._thread)
        calls = traceback.extract_stack(frame)[-_FRAMES:]
        where = " < ".join(f"{call.name} ({call.filename}:{call.lineno})" for call in calls[::-1])
        return Stall(for_s=for_s, where=where)
