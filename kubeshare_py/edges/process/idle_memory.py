"""Returns freed memory to the system, which glibc keeps unless it is asked."""

import asyncio
import ctypes
from collections.abc import Callable

from kubeshare_py.edges.process.backoff import Sleep

#: Seconds between returns of memory in a long-running process.
OFTEN_S = 30.0


def give_back() -> None:
    """Return free memory to the system; pynvml alone leaves 10 MiB. Without glibc, do nothing.

    glibc by itself does so only at the end of its heap, where a few used bytes keep all free memory
    below them: https://man7.org/linux/man-pages/man3/malloc_trim.3.html
    """
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


async def give_back_often(sleep: Sleep = asyncio.sleep) -> None:
    """Return free memory at intervals, for ever."""
    while True:
        await sleep(OFTEN_S)
        give_back()
