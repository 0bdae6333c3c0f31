"""Calls of functions, of Python and of C, while something runs: a cost without a clock."""

import gc
import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

R = TypeVar("R")


def counted(run: Callable[[], R]) -> tuple[R, Counter[str]]:
    """What it returns, and how often each function was called, by qualified name.

    No garbage is collected meanwhile: finalizers of what other tests left would be counted too.
    """
    calls: Counter[str] = Counter()

    def called(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            calls[frame.f_code.co_qualname] += 1
        elif event == "c_call":
            calls[getattr(argument, "__qualname__", "?")] += 1

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()
    sys.setprofile(called)
    try:
        result = run()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    del calls["setprofile"]  # the end of the count itself
    return result, calls


def calls_of(run: Callable[[], object]) -> int:
    """How many functions were called; see `counted`."""
    return counted(run)[1].total()
