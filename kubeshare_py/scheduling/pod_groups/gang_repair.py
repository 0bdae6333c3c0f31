"""Repairs gangs of which some members are bound, but fewer than the minimum.

That happens when Bindings are refused for good, when members are deleted meanwhile, or when a
scheduler stops in the middle of sending. At first a refused member is sent again to the same place.
If the gang is still incomplete after its time, refused members are planned anew together with
waiting ones. If that does not help either, the bound members are evicted, because what they hold is
of no use.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kubeshare_py.configuration.scheduler import SchedulerConfiguration
from kubeshare_py.domain.effects import Effect, Evict, PodWarning, ReportPodWarning
from kubeshare_py.scheduling.binding.binding_cycle import BindingCycles
from kubeshare_py.scheduling.binding.enqueue import Enqueuer
from kubeshare_py.scheduling.queue import queue_moves
from kubeshare_py.scheduling.queue.gangs import Gang, Gangs, MemberRole
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.scheduling.queue.pod_table import PodTable
from kubeshare_py.scheduling.queue.timers import Timers

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
        table: PodTable,
        gangs: Gangs,
        enqueuer: Enqueuer,
        binding_cycles: BindingCycles,
        rules: RepairRules,
    ) -> None:
        self._table = table
        self._gangs = gangs
        self._enqueuer = enqueuer
        self._binding_cycles = binding_cycles
        self._rules = rules
        self._due: Timers[Gang] = Timers()
        self._evict_again_at: dict[Gang, float] = {}

    @property
    def next_at(self) -> float:
        """When the next gang's time is over; infinity if none is watched."""
        return self._due.next_at

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
                if record.refused:
                    self._binding_cycles.release(record)
                    effects.extend(self._enqueuer.enqueue(record, now, queue_moves.FORCE_ACTIVATE))
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
