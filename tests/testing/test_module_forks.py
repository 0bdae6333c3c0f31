"""Forks of a process that imported a module: tests/module_forks.py."""

import os
import signal
from pathlib import Path

from tests.budgets import cpu_s
from tests.module_forks import fork, forked_module

#: Says where it runs and with what, to standard output and to standard errors, then how it is told.
MODULE = "tests.testing.forked"


async def test_a_fork_is_as_a_process_that_was_started_for_the_module(tmp_path: Path) -> None:
    made = await fork(MODULE, "3", "b c", folder=tmp_path, environment={"A": "b"})
    output, errors = await made.communicate()
    assert output.decode().splitlines() == [f"['3', 'b c'] {tmp_path} {{'A': 'b'}} __main__"]
    assert (errors, made.returncode) == (b"it was told\n", 3)


async def test_forks_are_processes_of_their_own_that_may_be_ended() -> None:
    first, second = await fork(MODULE, "wait"), await fork(MODULE, "wait")
    assert len({first.pid, second.pid, os.getpid()}) == 3
    first.kill()
    assert await first.wait() == first.returncode == -signal.SIGKILL
    assert second.returncode is None
    second.terminate()
    assert await second.wait() == -signal.SIGTERM
    for made in (first, second):
        made.kill()  # it is gone already
        await made.communicate()


async def test_a_module_that_talks_ends_when_it_is_left() -> None:
    async with forked_module(MODULE) as made:
        assert made.stdin is not None
        assert made.stdout is not None
        made.stdin.write(b"a line\n")
        assert await made.stdout.readline() == b"A LINE\n"
    assert made.returncode is not None


async def test_what_a_fork_used_counts_as_if_it_were_a_child() -> None:
    before = cpu_s()
    made = await fork(MODULE, "busy")
    await made.communicate()
    assert cpu_s() >= before + 0.09


async def test_an_error_ends_it_as_it_ends_python() -> None:
    made = await fork(MODULE, "fail")
    output, errors = await made.communicate()
    assert (output, made.returncode) == (b"", 1)
    assert errors.endswith(b"ValueError: fail\n")
