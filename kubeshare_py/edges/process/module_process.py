"""A module of ours as a separate process, which one coroutine talks to through pipes."""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kubeshare_py.edges.process import decision_log

#: The longest line of its output: thousands of cards take a few hundred KB at a time.
LONGEST_LINE = 64 * 2**20
#: Seconds to wait for its end: a process stuck in a driver outlives its kill.
_END_S = 1.0


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
