"""Changes of PodGroups: the members of their gangs are enqueued anew, some at a time.

The first edit of a PodGroup counts at once. One that follows too soon waits for the end of a pause,
as an edit of a single waiting pod does (`Enqueuer.edited`): until then no member is in the queue,
and all return with the PodGroup's content at that time.
"""

import math
from collections.abc import Mapping, Sequence

from kubeshare_py.domain.effects import Effect
from kubeshare_py.domain.events import PodGroupEvent
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.scheduling.binding.enqueue import CALM_S, Enqueuer
from kubeshare_py.scheduling.queue import queue_moves
from kubeshare_py.scheduling.queue.gangs import Gang, Gangs
from kubeshare_py.scheduling.queue.pod_records import UNDECIDED, Record
from kubeshare_py.scheduling.queue.reservations import Reservations
from kubeshare_py.scheduling.queue.timers import Timers, backoff_s

#: The most members that leave the queue with one event, or are enqueued anew.
MAX_RENEWED = 250


class GroupEdits:
    """The members that have yet to leave the queue or to be enqueued."""

    def __init__(
        self,
        records: Mapping[PodUid, Record],
        gangs: Gangs,
        reservations: Reservations,
        enqueuer: Enqueuer,
    ) -> None:
        self._records = records
        self._gangs = gangs
        self._reservations = reservations
        self._enqueuer = enqueuer
        #: Members of pausing gangs, the last in queue order first; and members to be enqueued, the
        #: first in queue order last.
        self._leaving: dict[Gang, list[Record]] = {}
        self._joining: dict[Gang, list[Record]] = {}
        self._pauses: Timers[Gang] = Timers()

    @property
    def next_at(self) -> float:
        """When (s) the next pause ends; infinity if there is none."""
        return self._pauses.next_at

    @property
    def unsettled(self) -> bool:
        """Whether members have yet to leave the queue or to be enqueued."""
        return bool(self._leaving or self._joining)

    def seen(self, event: PodGroupEvent, now: float, *, decides: bool) -> list[Effect]:
        """PodGroups were created, changed or deleted; `decides`: see `go_on`."""
        for key in self._gangs.objects.change(event):
            gang = self._gangs.declare(key, self._gangs.objects.min_member(key))
            if gang is not None:
                self._changed(gang, now)
        return self.go_on(now, decides=decides)

    def look(self, now: float, *, decides: bool = True) -> Sequence[Effect]:
        """Bring gangs back whose pause is over, as many as one event may."""
        for gang in self._pauses.due(now):
            if gang.pauses and now >= gang.edits_rest_until:
                self._take_in(gang, now)
        return self.go_on(now, decides=decides) if self.unsettled else ()

    def go_on(self, now: float, *, decides: bool) -> list[Effect]:
        """Let some members leave the queue, and enqueue some, in queue order.

        All of them while this scheduler does not decide: when it begins to, it finds all waiting
        pods, and delays no other pod until then.
        """
        effects: list[Effect] = []
        most = MAX_RENEWED if decides else math.inf
        for gang, record in self._some(self._leaving, most):
            if self._records.get(record.pod.uid) is record and record.state in UNDECIDED:
                self._reservations.end(record.pod.uid)
                self._enqueuer.pause(record, queue_moves.POD_GROUP_CHANGED)
            self._touch(gang)
        for gang, record in self._some(self._joining, most):
            if self._records.get(record.pod.uid) is record and record.state in UNDECIDED:
                self._reservations.end(record.pod.uid)
                self._gangs.drop(record.pod.uid)
                record.pod = self._gangs.objects.resolved(record.pod)
                effects += self._enqueuer.enqueue(record, now, queue_moves.POD_GROUP_CHANGED)
            self._touch(gang)
        return effects

    # --- inside --------------------------------------------------------------------------------

    def _changed(self, gang: Gang, now: float) -> None:
        """The PodGroup of this gang was created, changed or deleted."""
        if gang.pauses:
            return  # its members return with the PodGroup's content of that time
        if now >= gang.edits_rest_until:
            self._take_in(gang, now)
            return
        gang.pauses = gang.is_divided = True
        self._joining.pop(gang, None)
        self._leaving[gang] = self._undecided(gang)
        self._pauses.add(gang.edits_rest_until, gang)

    @staticmethod
    def _some(work: dict[Gang, list[Record]], most: float) -> list[tuple[Gang, Record]]:
        """Remove and return at most `most` members; gangs without further ones are whole."""
        taken: list[tuple[Gang, Record]] = []
        while work and len(taken) < most:
            gang, members = next(iter(work.items()))
            least = int(max(0, len(members) - (most - len(taken))))
            taken.extend((gang, record) for record in reversed(members[least:]))
            del members[least:]
            if not members:
                del work[gang]
                gang.is_divided = False
        return taken

    def _take_in(self, gang: Gang, now: float) -> None:
        """Enqueue the members by the present PodGroup."""
        if now >= gang.edits_rest_until + CALM_S:
            gang.edits = 0
        gang.edits += 1
        gang.edits_rest_until = now + backoff_s(gang.edits)
        gang.pauses = False
        self._leaving.pop(gang, None)
        members = self._undecided(gang)
        members.reverse()
        self._joining[gang] = members
        gang.is_divided = True
        if len(members) > MAX_RENEWED:
            # Each joins the updated gang: all at once would take long.
            gang.update()
            gang.queued_by = None if gang.needs_quorum else gang.first
            gang.diagnosis = None

    def _undecided(self, gang: Gang) -> list[Record]:
        """Members without a place, by priority and arrival."""
        found = [one.record for one in gang.members.values() if one.record.state in UNDECIDED]
        found.sort(key=lambda one: (-one.pod.priority, -one.pod.label_priority, one.arrived))
        return found

    def _touch(self, gang: Gang) -> None:
        if gang.members:  # otherwise it may be dropped already
            self._gangs.touched[gang] = None
