"""Whether a process lives: its event loop turns, and it holds its lock."""

import asyncio
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from kubeshare_py.edges.process.liveness import Heartbeat, Stall, alive, shown, steady_s

# --- Whether an event loop turns, as another thread sees it ---------------------------------------


EVERY_S = 0.01


async def test_a_loop_that_turns_does_not_stall() -> None:
    heartbeat = Heartbeat(EVERY_S)
    heartbeat.begin()
    found = [await asyncio.to_thread(heartbeat.stall, 5.0) for _ in range(10)]
    heartbeat.end()
    assert found == [None] * 10


async def test_a_loop_that_stands_still_is_seen_from_another_thread_with_where_it_is() -> None:
    heartbeat, found = Heartbeat(EVERY_S), list[Stall]()
    heartbeat.begin()

    def look() -> None:
        while not found:
            if stall := heartbeat.stall(0.05):
                found.append(stall)

    watcher = threading.Timer(0.0, look)
    watcher.start()
    stand_still(watcher)
    heartbeat.end()
    [stall] = found
    assert stall.for_s >= 0.05
    assert "stand_still (" in stall.where


def stand_still(until: threading.Thread) -> None:
    """Hold up the loop as long as the other thread runs."""
    until.join()


async def test_a_loop_that_turns_again_stalls_no_more() -> None:
    now = 100.0
    heartbeat = Heartbeat(EVERY_S, lambda: now)
    heartbeat.begin()
    now = 111.0
    stall = heartbeat.stall(10.0)
    assert stall is not None
    assert stall.for_s == 11.0
    await asyncio.sleep(2 * EVERY_S)
    assert heartbeat.stall(10.0) is None
    heartbeat.end()


def test_the_clock_counts_the_time_in_which_the_machine_was_suspended() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= steady_s() <= time.clock_gettime(time.CLOCK_BOOTTIME)


# --- A process that may only read a lock sees by it that its holder lives, and no longer than that


HOLDER = """
import sys
from pathlib import Path
from kubeshare_py.edges.process.liveness import shown
with shown(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


async def test_who_is_killed_is_shown_no_longer(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HOLDER, str(tmp_path / "GPU-a")),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"held\n"
    assert alive(tmp_path) == ("GPU-a",)
    process.kill()
    await process.communicate()
    assert (tmp_path / "GPU-a").exists()
    assert alive(tmp_path) == ()


def test_asking_is_in_nobodys_way_and_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "GPU-a"
    file.touch()
    assert alive(tmp_path) == ()
    with shown(file):
        assert alive(tmp_path) == ("GPU-a",)
        with pytest.raises(OSError, match="temporarily unavailable"), shown(file):
            pass
        file.chmod(0o444)  # all that other programs of the node may do with it is read it
        assert alive(tmp_path) == ("GPU-a",)
    assert alive(tmp_path) == ()


def test_what_is_no_file_is_no_proof_and_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    assert alive(tmp_path) == ()


def test_what_may_not_be_looked_at_is_not_known(tmp_path: Path) -> None:
    assert alive(tmp_path / "missing") is None
    (tmp_path / "GPU-a").symlink_to(tmp_path / "elsewhere")
    assert alive(tmp_path) is None
