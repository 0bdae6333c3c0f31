"""Gangs after a change: too few members are bound, or their PodGroup was edited."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kubeshare_py.configuration.scheduler import SchedulerConfiguration
from kubeshare_py.domain.effects import Effect, Evict, PodWarning, ReportPodWarning
from kubeshare_py.domain.events import PodGroupEvent
from kubeshare_py.scheduling.enqueue import CALM_S, Enqueuer
from kubeshare_py.scheduling.pod_cycle import BindingCycles
from kubeshare_py.scheduling.queue import pod_records
from kubeshare_py.scheduling.queue.gangs import Gang, MemberRole
from kubeshare_py.scheduling.queue.pod_records import UNDECIDED, Record
from kubeshare_py.scheduling.queue.timers import Alarms, Timers, backoff_s
from kubeshare_py.scheduling.state import State

# Repairs gangs of which some members are bound, but fewer than the minimum.
#
# That happens when Bindings are refused for good, when members are deleted meanwhile, or when a
# scheduler stops in the middle of sending. At first a refused member is sent again to the same
# place. If the gang is still incomplete after its time, refused members are planned anew together
# with waiting ones. If that does not help either, the bound members are evicted, because what they
# hold is of no use.


#: The reason shown by evicted members.
REASON = "GangIncomplete"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairRules:
    """How long a gang may be incomplete (s), and whether its bound members are then evicted."""

    after_s: float = 60.0
    release: bool = True


def repair_rules(configuration: SchedulerConfiguration) -> RepairRules:
    """The rules of a configuration."""
    release = configuration.gang_repair == "release"
    return RepairRules(after_s=configuration.gang_repair_seconds, release=release)


class GangRepair:
    """Watches incomplete gangs, each for its time."""

    def __init__(
        self,
        state: State,
        enqueuer: Enqueuer,
        binding_cycles: BindingCycles,
        rules: RepairRules,
        alarms: Alarms,
    ) -> None:
        self._table, self._gangs = state.table, state.gangs
        self._enqueuer = enqueuer
        self._binding_cycles = binding_cycles
        self._rules = rules
        self._due: Timers[Gang] = Timers(alarms)
        self._evict_again_at: dict[Gang, float] = {}

    def note(self, gang: Gang, now: float) -> None:
        """A gang changed: start its time, let it run on, or stop watching it."""
        if gang.quorum_met or not gang.placed or gang.min_member <= 1:
            gang.repair_at, gang.replanned = None, False
        elif gang.counts[MemberRole.PREBINDING]:
            gang.repair_at = None  # its time begins once all PreBinds have ended
        elif gang.repair_at is None:
            self._set(gang, now)

    def look(self, now: float) -> list[Effect]:
        """Repair the gangs whose time is over."""
        effects: list[Effect] = []
        for gang in self._due.due(now):
            if self._evict_again_at.get(gang, math.inf) <= now:
                del self._evict_again_at[gang]
                still = [one.record for one in gang.members.values() if one.record.evicted]
                effects.extend(self._evict(gang, still, now))
            if gang.repair_at is None or gang.repair_at > now:
                continue
            on_their_way = list(_in(gang, MemberRole.ASSUMED))
            for record in on_their_way:
                if record.is_refused:
                    self._binding_cycles.release(record)
                    effects.extend(self._enqueuer.enqueue(record, now, pod_records.FORCE_ACTIVATE))
                else:
                    record.last_try = True
            if on_their_way and not gang.replanned:
                self._set(gang, now)
                gang.replanned = True
            else:
                effects.extend(self.give_up(gang, now))
        return effects

    def cannot_fit(self, gang: Gang, now: float) -> Sequence[Effect]:
        """Give up a gang that was planned anew, because there is no room for the rest."""
        under_way = gang.counts[MemberRole.PREBINDING] + gang.counts[MemberRole.ASSUMED]
        if gang.replanned and not under_way:
            return self.give_up(gang, now)
        return []

    def give_up(self, gang: Gang, now: float) -> Sequence[Effect]:
        """Evict a gang's bound members, or only report them, because it stays incomplete."""
        bound = list(_in(gang, MemberRole.BOUND))
        if self._rules.release:
            gang.repair_at = None
            self._gangs.touched[gang] = None
            return self._evict(gang, bound, now)
        gang.repair_at = math.inf
        return [
            ReportPodWarning(pod.uid, pod.key, PodWarning.INCOMPLETE, _note(gang))
            for pod in (record.pod for record in bound)
        ]

    def _evict(self, gang: Gang, records: list[Record], now: float) -> list[Evict]:
        """Request evictions, and again later if the pods are still there."""
        note, evictions = _note(gang), []
        for record in records:
            pod = record.pod
            if not pod.deleting:
                evictions.append(Evict(pod.uid, pod.key, REASON, note, PodWarning.INCOMPLETE))
            record.evicted = True
            self._table.update(record)
        if records:
            again_at = self._evict_again_at[gang] = now + self._rules.after_s
            self._due.add(again_at, gang)
        return evictions

    def _set(self, gang: Gang, now: float) -> None:
        gang.repair_at = now + self._rules.after_s
        self._due.add(gang.repair_at, gang)


def _in(gang: Gang, role: MemberRole) -> Iterator[Record]:
    return (member.record for member in gang.members.values() if member.role is role)


def _note(gang: Gang) -> str:
    bound = gang.counts[MemberRole.BOUND]
    return (
        f'pod group "{gang.title}" needs {gang.min_member} pods together, only {bound} could '
        "be bound"
    )


# Changes of PodGroups: the members of their gangs are enqueued anew, some at a time.
#
# The first edit of a PodGroup counts at once. One that follows too soon waits for the end of a
# pause, as an edit of a single waiting pod does (`Enqueuer.edited`): until then no member is in the
# queue, and all return with the PodGroup's content at that time.


#: The most members that leave the queue with one event, or are enqueued anew.
MAX_RENEWED = 250


class GroupEdits:
    """The members that have yet to leave the queue or to be enqueued."""

    def __init__(self, state: State, enqueuer: Enqueuer) -> None:
        self._records, self._gangs = state.records, state.gangs
        self._reservations = state.reservations
        self._enqueuer = enqueuer
        #: Members of pausing gangs, the last in queue order first; and members to be enqueued, the
        #: first in queue order last.
        self._leaving: dict[Gang, list[Record]] = {}
        self._joining: dict[Gang, list[Record]] = {}
        self._pauses: Timers[Gang] = Timers(state.alarms)
        #: Both, to be read: whether members have yet to leave the queue or to be enqueued.
        self.at_once = self._leaving, self._joining

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
        return self.go_on(now, decides=decides) if any(self.at_once) else ()

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
                self._enqueuer.pause(record, pod_records.POD_GROUP_CHANGED)
            self._touch(gang)
        for gang, record in self._some(self._joining, most):
            if self._records.get(record.pod.uid) is record and record.state in UNDECIDED:
                self._reservations.end(record.pod.uid)
                self._gangs.drop(record.pod.uid)
                record.pod = self._gangs.objects.resolved(record.pod)
                effects += self._enqueuer.enqueue(record, now, pod_records.POD_GROUP_CHANGED)
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
