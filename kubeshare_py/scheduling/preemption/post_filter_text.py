"""What is said of evictions for a pod that fits nowhere, after the reasons of its nodes.

kube-scheduler's PostFilter plugins speak there, DynamicResources before DefaultPreemption. While
pods are evicted for the pod, they say nothing. The texts are those of v1.36:
pkg/scheduler/framework/plugins/defaultpreemption and dynamicresources, and
pkg/scheduler/framework/preemption.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from kubeshare_py.domain.diagnosis import UNCOUNTED, Diagnosis, histogram
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.framework.boundary import PluginFailed
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.scheduling.preemption.preemptor_queue import PreemptionQueue
from kubeshare_py.scheduling.preemption.search import MAX_NODES
from kubeshare_py.scheduling.preemption.survey import Survey
from kubeshare_py.scheduling.preemption.victim_search import NO_VICTIMS
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.scheduling.queue.reservations import Nominee

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NEVER = "not eligible due to preemptionPolicy=Never."
REFUSED = "not eligible while the API server refuses its Bindings."
TERMINATING = "not eligible due to a terminating pod on the nominated node."
#: Of a pod without device claims, and of one with some.
NO_CLAIMS, STILL_HELD = "no new claims to deallocate", "still not schedulable"
#: Of nodes beyond those that one search looks at.
NOT_SEARCHED = "node(s) not searched for preemption victims yet"
_DEVICES = "DynamicResources"


class _UnderWay(Protocol):
    """A preemption under way: whether its pod was tried again, and the pods that have to leave."""

    was_tried: bool
    awaited: set[PodUid]


class PostFilterTexts:
    """Words for the reports of pods, from searches that were made anyhow."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        queue: PreemptionQueue,
        under_way: Mapping[Nominee, _UnderWay],
    ) -> None:
        self._profiles = profiles
        self._queue = queue
        self._under_way = under_way

    def text(self, record: Record, diagnosis: Diagnosis) -> str:
        """What is said of this pod's evictions; "" while that is not known."""
        if not diagnosis.counts or not diagnosis.nodes:
            return ""
        profile = self._profiles[record.pod.scheduler_name]
        said = []
        if any(plugin.name == _DEVICES for plugin in profile.filters):
            of_pod, devices = diagnosis.counts[0][1] == UNCOUNTED, record.shape.device_claims
            if of_pod and _DEVICES not in diagnosis.plugins:
                return ""  # kube-scheduler does not come so far: "not found" is all that it says
            # Nothing of claims for a pod that has GPUs and no claims.
            if devices is not None or not record.shape.claims:
                said.append(NO_CLAIMS if of_pod or devices is None else STILL_HELD)
        if profile.post_filters:
            preemption = self._of_preemption(record, diagnosis)
            if preemption is None:
                return ""
            if preemption:
                said.append(f"preemption: {preemption}")
        return ", ".join(said)

    def _of_preemption(self, record: Record, diagnosis: Diagnosis) -> str | None:
        """None while it is not known; "" where there is nothing that a pod with GPUs needs to know.

        Pods without GPUs get kube-scheduler's whole message.
        """
        plan = self._under_way.get(record.pod.uid)
        if not record.pod.preempts:
            return NEVER
        if record.shape.avoided:
            return REFUSED
        if plan is not None:
            return TERMINATING if plan.was_tried and plan.awaited else None
        return self._of_search(record, diagnosis)

    def _of_search(self, record: Record, diagnosis: Diagnosis) -> str | None:
        nodes, near = diagnosis.nodes, diagnosis.in_reach
        is_above = self._queue.is_above_another(record.pod.uid)
        if record.shape.claims and not (near and is_above):
            return ""  # no pod ranks lower, or none is in the way
        if not near:
            return histogram(nodes, [(NOT_HELPFUL, nodes)])
        if not is_above:
            return histogram(nodes, _present({NO_VICTIMS: near, NOT_HELPFUL: nodes - near}))
        found = self._queue.searched(record)
        return found.text if found is not None and found.nodes == nodes else None


def searched_in_vain(survey: Survey, evaluator: Evaluator) -> tuple[int, str]:
    """The number of nodes, and what is said of each after a search without result.

    No text if some node was not looked at, or would have had room.
    """
    columns = evaluator.tables.columns
    nodes = int(columns.present.sum())
    try:
        near = evaluator.first_in_reach(survey.shape)
    except PluginFailed:
        return nodes, ""
    is_near = np.zeros(columns.rows, np.bool_)
    is_near[near] = True
    counts: Counter[str] = Counter()
    seen = 0
    for name, texts in (survey.refused or {}).items():
        row = columns.row_of.get(name)
        if row is not None and is_near[row] and texts:
            seen += 1
            counts.update(texts)
    missing = len(near) - seen
    if missing and len(near) <= MAX_NODES:
        return nodes, ""
    counts[NOT_HELPFUL], counts[NOT_SEARCHED] = nodes - len(near), missing
    return nodes, histogram(nodes, _present(counts))


def _present(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return [(text, count) for text, count in counts.items() if count]
