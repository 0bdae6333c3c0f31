"""Whether an event loop turns, as another thread sees it."""

import asyncio
import threading
import time

from kubeshare_py.edges.process.heartbeat import Heartbeat, Stall, steady_s

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
