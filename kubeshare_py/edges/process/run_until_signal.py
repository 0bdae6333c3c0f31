"""Runs one coroutine until it returns, or until SIGINT or SIGTERM."""

import asyncio
import signal
from collections.abc import Coroutine


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
