"""A process around one coroutine: told to end, it ends in order."""

import asyncio
import signal
import subprocess
import sys

import pytest

from kubeshare_py.edges.scheduler.process import own_name
from tests.patience import PATIENCE_S

PROGRAM = """
import asyncio, sys
from kubeshare_py.edges.scheduler import process

async def work():
    try:
        print("ready", flush=True)
        await asyncio.Event().wait()
    finally:
        print("tidying", flush=True)
        {tidy}
        print("tidy", flush=True)

sys.exit(process.run(work()))
"""


async def started(program: str) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    return process


async def said(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_lets_the_work_tidy_up_and_ends_with_0(number: signal.Signals) -> None:
    process = await started(PROGRAM.format(tidy="await asyncio.sleep(0)"))
    assert await said(process) == "ready"
    process.send_signal(number)
    output, errors = await process.communicate()
    assert (output, errors) == (b"tidying\ntidy\n", b"")
    assert process.returncode == 0


@pytest.mark.slow
async def test_a_second_signal_waits_for_nothing() -> None:
    process = await started(PROGRAM.format(tidy="await asyncio.Event().wait()"))
    assert await said(process) == "ready"
    process.send_signal(signal.SIGTERM)
    assert await said(process) == "tidying"
    process.send_signal(signal.SIGTERM)
    output, errors = await process.communicate()
    assert (output, errors, process.returncode) == (b"", b"", 0)


@pytest.mark.slow
async def test_an_error_comes_out_of_the_task_groups_it_came_through() -> None:
    program = """
import asyncio
from kubeshare_py.edges.scheduler import process

async def fail():
    raise LookupError("lost")

async def work():
    async with asyncio.TaskGroup() as outer, asyncio.TaskGroup() as inner:
        inner.create_task(fail())

try:
    process.run(work())
except LookupError as error:
    print("found", error)
"""
    process = await started(program)
    output, errors = await process.communicate()
    assert (output, errors) == (b"found lost\n", b"")


def expect_success(program: str) -> None:
    """Run a program, whose own assertions must hold."""
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == 0


async def expect_silence(program: str) -> None:
    """Run a program, which says nothing and ends with 0 before our patience does."""
    process = await started(program)
    async with asyncio.timeout(PATIENCE_S):
        output, errors = await process.communicate()
    assert (output, errors, process.returncode) == (b"", b"", 0)


def test_no_two_processes_have_one_name() -> None:
    assert own_name() != own_name()


@pytest.mark.slow
def test_no_collection_looks_at_all_objects_again_and_young_cycles_go() -> None:
    program = """
import gc
from kubeshare_py.edges.scheduler.process import COLLECT_AFTER, collect_in_short_pauses

looked_at = []
def look(phase, found):
    if phase == "start":
        looked_at.append(sum(len(gc.get_objects(one)) for one in range(found["generation"] + 1)))

gc.callbacks.append(look)
collect_in_short_pauses()
collect_in_short_pauses()
gc.freeze()
kept = [[] for _ in range(1_000_000)]
young, rounds, _ = COLLECT_AFTER
assert max(looked_at) <= 2 * young * (rounds + 1), max(looked_at)

class Cycle:
    def __init__(self):
        self.me = self

before = gc.get_freeze_count() + len(gc.get_objects())
for _ in range(500_000):
    Cycle()
left = gc.get_freeze_count() + len(gc.get_objects()) - before
assert left <= 4 * young * (rounds + 1), left
"""
    expect_success(program)


@pytest.mark.slow
async def test_cycles_that_became_old_are_freed_now_and_then() -> None:
    program = """
import asyncio, weakref
from kubeshare_py.edges.scheduler import process

class Cycle:
    def __init__(self):
        self.me = self

async def work():
    looked, freed = asyncio.Event(), asyncio.Event()
    look_at_all = process.look_at_all
    process.look_at_all = lambda before: (looked.set(), look_at_all(before))[1]
    await looked.wait()
    cycles = [Cycle() for _ in range(2 * process.MAX_MORE)]
    weakref.finalize(cycles[0], freed.set)
    del cycles
    await freed.wait()

process.run(work(), look_again_s=0.01)
"""
    await expect_silence(program)


@pytest.mark.slow
async def test_what_the_start_leaves_is_not_looked_through() -> None:
    program = """
import asyncio, gc
from kubeshare_py.edges.scheduler import process

looks = []

async def work():
    lists = [[] for _ in range(2 * process.MAX_MORE)]
    gc.collect()
    gc.freeze()
    gc.callbacks.append(lambda phase, found: looks.append(found["generation"]))
    looked = asyncio.Event()
    look_at_all = process.look_at_all
    process.look_at_all = lambda before: (looked.set(), look_at_all(before))[1]
    await looked.wait()
    assert lists

process.run(work(), look_again_s=0.01)
assert 2 not in looks, looks
"""
    await expect_silence(program)


@pytest.mark.slow
def test_all_objects_are_looked_at_only_when_there_are_many_more() -> None:
    program = """
import gc
from kubeshare_py.edges.scheduler.process import MAX_MORE, look_at_all

looks = []
gc.callbacks.append(lambda phase, found: looks.append(found["generation"]))
gc.freeze()
before = gc.get_freeze_count()
assert look_at_all(before) == before
assert look_at_all(before + 10) == before, "objects that went are forgotten"
gc.disable()
kept = [[] for _ in range(MAX_MORE + 10)]
gc.freeze()
assert not looks
after = look_at_all(before)
assert looks == [2, 2] and after > MAX_MORE
assert look_at_all(after) == after and looks == [2, 2]
"""
    expect_success(program)
