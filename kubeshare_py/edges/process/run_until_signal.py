"""A process: one coroutine until a signal, its children, and the memory that it gives back."""

import asyncio
import ctypes
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.process.backoff import Sleep

# Runs one coroutine until it returns, or until SIGINT or SIGTERM.


async def until_signal(work: Coroutine[object, object, object]) -> None:
    """Run it, and cancel it at each of these signals.

    Raises what the work raised, out of the task groups that it came through.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(work)
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, task.cancel)
    except BaseExceptionGroup as failed:
        raise _only(failed) from failed


def _only(error: BaseException) -> BaseException:
    """The one exception in nested groups; the group itself if there are several."""
    inner = error
    while isinstance(inner, BaseExceptionGroup):
        if len(inner.exceptions) > 1:
            return error
        [inner] = inner.exceptions
    return inner


# Returns freed memory to the system, which glibc keeps unless it is asked.


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


# A module of ours as a separate process, which one coroutine talks to through pipes.


#: The longest line of its output: thousands of cards take a few hundred KB at a time.
LONGEST_LINE = 64 * 2**20
#: Seconds to wait for its end: a process stuck in a driver outlives its kill.
_END_S = 1.0


class Pipes(Protocol):
    """The ends of a process's pipes, as asyncio's `Process` has them."""

    @property
    def stdin(self) -> asyncio.StreamWriter | None:
        """Where its input is written."""

    @property
    def stdout(self) -> asyncio.StreamReader | None:
        """Where its output is read."""


#: Starts a module of this name without arguments; its process ends when the context is left.
StartModule = Callable[[str], AbstractAsyncContextManager[Pipes]]


@asynccontextmanager
async def module_process(module: str, *arguments: str) -> AsyncIterator[Process]:
    """The process while entered; then it is killed, and awaited briefly. Raises OSError."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *arguments,
        stdin=PIPE,
        stdout=PIPE,
        limit=LONGEST_LINE,
        # Its own session: a terminal's Ctrl-C is for its parent, which then ends it.
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        try:
            async with asyncio.timeout(_END_S):
                if process.stdout is not None:
                    await process.stdout.read()
                await process.wait()
        except TimeoutError:
            decision_log.warn("process", message=f"{module} ({process.pid}) does not end")
