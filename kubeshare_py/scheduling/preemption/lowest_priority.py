"""The lowest rank of all pods that may be victims, known without looking at all pods."""

from collections import Counter

from kubeshare_py.domain.identity import PodUid
from kubeshare_py.scheduling.preemption.potential_victims import is_leaving
from kubeshare_py.scheduling.queue.pod_records import PodState, Record

#: spec.priority, and whether `sharedgpu/priority` is above 0.
Rank = tuple[int, bool]
_COUNTED = (PodState.PREBINDING, PodState.BOUND)


class LowestPriority:
    """Counts pods that may be victims and are not leaving, by rank; follows the table of pods.

    They are bound, or wait for PreBind plugins.
    """

    def __init__(self) -> None:
        self._of: dict[PodUid, Rank] = {}
        self._counts: Counter[Rank] = Counter()

    def changed(self, record: Record, before: PodState) -> None:
        """Count a pod that is bound or prebinding, or was."""
        if record.state not in _COUNTED and before not in _COUNTED:
            return
        pod = record.pod
        stays = record.state in _COUNTED and not is_leaving(record)
        rank = (pod.priority, pod.label_priority > 0) if stays else None
        if self._of.get(pod.uid) == rank:
            return
        self.removed(pod.uid)
        if rank is not None:
            self._of[pod.uid] = rank
            self._counts[rank] += 1

    def removed(self, uid: PodUid) -> None:
        """Forget a pod, which may be unknown."""
        rank = self._of.pop(uid, None)
        if rank is not None:
            self._counts[rank] -= 1
            if not self._counts[rank]:
                del self._counts[rank]

    def lowest(self) -> Rank | None:
        """The lowest rank; None if no pod is bound.

        Takes time in proportion to the number of ranks.
        """
        return min(self._counts, default=None)
