"""Pods that were deleted by force: their cards are held while a kubelet may let containers run on.

A bound pod whose object vanishes before it was seen to stop lingers for the rest of its grace
period, at most for a configured time. What a kubelet does meanwhile: `manifests.pods.pod_end`. A
pod that a kubelet shows as finished, or whose deletion is older than its grace period, never
lingers. A pod without any status of a kubelet may linger too, because containers are started before
their first status is written. Only this process knows of it: one that starts later finds the pod
gone, and its cards free.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.effects import Lingers
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.scheduling.queue import queue_moves
from kubeshare_py.scheduling.queue.pod_records import PodState, Record
from kubeshare_py.scheduling.queue.queue_moves import QueueMoves
from kubeshare_py.scheduling.queue.timers import Timers


@dataclass(frozen=True, slots=True)
class LingeringPod:
    """A pod that is gone, as last known, and until when (s) it lingers."""

    record: Record
    until: float

    @property
    def key(self) -> PodKey:
        """Its namespace and name."""
        return self.record.pod.key


class LingeringPods:
    """The lingering pods; the ledger has their charges. `most_s`: the longest time (s); 0: none."""

    def __init__(self, ledger: Ledger, moves: QueueMoves, most_s: float) -> None:
        self._ledger = ledger
        self._moves = moves
        self._most_s = most_s
        self._pods: dict[PodUid, LingeringPod] = {}
        self._due: Timers[PodUid] = Timers()

    @property
    def next_at(self) -> float:
        """When (s) the next one's time is over; infinity if there is none."""
        return self._due.next_at

    def __len__(self) -> int:
        return sum(1 for _ in self.pods())

    def pods(self) -> Iterator[LingeringPod]:
        """The lingering pods, in the order in which they vanished."""
        return (one for uid, one in self._pods.items() if uid in self._ledger.lingering)

    def of(self, uid: PodUid) -> LingeringPod | None:
        """This pod, None if it does not linger."""
        return self._pods.get(uid)

    def on(self, node: NodeName) -> list[LingeringPod]:
        """The lingering pods of a node; what claims hold there is no pod's."""
        here = self._ledger.lingering_on(node)
        return [one for uid in here if (one := self._pods.get(uid)) is not None]

    def until(self, record: Record, now: float) -> float:
        """Until when (s) this pod would linger if it vanished now; at most `now` if not."""
        if record.stopped or record.node is None:
            return now
        end = now + record.pod.grace_s if record.leaves_by is None else record.leaves_by
        return min(end, now + self._most_s)

    def begin(self, record: Record, until: float, now: float) -> Lingers:
        """The pod vanished; the ledger keeps its charge as that of a lingering pod."""
        pod, node = record.pod, record.node
        assert node is not None
        self._pods[pod.uid] = LingeringPod(replace(record), until)
        self._due.add(until, pod.uid)
        cards = record.allocation.cards if record.allocation is not None else ()
        uuids = tuple(card.uuid for card in cards)
        return Lingers(pod.uid, pod.key, node, uuids, until - now)

    def end(self, uid: PodUid) -> bool:
        """End a pod's lingering; whether it lingered until now."""
        if self._pods.pop(uid, None) is None:
            return False
        self._moves.improved_by = queue_moves.ASSIGNED_POD_DELETE
        self._ledger.end_lingering(uid)
        return True

    def time_passed(self, now: float) -> list[PodUid]:
        """End what is over; the pods."""
        return [
            uid
            for uid in self._due.due(now)
            if (one := self._pods.get(uid)) is not None and one.until <= now and self.end(uid)
        ]


def deletion_seen(record: Record, now: float) -> None:
    """Record when a deleted pod's grace period will be over."""
    pod = record.pod
    if pod.deleting and record.leaves_by is None:
        record.leaves_by = now + pod.grace_s
    record.stopped |= pod.stopped


def may_linger(record: Record, *, missing: bool) -> bool:
    """Whether a kubelet may know of it; `missing`: a list does not have it.

    A pod with an unanswered Binding was bound, if at all, while this scheduler did not watch.
    """
    return record.state in (PodState.BOUND, PodState.UNCONFIRMED) or (
        missing and record.state is PodState.ASSUMED
    )
