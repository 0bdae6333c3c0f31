"""Memory that imports have used and left: glibc keeps it unless it is told not to."""

import ctypes
from collections.abc import Callable


def give_back() -> None:
    """Return to the system what is free; pynvml alone leaves 10 MiB. Without glibc, nothing."""
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
