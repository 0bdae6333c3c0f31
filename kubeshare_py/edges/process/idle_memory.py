"""glibc keeps memory that the process has freed, unless the process asks it to give it back."""

import asyncio
import ctypes
from collections.abc import Callable

from kubeshare_py.edges.process.backoff import Sleep

#: How often (s) a process that runs for long gives memory back.
OFTEN_S = 30.0


def give_back() -> None:
    """Return to the system what is free; pynvml alone leaves 10 MiB. Without glibc, nothing.

    glibc does so by itself only at the end of its heap, where a few bytes that are used keep all
    that is free below them: https://man7.org/linux/man-pages/man3/malloc_trim.3.html
    """
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


async def give_back_often(sleep: Sleep = asyncio.sleep) -> None:
    """Do so for ever."""
    while True:
        await sleep(OFTEN_S)
        give_back()
