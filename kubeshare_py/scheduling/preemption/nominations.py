"""Nominations of pods: set when a plan begins, and cleared when it ends.

A pod may show a nomination without reason: an earlier scheduler set it, a request arrived late, or
the request that should have cleared it was lost. What the API server shows is what counts.
"""

from collections.abc import Container, Mapping

from kubeshare_py.domain.effects import Nominate
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.preemption import PreemptionPlan
from kubeshare_py.scheduling.queue.pod_records import PodState, Record
from kubeshare_py.scheduling.queue.timers import Timers

#: A nomination that is still shown is cleared again after this time (s).
AGAIN_S = 10.0


class Nominations:
    """Which pods show a nomination, and which have a plan for it."""

    def __init__(self, records: Mapping[PodUid, Record], ours: Container[str]) -> None:
        """`ours` are the schedulerNames of this scheduler."""
        self._records = records
        self._ours = ours
        #: Pods that the API server shows with a nomination, and pods that this scheduler nominated.
        self.shown: set[PodUid] = set()
        self._told: set[PodUid] = set()
        self._planned: set[PodUid] = set()
        self._doubtful: set[PodUid] = set()
        self._again: Timers[PodUid] = Timers()

    @property
    def is_due(self) -> bool:
        """Whether some nominations may have no plan behind them."""
        return bool(self._doubtful)

    @property
    def next_at(self) -> float:
        """When to check again; infinity if there is nothing to check."""
        return self._again.next_at

    def seen(self, record: Record) -> None:
        """Take a pod as the API server shows it."""
        pod = record.pod
        if not pod.nominated:
            self.shown.discard(pod.uid)
        elif pod.uid not in self.shown and pod.scheduler_name in self._ours:
            self.shown.add(pod.uid)
            self._doubtful.add(pod.uid)

    def gone(self, uid: PodUid) -> None:
        """Forget a pod."""
        for pods in (self.shown, self._told, self._planned, self._doubtful):
            pods.discard(uid)

    def begin(self, plan: PreemptionPlan) -> list[Nominate]:
        """Nominate all pods that get a place in the plan."""
        uids = [place.uid for place in plan.nominations]
        self._planned.update(uids)
        self._told.update(uids)
        return [
            Nominate(place.uid, place.key, place.node, tuple(dict.fromkeys(place.cards)))
            for place in plan.nominations
        ]

    def keep(self, plan: PreemptionPlan) -> None:
        """Keep the places of a plan that ended after all."""
        self._planned.update(place.uid for place in plan.nominations)

    def end(self, plan: PreemptionPlan) -> None:
        """Record that the plan ended: its pods have their places, or will not get them."""
        uids = {place.uid for place in plan.nominations}
        self._planned -= uids
        self._doubtful |= uids & (self.shown | self._told)

    def time_passed(self, now: float) -> None:
        """Check again nominations that should have been cleared."""
        self._doubtful.update(self._again.due(now))

    def take_back(self, now: float) -> list[Nominate]:
        """Clear nominations without a plan. Mostly the Binding has cleared them already."""
        cleared = []
        for uid in sorted(self._doubtful - self._planned):
            record = self._records.get(uid)
            if record is None or not (uid in self.shown or uid in self._told):
                continue
            if record.node is None or record.state is PodState.BOUND:
                self._told.discard(uid)
            if record.node is None or (record.state is PodState.BOUND and uid in self.shown):
                cleared.append(Nominate(uid, record.pod.key, None))
            self._again.add(now + AGAIN_S, uid)
        self._doubtful.clear()
        return cleared
