"""What is free below memory that is used goes back to the system, now and then."""

import asyncio
import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from kubeshare_py.edges.process.run_until_signal import OFTEN_S, give_back_often

#: Much is freed below one block that stays; prints the resident pages before and after.
PROGRAM = """
from pathlib import Path
from kubeshare_py.edges.process.run_until_signal import give_back
def pages():
    return int(Path("/proc/self/statm").read_text().split()[1])
blocks = [bytes(3000) for _ in range(20_000)]
del blocks[:-1]
before = pages()
give_back()
print(before - pages())
"""
_MIN_PAGES = 10_000


@pytest.mark.skipif(
    not (hasattr(ctypes.CDLL(None), "malloc_trim") and Path("/proc/self/statm").exists()),
    reason="only glibc keeps such memory, and only Linux says how much there is",
)
def test_free_memory_below_used_memory_is_given_back() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60
    )
    assert int(done.stdout) >= _MIN_PAGES


class Enough(Exception):
    """So many times will do."""


async def test_it_is_given_back_again_and_again() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise Enough
        await asyncio.sleep(0)

    with pytest.raises(Enough):
        await give_back_often(sleep)
    assert slept == [OFTEN_S] * 3
