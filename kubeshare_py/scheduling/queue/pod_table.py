"""The pods that the scheduler remembers, and the one place where a pod changes its state.

A change of state is more than the new state: the scheduling queue, the pod's gang, the metrics and
preemption follow it. `PodTable.transition` passes the change on to them, so callers need not.
"""

from collections.abc import Mapping
from itertools import count
from typing import Protocol

from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.scheduling.queue import queue_moves
from kubeshare_py.scheduling.queue.gangs import Gang, Gangs
from kubeshare_py.scheduling.queue.pod_queue import PodQueue
from kubeshare_py.scheduling.queue.pod_records import PodState, Record
from kubeshare_py.scheduling.queue.queue_moves import QueueMoves

#: The states that a pod may change to, by the state that it is in: the table of
#: docs/developers/internals.md.
TRANSITIONS: Mapping[PodState, tuple[PodState, ...]] = {
    PodState.NEW: (
        PodState.GATED,
        PodState.WAITING,
        PodState.BACKOFF,
        PodState.DELEGATED,
        PodState.BOUND,
    ),
    PodState.GATED: (PodState.GATED, PodState.WAITING, PodState.BACKOFF, PodState.BOUND),
    PodState.WAITING: (
        PodState.GATED,
        PodState.WAITING,
        PodState.BACKOFF,
        PodState.PREBINDING,
        PodState.ASSUMED,
        PodState.BOUND,
    ),
    PodState.BACKOFF: (PodState.GATED, PodState.WAITING, PodState.BACKOFF, PodState.BOUND),
    PodState.DELEGATED: (
        PodState.DELEGATED,
        PodState.PREBINDING,
        PodState.ASSUMED,
        PodState.BOUND,
    ),
    PodState.PREBINDING: (
        PodState.GATED,
        PodState.WAITING,
        PodState.BACKOFF,
        PodState.DELEGATED,
        PodState.ASSUMED,
        PodState.BOUND,
    ),
    PodState.ASSUMED: (
        PodState.GATED,
        PodState.WAITING,
        PodState.BACKOFF,
        PodState.DELEGATED,
        PodState.UNCONFIRMED,
        PodState.BOUND,
    ),
    PodState.UNCONFIRMED: (PodState.BACKOFF, PodState.DELEGATED, PodState.BOUND),
    PodState.BOUND: (PodState.BOUND,),
}
# Every pod passes here four times, and Python 3.11 takes 0.15 us to look up a member of an Enum.
_GATED, _WAITING, _BACKOFF = PodState.GATED, PodState.WAITING, PodState.BACKOFF


class IllegalTransition(Exception):
    """A pod was to change to a state that `TRANSITIONS` does not allow: a bug."""

    def __init__(self, record: Record, to: PodState) -> None:
        before = record.state.name.lower()
        super().__init__(f"{record.pod.key}: {before} -> {to.name.lower()}")


class Follower(Protocol):
    """What keeps something that depends on the state of each pod."""

    def changed(self, record: Record, before: PodState) -> None:
        """The pod was in the state `before`, or is in it still and was changed otherwise."""

    def removed(self, uid: PodUid) -> None:
        """The pod is not remembered any more; it may never have been."""


class PodTable:
    """Owns the records of pods. It passes each change on to queue and gangs, then to followers."""

    def __init__(self, queue: PodQueue, gangs: Gangs, moves: QueueMoves) -> None:
        #: By uid, in the order in which they were added. To be read only.
        self.records: dict[PodUid, Record] = {}
        self._queue = queue
        self._gangs = gangs
        self.moves = moves
        self._arrivals = count(1)
        self._followers: list[Follower] = []

    def follow(self, follower: Follower) -> None:
        """Pass all changes from now on to this follower, too."""
        self._followers.append(follower)

    def add(self, pod: Pod) -> Record:
        """Remember a pod that the scheduler has not seen before; its state is NEW."""
        record = self.records[pod.uid] = Record(pod, PodState.NEW, next(self._arrivals))
        return record

    def transition(self, record: Record, to: PodState, event: str = "") -> Gang | None:
        """Change the state of a pod; its gang, if it is in one.

        A pod that was WAITING leaves its shape queue of the scheduling queue, also if `to` is
        WAITING again: then the caller adds it anew. `event` names what moved a pod that is GATED or
        in BACKOFF from now on, for the metrics (`queue_moves`); which queue a WAITING pod enters
        depends on its shape queue, so the caller counts that.

        Raises IllegalTransition, and then nothing has changed.
        """
        before = record.state
        if to not in TRANSITIONS[before]:
            raise IllegalTransition(record, to)
        record.state = to
        if before is _WAITING:
            self._queue.remove(record.pod.uid)
        if to is _GATED:
            self.moves.entered(queue_moves.UNSCHEDULABLE, event)
        elif to is _BACKOFF:
            self.moves.entered(queue_moves.BACKOFF, event)
        return self._notify(record, before)

    def update(self, record: Record) -> None:
        """The pod was changed, or is evicted or not any more, and its state is the same."""
        self._notify(record, record.state)

    def remove(self, uid: PodUid) -> Record | None:
        """Forget a pod, whatever its state; None if it is not remembered."""
        record = self.records.pop(uid, None)
        if record is not None:
            self._queue.remove(uid)
        self._gangs.gone(uid)
        for follower in self._followers:
            follower.removed(uid)
        return record

    def _notify(self, record: Record, before: PodState) -> Gang | None:
        gang = self._gangs.file(record)
        for follower in self._followers:
            follower.changed(record, before)
        return gang
