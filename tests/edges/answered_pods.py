"""What a scheduler without a machine says of pods that do not exist, for servers of its state."""

from collections.abc import Generator
from typing import Any

from kubeshare_py.dialects.dialects import SHAREDGPU_ALONE
from kubeshare_py.domain.pod import Pod
from kubeshare_py.scheduling.explain.question import Sees
from kubeshare_py.views.view import ProspectView, SchedulerView
from tests.terminal.views import a_fitting, a_why

NAMES = ("kubeshare-scheduler", "batch")


def prospect(pod: Pod, _sees: Sees) -> Generator[None, None, ProspectView | None]:
    """Half a card fits, more waits as default/train does."""
    yield
    if pod.scheduler_name not in NAMES:
        return None
    if pod.shape.claim is None or pod.shape.claim.milli <= 500:
        return a_fitting(pod.key.name)
    return ProspectView(fits=False, why=a_why())


#: Its contents matter only to those who read them.
SNAPSHOT = b"KubeShareEvents1\n"
#: The fields of `Views` that are about pods which do not exist, and a snapshot.
OF_REVIEWS: dict[str, Any] = {
    "prospect": prospect,
    "schedulers": lambda: [SchedulerView(name=name, dialects=("sharedgpu",)) for name in NAMES],
    "snapshot": lambda: iter([SNAPSHOT]),
    "dialects": SHAREDGPU_ALONE,
}
