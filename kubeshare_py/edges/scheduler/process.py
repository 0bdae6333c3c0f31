"""A process around one coroutine: event loop, signals, log, exit code."""

import asyncio
import gc
import socket
import sys
import uuid
from collections.abc import Coroutine

import uvloop

from kubeshare_py.edges.kube.errors import KubeConfigError
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.process.run_until_signal import until_signal
from kubeshare_py.edges.scheduler.leader_lease import LeadershipLost

#: Most objects of an iteration are freed by their reference counts: searching cycles among them
#: every 700 objects, the default, took 5 % of the time. A second look takes 15 ms at 40,000
#: objects.
COLLECT_AFTER = (10_000, 3, 10)
#: From this version on Python collects old objects in parts, and the second threshold has another
#: meaning.
_INCREMENTAL = (3, 14)
#: Seconds between counts of frozen objects. When they have grown by this number, and by half, since
#: the first count or the last full collection, there is another one.
LOOK_AGAIN_S = 60.0
MAX_MORE = 100_000
LOST = 1
UNREACHABLE = 3


def run(
    work: Coroutine[object, object, object],
    log_level: str = "info",
    look_again_s: float = LOOK_AGAIN_S,
) -> int:
    """Run until it returns, or until SIGINT or SIGTERM cancels it; the exit code.

    0 if it ended in order or was asked to, 1 if it led and another process may lead now, as in
    kube-scheduler, 3 without usable credentials. A second signal ends it at once. Raises what the
    work raised, out of the task groups that it came through.
    """
    decision_log.set_up(log_level)
    collect_in_short_pauses()
    try:
        uvloop.run(until_signal(_without_old_cycles(work, look_again_s)))
    except KubeConfigError as error:
        decision_log.warn("credentials", message=str(error))
        return UNREACHABLE
    except LeadershipLost as error:
        decision_log.warn("lost", message=str(error))
        return LOST
    return 0


def collect_in_short_pauses() -> None:
    """Let no garbage collection look at all objects: with 50,000 pods that takes 300 ms.

    Objects that survived twice are frozen: their reference counts free them, but cycles of them
    stay until `look_at_all`.
    """
    gc.set_threshold(*COLLECT_AFTER)
    if sys.version_info < _INCREMENTAL and _keep_the_old not in gc.callbacks:
        gc.callbacks.append(_keep_the_old)


def look_at_all(before: int) -> int:
    """Free cycles of frozen objects, if many more are frozen than `before`.

    Returns how many are frozen then. Every connection and every HTTP error of aiohttp leaves
    cycles: without this, clients that reconnect again and again would fill the memory.
    """
    frozen = gc.get_freeze_count()
    if frozen <= before + max(MAX_MORE, before // 2):
        return min(before, frozen)
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    return gc.get_freeze_count()


async def _without_old_cycles(work: Coroutine[object, object, object], look_again_s: float) -> None:
    async with asyncio.TaskGroup() as group:
        looking = group.create_task(_look_again_and_again(look_again_s))
        try:
            await work
        finally:
            looking.cancel()


async def _look_again_and_again(every_s: float) -> None:
    # What is there after the start is mostly lists, which stay: to look through those of 5,000
    # nodes stopped every thread for 0.13 s, the Lease's too, and freed 700 objects.
    await asyncio.sleep(every_s)
    before = gc.get_freeze_count()
    while True:
        await asyncio.sleep(every_s)
        before = look_at_all(before)


def _keep_the_old(phase: str, found: dict[str, int]) -> None:
    if phase == "stop" and found["generation"] == 1:
        gc.freeze()


def own_name() -> str:
    """A name that no other process has, past ones on this host included."""
    return f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}"
