"""Waits until a file in a folder has been written: inotify(7), as Gemini's own launcher does."""

import asyncio
import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_IN_CLOSE_WRITE, _IN_MOVED_TO, _IN_DELETE = 0x8, 0x80, 0x200
_MASK = _IN_CLOSE_WRITE | _IN_MOVED_TO | _IN_DELETE
_AT_ONCE = 64 * 1024


@contextmanager
def watching(folder: Path, on_event: Callable[[], None]) -> Iterator[None]:
    """Call `on_event` on the running loop after files of the folder change. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    events = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if events < 0:
        raise _failed("inotify_init1")
    loop = asyncio.get_running_loop()

    def read() -> None:
        os.read(events, _AT_ONCE)  # which files they were does not matter: all are read
        on_event()

    try:
        if libc.inotify_add_watch(events, os.fsencode(folder), _MASK) < 0:
            raise _failed(f"inotify_add_watch {folder}")
        loop.add_reader(events, read)
        try:
            yield
        finally:
            loop.remove_reader(events)
    finally:
        os.close(events)


def _failed(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")


assert sys.platform == "linux", "inotify is Linux's"
