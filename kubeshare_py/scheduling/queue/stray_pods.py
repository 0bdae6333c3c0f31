"""Pods that ask for GPUs in a dialect of ours and name a scheduler that does not run, it seems.

Such a pod waits without a word: this scheduler decides on pods of its own profiles, and others know
nothing of the dialect. If it still waits after a while, one event says what to do. Predecessors
that still run bind their pods before that, so that nothing is said of these.
"""

import math
from collections import deque
from collections.abc import Collection
from collections.abc import Set as AbstractSet
from difflib import get_close_matches

from kubeshare_py.domain.effects import PodWarning, ReportPodWarning
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.node import CONTESTED_OF
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.remembered import remembered

#: How long (s) a pod may wait before that is said.
PATIENCE_S = 30.0
#: The most pods that are waited for at a time, and those of which something was said.
MOST = 1000
#: The schedulerName of pods that name none.
DEFAULT = "default-scheduler"
#: How alike a name must be to one of ours to be taken for a misspelling of it.
_ALIKE = 0.7


class StrayPods:
    """`names` are the schedulerNames of this scheduler's profiles, the first one that of advice."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = tuple(names)
        self._waiting: dict[PodUid, ReportPodWarning] = {}
        self._due: deque[tuple[float, PodUid]] = deque()
        self._told: dict[PodUid, None] = {}

    @property
    def next_at(self) -> float:
        """When (s) something may be due; infinity if nothing is waited for."""
        return self._due[0][0] if self._due else math.inf

    def seen(self, pod: Pod, now: float) -> None:
        """A pod without a node, of a scheduler that is not this one."""
        if pod.request is None or pod.uid in self._waiting or pod.uid in self._told:
            return
        note = "" if len(self._waiting) >= MOST else self._note(pod)
        if note:
            report = ReportPodWarning(pod.uid, pod.key, PodWarning.NO_SCHEDULER, note)
            self._waiting[pod.uid] = report
            self._due.append((now + PATIENCE_S, pod.uid))

    def left(self, uid: PodUid) -> None:
        """The pod has a node, or is gone."""
        if self._waiting:
            self._waiting.pop(uid, None)
        if self._told:
            self._told.pop(uid, None)

    def listed(self, uids: AbstractSet[PodUid]) -> None:
        """All pods that there are."""
        for uid in [uid for uid in (*self._waiting, *self._told) if uid not in uids]:
            self.left(uid)

    def time_passed(self, now: float) -> list[ReportPodWarning]:
        """Those that have waited long enough, once each."""
        reports = []
        while self._due and self._due[0][0] <= now:
            _, uid = self._due.popleft()
            report = self._waiting.pop(uid, None)
            if report is not None:
                reports.append(report)
                self._told[uid] = None
                if len(self._told) > MOST:
                    del self._told[next(iter(self._told))]
        return reports

    def _note(self, pod: Pod) -> str:
        """What to do; "" if another scheduler may well place the pod."""
        assert pod.request is not None
        name, dialect = pod.scheduler_name, pod.request.dialect
        if not self._names or _is_native(pod):
            return ""
        asks = f"it asks for GPUs in dialect {dialect}"
        first = self._names[0]
        if name in ("", DEFAULT):
            return (
                f"no scheduler here places it: its schedulerName is {DEFAULT}, and {asks}. "
                f"kubectl label namespace {pod.key.namespace} kubeshare.io/dialects=true and "
                f"create it anew, or set schedulerName: {first}"
            )
        meant = _alike(name, self._names)
        if not meant:
            return ""
        return (
            f"no scheduler here is called {name}, and {asks}: did you mean "
            f"schedulerName: {meant}? Create it anew with that"
        )


def _is_native(pod: Pod) -> bool:
    """Whether it asks for whole cards by a name that other schedulers and device plugins know."""
    contested = any(CONTESTED_OF in name for name, _ in pod.shape.resources)
    return contested and all(claim.exclusive for claim in pod.shape.claims)


@remembered(256)
def _alike(name: str, names: tuple[str, ...]) -> str:
    return next(iter(get_close_matches(name, names, n=1, cutoff=_ALIKE)), "")
