"""A process around one coroutine: event loop, signals, log, exit code."""

import gc
import socket
import sys
import uuid
from collections.abc import Coroutine

import uvloop

from kubeshare_py.edges import decision_log
from kubeshare_py.edges.kube_reading import KubeConfigError
from kubeshare_py.edges.leader_lease import LeadershipLost
from kubeshare_py.edges.until_told import until_told

#: Most of what a turn makes is freed by its reference counts: to look for cycles among it every
#: 700 objects, as by default, took 5 % of the time. A second look takes 15 ms at 40,000 objects.
COLLECT_AFTER = (10_000, 3, 10)
#: From then on Python collects old objects in parts, and a second look is another thing.
_INCREMENTAL = (3, 14)
LOST = 1
UNREACHABLE = 3


def run(work: Coroutine[object, object, object], log_level: str = "info") -> int:
    """Run until it returns, or until SIGINT or SIGTERM cancels it; answers an exit code.

    0 when it ended in order or was told to, 1 when it led and another process may lead now, as
    kube-scheduler does, 3 when there are no usable credentials. Told twice, it
    waits for nothing. Raises what the work raised, out of the task groups that it came through.
    """
    decision_log.set_up(log_level)
    collect_in_short_turns()
    try:
        uvloop.run(until_told(work))
    except KubeConfigError as error:
        decision_log.warn("credentials", message=str(error))
        return UNREACHABLE
    except LeadershipLost as error:
        decision_log.warn("lost", message=str(error))
        return LOST
    return 0


def collect_in_short_turns() -> None:
    """Let no collection of cycles look at all objects: with 50,000 pods that takes 300 ms.

    What was found alive twice is not looked at again, and is freed by its reference counts. Of the
    cycles that live so long, as those of a connection, the memory stays with the process.
    """
    gc.set_threshold(*COLLECT_AFTER)
    if sys.version_info < _INCREMENTAL and _keep_the_old not in gc.callbacks:
        gc.callbacks.append(_keep_the_old)


def _keep_the_old(phase: str, found: dict[str, int]) -> None:
    if phase == "stop" and found["generation"] == 1:
        gc.freeze()


def own_name() -> str:
    """A name that no other process has, past ones on this host included."""
    return f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}"
