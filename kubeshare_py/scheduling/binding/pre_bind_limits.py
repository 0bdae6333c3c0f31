"""How many placements may wait for PreBind plugins, and the pods that are held until more may.

Each such placement keeps its place charged, perhaps for minutes, so that a class of volumes that
never answers would fill the cluster.
"""

import math
from collections import Counter
from collections.abc import Iterable

from kubeshare_py.domain.identity import PodUid
from kubeshare_py.scheduling.queue.pod_queue import SortKey
from kubeshare_py.scheduling.queue.pod_records import Record

#: The most placements of one namespace, and of all, that wait for PreBind plugins.
MAX_OF_NAMESPACE, MAX_IN_ALL = 100, 1000
#: Held pods enter the queue at most this often (s): some of those before may not find a place.
RELEASE_EVERY_S = 1.0

#: A pod, or the members of a gang, in the order in which they were held. Never empty.
_HeldPods = dict[PodUid, Record]


class PreBindLimits:
    """Counts placements by namespace, and keeps the held pods."""

    def __init__(self, of_namespace: int = MAX_OF_NAMESPACE, in_all: int = MAX_IN_ALL) -> None:
        """The most placements of one namespace, and of all."""
        self._most, self._most_in_all = of_namespace, in_all
        self._counts: Counter[str] = Counter()
        self._total = 0
        #: What is held, by namespace: the next one to release first. No list is empty.
        self._held: dict[str, list[_HeldPods]] = {}
        self._by_uid: dict[PodUid, tuple[str, _HeldPods]] = {}
        self._rests_until = -math.inf
        #: Whether something held may be released, as far as is known.
        self._may_release = False

    @property
    def next_at(self) -> float:
        """When (s) held pods may enter the queue; infinity if none may."""
        return self._rests_until if self._may_release else math.inf

    def may_begin(self, namespace: str, count: int, *, is_known: bool) -> bool:
        """Whether so many placements of one pod or gang may begin to wait.

        A gang that is larger than the limit may if no other pod of its namespace waits. Not
        `is_known`: the pod or gang was not held before, and goes behind those that are.
        """
        if namespace in self._held and not is_known:
            return False
        return self._has_room(self._counts[namespace], self._total, count)

    def reason(self, namespace: str) -> str:
        """Why pods of this namespace are held."""
        if self._total >= self._most_in_all and self._counts[namespace] < self._most:
            return f"{self._most_in_all} pods wait for PreBind plugins, the most at a time"
        return f"{self._most} pods of its namespace wait for PreBind plugins, the most at a time"

    def began(self, namespace: str) -> None:
        """A placement begins to wait."""
        self._counts[namespace] += 1
        self._total += 1

    def ended(self, namespace: str) -> None:
        """A placement does not wait any more."""
        self._counts[namespace] -= 1
        self._total -= 1
        if not self._counts[namespace]:
            del self._counts[namespace]
        self._may_release = bool(self._held)

    def hold(self, records: Iterable[Record]) -> None:
        """Keep a pod, or a gang's members, which are gated, until their placements may wait."""
        held = {record.pod.uid: record for record in records}
        namespace = next(iter(held.values())).pod.key.namespace
        self._held.setdefault(namespace, []).append(held)
        for uid, record in held.items():
            record.is_held = True
            self._by_uid[uid] = namespace, held
        self._may_release = True

    def release(self, now: float) -> list[Record]:
        """Pods that may enter the queue now: as many as may wait, by their namespaces in turn.

        Within a namespace none overtakes another that sorts before it.
        """
        if now < self.next_at:
            return []
        self._rests_until = now + RELEASE_EVERY_S
        released: list[Record] = []
        for namespace in list(self._held):
            waiting = sorted(self._held.pop(namespace), key=_key)
            own = self._counts[namespace]
            while waiting and self._has_room(own, self._total + len(released), len(waiting[0])):
                held = waiting.pop(0)
                own += len(held)
                for uid, record in held.items():
                    record.is_held = False
                    del self._by_uid[uid]
                released += held.values()
            if waiting:  # behind the other namespaces
                self._held[namespace] = waiting
        self._may_release = any(
            self._has_room(self._counts[namespace], self._total, min(map(len, waiting)))
            for namespace, waiting in self._held.items()
        )
        return released

    def forget(self, uid: PodUid) -> None:
        """A pod is not held any more, because it changed or is gone."""
        if uid not in self._by_uid:
            return
        namespace, held = self._by_uid.pop(uid)
        held.pop(uid).is_held = False
        if not held:
            self._held[namespace] = [one for one in self._held[namespace] if one]
            if not self._held[namespace]:
                del self._held[namespace]
        self._may_release = bool(self._held)

    def _has_room(self, own: int, in_all: int, count: int) -> bool:
        """Whether `count` more may wait beside `own` of their namespace, and so many in all."""
        if in_all >= self._most_in_all:
            return False
        return not own or (own + count <= self._most and in_all + count <= self._most_in_all)


def _key(held: _HeldPods) -> tuple[SortKey, int]:
    return min((record.key, record.arrived) for record in held.values())
