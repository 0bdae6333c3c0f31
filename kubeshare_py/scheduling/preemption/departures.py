"""Pods that leave, and pods that were asked to: again until they do, or until nobody needs it.

A request to go may be lost or refused. It is sent again while the plan that wants it is carried
out. Who is not on his way when that plan is over stays, and is one of those that may be evicted
again; but a gang of which some have left already goes whole, or it would be below its minimum.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kubeshare_py.domain.effects import Effect, Evict
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.scheduling.preemption.bound_ranks import BoundRanks
from kubeshare_py.scheduling.queue.gangs import Gang, Gangs
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.scheduling.queue.timers import Timers

#: A deletion that did not happen is asked for again after this time (s).
AGAIN_S = 10.0


@dataclass(slots=True, eq=False)
class _Asked:
    """A pod that does not leave yet. `is_wanted`: whether its plan is still carried out."""

    effect: Evict
    is_wanted: Callable[[], bool]


class Departures:
    """Marks records as evicted. `since`: pods that leave, or are to, and from when (s)."""

    def __init__(self, records: Mapping[PodUid, Record], gangs: Gangs, ranks: BoundRanks) -> None:
        self.since: dict[PodUid, float] = {}
        self._records = records
        self._gangs = gangs
        self._ranks = ranks
        self._asked: dict[PodUid, _Asked] = {}
        self._due: Timers[PodUid] = Timers()

    @property
    def next_at(self) -> float:
        """When somebody is asked again, or stays; infinity when nobody was asked."""
        return self._due.next_at

    def ask(self, effect: Evict, is_wanted: Callable[[], bool], now: float) -> None:
        """A pod is asked to go by this effect."""
        self._asked[effect.uid] = _Asked(effect, is_wanted)
        self._due.add(now + AGAIN_S, effect.uid)
        self.since.setdefault(effect.uid, now)
        self._mark(self._records[effect.uid], evicted=True)

    def seen(self, record: Record, now: float) -> None:
        """What the API server shows of a pod."""
        pod = record.pod
        if pod.node_name is not None and pod.deleting:
            self.since.setdefault(pod.uid, now)
            self._asked.pop(pod.uid, None)

    def gone(self, uid: PodUid) -> bool:
        """The pod holds nothing any more; whether it was expected to go."""
        self._asked.pop(uid, None)
        return self.since.pop(uid, None) is not None

    def time_passed(self, now: float, effects: list[Effect]) -> list[PodUid]:
        """Ask again whoever is still to go; the others, who stay after all."""
        due = [uid for uid in self._due.due(now) if uid in self._asked]
        wanted = {uid for uid in due if self._asked[uid].is_wanted()}
        torn = {gang for gang in map(self._gangs.of, due) if gang and self._is_torn(gang)}
        staying = []
        for uid in due:
            if uid in wanted or self._gangs.of(uid) in torn:
                effects.append(self._asked[uid].effect)
                self._due.add(now + AGAIN_S, uid)
            else:
                staying.append(uid)
        for uid in staying:
            self.gone(uid)
            self._mark(self._records[uid], evicted=False)
        return staying

    # --- inside --------------------------------------------------------------------------------

    def _is_torn(self, gang: Gang) -> bool:
        """Whether too few would be left if all stayed that could."""
        able = [member for uid, member in gang.members.items() if uid in self._asked]
        # Of those that are to go the gang itself takes no account.
        least = gang.minimum
        if gang.declared is None:
            least = max(least, *(member.minimum for member in able))
        return least > 1 and gang.placed + len(able) + gang.completed < least

    def _mark(self, record: Record, *, evicted: bool) -> None:
        record.evicted = evicted
        self._ranks.note(record)
        self._gangs.file(record)
