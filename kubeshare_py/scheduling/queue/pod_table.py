"""The pods that the scheduler remembers, and the one place where a pod changes its state.

A change of state is more than the new state: the scheduling queue, the pod's gang, the metrics and
preemption follow it. `PodTable.transition` passes the change on to them, so callers need not.
"""

from collections.abc import Mapping
from typing import Protocol

from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.scheduling.queue import pod_records
from kubeshare_py.scheduling.queue.gangs import Gang, Gangs
from kubeshare_py.scheduling.queue.pod_queue import PodQueue
from kubeshare_py.scheduling.queue.pod_records import PodState, QueueMoves, Record
from kubeshare_py.scheduling.queue.timers import Alarms

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
#: States without a place.
UNPLACED = (
    PodState.NEW,
    PodState.GATED,
    PodState.WAITING,
    PodState.BACKOFF,
    PodState.DELEGATED,
)
#: States of pods that are bound, or wait for PreBind plugins.
BOUND_STATES = (PodState.PREBINDING, PodState.BOUND)
# Every pod passes here four times, and Python 3.11 takes 0.15 us to look up a member of an Enum.
_NEW, _GATED = PodState.NEW, PodState.GATED
_WAITING, _BACKOFF = PodState.WAITING, PodState.BACKOFF


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
        #: When the parts that move pods on have something to do by time alone.
        self.alarms = Alarms()
        self._arrived = 0
        self._followers: list[Follower] = []
        self._of_placements: list[Follower] = []
        self._of_bound: list[Follower] = []

    def follow(self, follower: Follower) -> None:
        """Pass all changes from now on to this follower, too; again, it changes nothing.

        What concerns few pods follows once the first of them comes, so that others pay nothing.
        """
        if follower not in self._followers:
            self._followers.append(follower)

    def follow_placements(self, follower: Follower) -> None:
        """Pass on to this follower only that a pod got a place, and that one is removed."""
        self._of_placements.append(follower)

    def follow_bound(self, follower: Follower) -> None:
        """Pass on to this follower only changes of pods in BOUND_STATES, or that were."""
        self._of_bound.append(follower)

    def add(self, pod: Pod) -> Record:
        """Remember a pod that the scheduler has not seen before; its state is NEW."""
        self._arrived += 1
        record = self.records[pod.uid] = Record(pod, _NEW, self._arrived)
        return record

    def transition(self, record: Record, to: PodState, event: str = "") -> Gang | None:
        """Change the state of a pod; its gang, if it is in one.

        A pod that was WAITING leaves its shape queue of the scheduling queue, also if `to` is
        WAITING again: then the caller adds it anew. `event` names what moved a pod that is GATED or
        in BACKOFF from now on, for the metrics (`QueueMoves`); which queue a WAITING pod enters
        depends on its shape queue, so the caller counts that.

        Raises IllegalTransition, and then nothing has changed.
        """
        before = record.state
        if to not in TRANSITIONS[before]:
            raise IllegalTransition(record, to)
        record.state = to
        if before is _WAITING:
            self._queue.remove(record.pod.uid)
        if before in UNPLACED and to not in UNPLACED:
            for follower in self._of_placements:
                follower.changed(record, before)
        if to in BOUND_STATES or before in BOUND_STATES:
            for follower in self._of_bound:
                follower.changed(record, before)
        if to is _GATED:
            self.moves.entered(pod_records.UNSCHEDULABLE, event)
        elif to is _BACKOFF:
            self.moves.entered(pod_records.BACKOFF, event)
        pod, held = record.pod, record.allocation
        no_group = pod.group is None and pod.group_reference is None
        no_group = no_group and (held is None or held.group is None)
        if no_group and not (self._gangs.by_pod or self._followers):
            return None  # nearly always: nothing depends on it
        return self._notify(record, before)

    def update(self, record: Record) -> None:
        """The pod was changed, or is evicted or not any more, and its state is the same."""
        if record.state in BOUND_STATES:
            for follower in self._of_bound:
                follower.changed(record, record.state)
        self._notify(record, record.state)

    def remove(self, uid: PodUid) -> Record | None:
        """Forget a pod, whatever its state; None if it is not remembered."""
        record = self.records.pop(uid, None)
        if record is not None:
            self._queue.remove(uid)
        if uid in self._gangs.by_pod:
            self._gangs.gone(uid)
        for followers in (self._of_placements, self._of_bound, self._followers):
            for follower in followers:
                follower.removed(uid)
        return record

    def _notify(self, record: Record, before: PodState) -> Gang | None:
        gang, pod, held = None, record.pod, record.allocation
        if (
            pod.group is not None
            or pod.group_reference is not None
            or pod.uid in self._gangs.by_pod
            or (held is not None and held.group is not None)
        ):
            gang = self._gangs.record_member(record)
        for follower in self._followers:
            follower.changed(record, before)
        return gang
