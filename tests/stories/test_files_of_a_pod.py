"""How much code a pod with half a card meets: the files of which anything runs for it.

From the pod's creation until its Binding is reported. What a reader has to open to follow one pod
is a cost like any other: it has a ceiling, and raising that needs a reason beside it.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

from tests.architecture.sources import ROOT
from tests.stories.conftest import Stage, gpu

pytestmark = pytest.mark.embedded_only

#: The first pod also meets what is done once for its shape. 186 on 2026-11-28.
FIRST = 97
#: 181 on 2026-11-28.
NEXT = 86

_SOURCES = (str(ROOT / "kubeshare_py"), str(ROOT / "plugins"))
_SIMULATOR = str(ROOT / "kubeshare_py/embedded_cluster")
#: A reading of the cards may come meanwhile.
_INVENTORY = ("/inventory/", "/inventory_watch.py", "/backoff.py")
CLUSTER = 'nodes: [{name: "n{n}", count: 2, gpus: [{model: V100, count: 2, memory: 16GiB}]}]'


def is_of_the_scheduler(frame: FrameType) -> bool:
    """Whether a function is the scheduler's, and was not called by the simulated API server."""
    name = frame.f_code.co_filename
    if not name.startswith(_SOURCES) or any(part in name for part in _INVENTORY):
        return False
    caller: FrameType | None = frame
    while caller is not None:
        if caller.f_code.co_filename.startswith(_SIMULATOR):
            return False
        caller = caller.f_back
    return True


@contextmanager
def files_that_run() -> Iterator[set[str]]:
    """The files of which functions are called while entered, by this thread."""
    found: set[str] = set()

    def called(frame: FrameType, event: str, argument: object) -> None:
        del event, argument
        if frame.f_code.co_filename not in found and is_of_the_scheduler(frame):
            found.add(frame.f_code.co_filename)

    before = sys.gettrace()
    sys.settrace(called)
    try:
        yield found
    finally:
        sys.settrace(before)


async def files_of(stage: Stage, name: str) -> set[str]:
    """The files that a new pod of this name meets."""
    with files_that_run() as found:
        await stage.create(name, gpu("0.5"))
        await stage.expect_running(name)
        await stage.expect_event(name, "Scheduled")
    return found


async def test_a_pod_with_half_a_card_is_followed_in_few_files(stage: Stage) -> None:
    first, again = await files_of(stage, "first"), await files_of(stage, "next")
    way = {
        str(ROOT / "kubeshare_py" / one) for one in ("scheduling/machine.py", "cluster/ledger.py")
    }
    assert way <= first & again
    assert len(first) <= FIRST, "\n".join(sorted(first))
    assert len(again) <= NEXT, "\n".join(sorted(again))
