"""Whether something is alive, as others see it: an event loop, and a program of the same node."""

import asyncio
import fcntl
import os
import stat
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

# Shows other programs of the same node that something is alive: a lock on a file.
#
# The kernel releases the lock of a process that dies for whatever reason, while a left-over file or
# a reused process id prove nothing. The lock belongs to the open file, so it is visible from other
# containers, and a program that may only read can test it without taking it: fcntl(2), "Open file
# description locks".


#: struct flock of 64-bit Linux: type, whence, start, length, pid.
_FLOCK = struct.Struct("hhqqi4x")
_WHOLE_FILE = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
_READABLE = 0o644


@contextmanager
def shown(path: str | os.PathLike[str]) -> Iterator[None]:
    """Show life while entered. Raises OSError, also while another process shows the same."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _READABLE)
    try:
        os.fchmod(file, _READABLE)
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, _WHOLE_FILE)
        yield
    finally:
        os.close(file)


def alive(folder: str | os.PathLike[str]) -> tuple[str, ...] | None:
    """The names in a folder that are shown to be alive; None if that cannot be determined."""
    try:
        with os.scandir(folder) as entries:
            return tuple(sorted(one.name for one in entries if _is_shown(one.path)))
    except OSError:
        return None


def _is_shown(path: str) -> bool:
    """Whether the file is locked. Raises OSError."""
    try:
        # Whatever the file is, opening it must not wait.
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return False
        found = _FLOCK.unpack(fcntl.fcntl(file, fcntl.F_OFD_GETLK, _WHOLE_FILE))
        return bool(found[0] != fcntl.F_UNLCK)
    finally:
        os.close(file)


# Whether one thread's event loop still turns, as seen from another thread.


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
