"""Reprieves victims: returns eviction groups, the most important first, while all pods fit.

As in kube-scheduler, which reprieves the victims of a candidate node in this order.
"""

from collections.abc import Sequence

import numpy as np

from kubeshare_py.framework.snapshot import Snapshot
from kubeshare_py.scheduling.preemption.potential_victims import EvictionGroup, PotentialVictims
from kubeshare_py.scheduling.preemption.trial_rows import TrialPlacement, TrialRows
from kubeshare_py.scheduling.queue.gangs import Gang


class Reprieve:
    """Reprieves the eviction groups of one search, on its rows."""

    def __init__(
        self,
        snapshot: Snapshot,
        potential_victims: PotentialVictims,
        trial: TrialRows,
        groups: Sequence[EvictionGroup],
    ) -> None:
        self._ledger, self._evaluators = snapshot.ledger, snapshot.evaluators
        self._potential_victims = potential_victims
        self._trial = trial
        self._units = list(groups)

    def reprieve(self) -> list[EvictionGroup]:
        """Reprieve eviction groups, the most important first; returns those that must go."""
        hopeless = self._hopeless(self._units)
        left = sorted(self._units, key=lambda group: group.importance)
        wholly_gone = {group.gang: None for group in left if group.whole}
        again = True
        while again:
            again = False
            for group in [group for group in left if group.whole or group.gang not in wholly_gone]:
                left.remove(group)
                if group not in hopeless and self._can_stay(group):
                    self._units.remove(group)
                    self._potential_victims.reprieve(group)
                    # Members above its minimum may stay only now.
                    wholly_gone.pop(group.gang, None)
                    again |= group.whole
        for gang in wholly_gone:
            if gang is not None and gang.quorum_met:
                self._reprieve_quorum(gang)
        return self._units

    def _reprieve_quorum(self, gang: Gang) -> None:
        """Let members of a gang that goes whole stay, if its minimum can; any of them."""
        groups = [group for group in self._units if group.gang is gang]
        records = [record for group in groups for record in group.records]
        least = gang.min_member - gang.completed
        singles = sorted(
            (EvictionGroup((record,), gang=gang) for record in records),
            key=lambda group: group.importance,
        )
        if least >= len(singles):
            return
        hopeless = self._hopeless(singles)
        before = self._trial.placements
        staying: list[EvictionGroup] = []
        for number, group in enumerate(singles):
            if len(staying) + len(singles) - number < least or len(hopeless) > len(singles) - least:
                break
            if group not in hopeless and self._can_stay(group):
                staying.append(group)
        if len(staying) < least:
            self._trial.occupy(self._trial.placements, -1)
            self._trial.take_away([group.records[0] for group in staying])
            self._trial.placements = before
            self._trial.occupy(before, 1)
            return
        violations = sum(group.violations for group in groups) - len(staying)
        going = [group for group in singles if group not in staying]
        for group in staying:
            self._potential_victims.reprieve(group)
        for group in going[: max(0, violations)]:
            group.violations = 1
        self._units = [group for group in self._units if group not in groups] + going

    def _hopeless(self, groups: Sequence[EvictionGroup]) -> set[EvictionGroup]:
        """Units that certainly have to go, found in one step, because mostly all of them do.

        Only for plans whose pods have one shape, and for eviction groups on one node.
        """
        trial = self._trial
        kinds = {trial.kind_of(one.record) for one in trial.placements}
        places = {group: trial.positions_of(group.records) for group in groups}
        local = [group for group in groups if len(places[group]) == 1]
        if len(kinds) > 1 or not local:
            return set()
        ((profile, shape),) = kinds
        evaluator = self._evaluators[profile]
        at = [position for group in local for position in places[group]]
        rows, every = trial.rows.take(np.array(at, np.int64)), np.arange(len(at))
        lines: dict[int, list[int]] = {position: [] for position in at}
        for line, one in enumerate(trial.placements):
            lines.setdefault(one.position, []).append(line)
        amounts = trial.amounts(trial.placements)
        for number in range(max(map(len, lines.values()))):
            some = [index for index in every.tolist() if len(lines[at[index]]) > number]
            which = [lines[at[index]][number] for index in some]
            rows.add(np.array(some, np.int64), amounts, np.array(which, np.int64), -1)
        here = [
            [one.pod.uid for one in group.records if trial.positions_of([one])] for group in local
        ]
        rows.add(every, self._ledger.amounts(here), every)
        rows.derive(every)
        elsewhere = int(evaluator.headroom(shape, trial.rows).sum())
        room = evaluator.headroom(shape, rows).tolist()
        return {
            group
            for group, position, most in zip(local, at, room, strict=True)
            if most + elsewhere < len(lines[position])
        }

    def _can_stay(self, group: EvictionGroup) -> bool:
        """Whether all pods still fit with this unit back; if so, it is put back."""
        trial = self._trial
        touched = trial.positions_of(group.records)
        before = trial.placements
        moved = [one for one in before if one.position in touched]
        trial.occupy(moved, -1)
        trial.put_back(group.records)
        trial.placements = [one for one in before if one.position not in touched]
        kept = len(trial.placements)
        if self._reseat(moved):
            return True
        trial.occupy(trial.placements[kept:], -1)
        trial.take_away(group.records)
        trial.placements = before
        trial.occupy(moved, 1)
        return False

    def _reseat(self, moved: Sequence[TrialPlacement]) -> bool:
        for one in moved:
            kind = self._trial.kind_of(one.record)
            left = [one.record]
            self._trial.fill(kind, left, np.array([one.position]))
            if left:
                self._trial.fill(kind, left, self._trial.everywhere)
            if left:
                return False
        return True
