"""Pods that are leaving, and victims whose eviction was requested.

A request may be lost or refused, so it is repeated while the plan that needs it is carried out. A
victim that is not being deleted when its plan ends stays, and may be evicted for another plan. But
if some members of a gang have left already, the gang goes whole, because it would be below its
minimum.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kubeshare_py.domain.effects import Evict
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.scheduling.queue.gangs import Gang, Gangs
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.scheduling.queue.pod_table import PodTable
from kubeshare_py.scheduling.queue.timers import Timers

#: A deletion that did not happen is requested again after this time (s).
AGAIN_S = 10.0


@dataclass(slots=True, eq=False)
class _PendingEviction:
    """A requested eviction of a pod that is still there.

    `is_wanted`: its plan still needs it. `answer`: why the last request failed, "" if none did.
    """

    effect: Evict
    is_wanted: Callable[[], bool]
    answer: str = ""


class EvictionsInFlight:
    """Marks records as evicted. `since`: when (s) pods that are leaving or must leave began to."""

    def __init__(self, table: PodTable, gangs: Gangs) -> None:
        self.since: dict[PodUid, float] = {}
        self._table = table
        self._records = table.records
        self._gangs = gangs
        self._asked: dict[PodUid, _PendingEviction] = {}
        self._due: Timers[PodUid] = Timers()

    @property
    def next_at(self) -> float:
        """When a request is due to be repeated or dropped; infinity if there is none."""
        return self._due.next_at

    def ask(self, effect: Evict, is_wanted: Callable[[], bool], now: float) -> None:
        """Request a pod's eviction by this effect."""
        self._asked[effect.uid] = _PendingEviction(effect, is_wanted)
        self._due.add(now + AGAIN_S, effect.uid)
        self.since.setdefault(effect.uid, now)
        self._mark(self._records[effect.uid], evicted=True)

    def failed(self, uid: PodUid, answer: str) -> None:
        """The API server refused a request, or did not confirm it."""
        asked = self._asked.get(uid)
        if asked is not None:
            asked.answer = answer

    def answer_about(self, uid: PodUid) -> str:
        """Why the last request to evict a pod failed; "" if none did."""
        asked = self._asked.get(uid)
        return "" if asked is None else asked.answer

    def seen(self, record: Record, now: float) -> None:
        """Take a pod as the API server shows it."""
        pod = record.pod
        if pod.node_name is not None and pod.deleting:
            self.since.setdefault(pod.uid, now)
            self._asked.pop(pod.uid, None)

    def gone(self, uid: PodUid) -> None:
        """Forget a pod that no longer holds anything."""
        self._asked.pop(uid, None)
        self.since.pop(uid, None)

    def time_passed(self, now: float) -> tuple[list[Evict], list[PodUid]]:
        """Repeat requests that are still wanted; these, and the pods that stay after all."""
        due = [uid for uid in self._due.due(now) if uid in self._asked]
        wanted = {uid for uid in due if self._asked[uid].is_wanted()}
        torn = {gang for gang in map(self._gangs.of, due) if gang and self._is_torn(gang)}
        repeated, staying = [], []
        for uid in due:
            if uid in wanted or self._gangs.of(uid) in torn:
                repeated.append(self._asked[uid].effect)
                self._due.add(now + AGAIN_S, uid)
            else:
                staying.append(uid)
        for uid in staying:
            self.gone(uid)
            self._mark(self._records[uid], evicted=False)
        return repeated, staying

    # --- inside --------------------------------------------------------------------------------

    def _is_torn(self, gang: Gang) -> bool:
        """Whether too few members would be left if all that can stay did."""
        able = [member for uid, member in gang.members.items() if uid in self._asked]
        # The gang does not count members that must leave.
        least = gang.min_member
        if gang.declared is None:
            least = max(least, *(member.min_member for member in able))
        return least > 1 and gang.placed + len(able) + gang.completed < least

    def _mark(self, record: Record, *, evicted: bool) -> None:
        record.evicted = evicted
        self._table.update(record)
