"""What pods say of places that are kept for them: told when a plan begins, taken back when it ends.

A pod may say so for no reason: a scheduler before this one told it, a request arrived late, or
the one that was to take it back did not arrive at all. What the API server shows is what counts.
"""

from collections.abc import Container, Mapping

from kubeshare_py.domain.effects import Effect, Nominate
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.preemption import PreemptionPlan
from kubeshare_py.scheduling.queue.pod_records import Record, State
from kubeshare_py.scheduling.queue.timers import Timers

#: What is still shown is taken back again after this time (s).
AGAIN_S = 10.0


class Nominations:
    """Holds who says that it is nominated, and who has reason to."""

    def __init__(self, records: Mapping[PodUid, Record], ours: Container[str]) -> None:
        """`ours` are the names under which pods ask for this scheduler."""
        self._records = records
        self._ours = ours
        #: Pods that the API server shows with a nomination, and pods that were told of one.
        self.shown: set[PodUid] = set()
        self._told: set[PodUid] = set()
        self._planned: set[PodUid] = set()
        self._doubtful: set[PodUid] = set()
        self._again: Timers[PodUid] = Timers()

    @property
    def is_due(self) -> bool:
        """Whether there are some that no plan may stand behind."""
        return bool(self._doubtful)

    @property
    def next_at(self) -> float:
        """When to look again; infinity when there is nothing to look at."""
        return self._again.next_at

    def seen(self, record: Record) -> None:
        """What the API server shows of a pod."""
        pod = record.pod
        if not pod.nominated:
            self.shown.discard(pod.uid)
        elif pod.uid not in self.shown and pod.scheduler_name in self._ours:
            self.shown.add(pod.uid)
            self._doubtful.add(pod.uid)

    def gone(self, uid: PodUid) -> None:
        """The pod is not there any more."""
        for pods in (self.shown, self._told, self._planned, self._doubtful):
            pods.discard(uid)

    def begin(self, plan: PreemptionPlan, effects: list[Effect]) -> None:
        """Tell all who get a place."""
        uids = [seat.uid for seat in plan.seats]
        self._planned.update(uids)
        self._told.update(uids)
        effects += [Nominate(seat.uid, seat.key, seat.node, seat.cards) for seat in plan.seats]

    def keep(self, plan: PreemptionPlan) -> None:
        """The places of a plan that ended are kept after all."""
        self._planned.update(seat.uid for seat in plan.seats)

    def end(self, plan: PreemptionPlan) -> None:
        """They have their places, or will not get them."""
        uids = {seat.uid for seat in plan.seats}
        self._planned -= uids
        self._doubtful |= uids & (self.shown | self._told)

    def time_passed(self, now: float) -> None:
        """What was to be taken back may still be there."""
        self._doubtful.update(self._again.due(now))

    def take_back(self, now: float, effects: list[Effect]) -> None:
        """Those that no plan stands behind. The Binding takes them back by itself, mostly."""
        for uid in sorted(self._doubtful - self._planned):
            record = self._records.get(uid)
            if record is None or not (uid in self.shown or uid in self._told):
                continue
            if record.node is None or record.state is State.BOUND:
                self._told.discard(uid)
            if record.node is None or (record.state is State.BOUND and uid in self.shown):
                effects.append(Nominate(uid, record.pod.key, None))
            self._again.add(now + AGAIN_S, uid)
        self._doubtful.clear()
