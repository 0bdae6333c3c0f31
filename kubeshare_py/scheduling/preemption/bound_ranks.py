"""How important the least important bound pod is, known at any time without looking at all pods."""

from collections import Counter

from kubeshare_py.domain.identity import PodUid
from kubeshare_py.scheduling.preemption.evictable import is_leaving
from kubeshare_py.scheduling.queue.pod_records import Record, State

#: spec.priority, and whether `sharedgpu/priority` is above 0.
Rank = tuple[int, bool]


class BoundRanks:
    """Counts bound pods that stay by rank; to be told of each pod that may have changed."""

    def __init__(self) -> None:
        self._of: dict[PodUid, Rank] = {}
        self._counts: Counter[Rank] = Counter()

    def note(self, record: Record) -> None:
        """What has become of a pod."""
        pod = record.pod
        stays = record.state is State.BOUND and not is_leaving(record)
        rank = (pod.priority, pod.label_priority > 0) if stays else None
        if self._of.get(pod.uid) == rank:
            return
        self.gone(pod.uid)
        if rank is not None:
            self._of[pod.uid] = rank
            self._counts[rank] += 1

    def gone(self, uid: PodUid) -> None:
        """The pod is not there any more, if it ever was."""
        rank = self._of.pop(uid, None)
        if rank is not None:
            self._counts[rank] -= 1
            if not self._counts[rank]:
                del self._counts[rank]

    def lowest(self) -> Rank | None:
        """The least of all; None if nobody is bound. In proportion to the ranks there are."""
        return min(self._counts, default=None)
