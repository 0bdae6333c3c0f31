"""Reprieves victims: returns units to their places, the most important first, while all pods fit.

As in kube-scheduler, which reprieves the victims of a candidate node in this order.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.framework.asks import Asker
from kubeshare_py.scheduling.preemption.evictable import Evictable, Unit
from kubeshare_py.scheduling.preemption.trial_rows import Seated, TrialRows
from kubeshare_py.scheduling.queue.gangs import Gang


class Sparing:
    """Reprieves the units of one search, on its rows."""

    def __init__(
        self,
        ledger: Ledger,
        askers: Mapping[str, Asker],
        evictable: Evictable,
        trial: TrialRows,
        units: Sequence[Unit],
    ) -> None:
        self._ledger = ledger
        self._askers = askers
        self._evictable = evictable
        self._trial = trial
        self._units = list(units)

    def spare(self) -> list[Unit]:
        """Let units stay that need not go, the most important first; the units that must go."""
        hopeless = self._hopeless(self._units)
        left = sorted(self._units, key=lambda unit: unit.importance)
        wholly_gone = {unit.gang: None for unit in left if unit.whole}
        again = True
        while again:
            again = False
            for unit in [unit for unit in left if unit.whole or unit.gang not in wholly_gone]:
                left.remove(unit)
                if unit not in hopeless and self._can_stay(unit):
                    self._units.remove(unit)
                    self._evictable.spare(unit)
                    # Members above its minimum may stay only now.
                    wholly_gone.pop(unit.gang, None)
                    again |= unit.whole
        for gang in wholly_gone:
            if gang is not None and gang.met:
                self._spare_minimum(gang)
        return self._units

    def _spare_minimum(self, gang: Gang) -> None:
        """Let members of a gang that goes whole stay, if its minimum can; any of them."""
        units = [unit for unit in self._units if unit.gang is gang]
        records = [record for unit in units for record in unit.records]
        least = gang.minimum - gang.completed
        singles = sorted(
            (Unit((record,), gang=gang) for record in records), key=lambda unit: unit.importance
        )
        if least >= len(singles):
            return
        hopeless = self._hopeless(singles)
        before = self._trial.seated
        staying: list[Unit] = []
        for number, unit in enumerate(singles):
            if len(staying) + len(singles) - number < least or len(hopeless) > len(singles) - least:
                break
            if unit not in hopeless and self._can_stay(unit):
                staying.append(unit)
        if len(staying) < least:
            self._trial.occupy(self._trial.seated, -1)
            self._trial.take_away([unit.records[0] for unit in staying])
            self._trial.seated = before
            self._trial.occupy(before, 1)
            return
        violations = sum(unit.violations for unit in units) - len(staying)
        going = [unit for unit in singles if unit not in staying]
        for unit in staying:
            self._evictable.spare(unit)
        for unit in going[: max(0, violations)]:
            unit.violations = 1
        self._units = [unit for unit in self._units if unit not in units] + going

    def _hopeless(self, units: Sequence[Unit]) -> set[Unit]:
        """Units that certainly have to go, found in one step, because mostly all of them do.

        Only for plans whose pods have one shape, and for units on one node.
        """
        trial = self._trial
        kinds = {trial.kind_of(one.record) for one in trial.seated}
        places = {unit: trial.positions_of(unit.records) for unit in units}
        local = [unit for unit in units if len(places[unit]) == 1]
        if len(kinds) > 1 or not local:
            return set()
        ((profile, shape),) = kinds
        asker = self._askers[profile]
        at = [position for unit in local for position in places[unit]]
        rows, every = trial.rows.take(np.array(at, np.int64)), np.arange(len(at))
        lines: dict[int, list[int]] = {position: [] for position in at}
        for line, one in enumerate(trial.seated):
            lines.setdefault(one.position, []).append(line)
        amounts = trial.amounts(trial.seated)
        for number in range(max(map(len, lines.values()))):
            some = [index for index in every.tolist() if len(lines[at[index]]) > number]
            which = [lines[at[index]][number] for index in some]
            rows.add(np.array(some, np.int64), amounts, np.array(which, np.int64), -1)
        here = [
            [one.pod.uid for one in unit.records if trial.positions_of([one])] for unit in local
        ]
        rows.add(every, self._ledger.amounts(here), every)
        rows.derive(every)
        elsewhere = int(asker.room(shape, trial.rows).sum())
        room = asker.room(shape, rows).tolist()
        return {
            unit
            for unit, position, most in zip(local, at, room, strict=True)
            if most + elsewhere < len(lines[position])
        }

    def _can_stay(self, unit: Unit) -> bool:
        """Whether all pods still fit with this unit back; if so, it is put back."""
        trial = self._trial
        touched = trial.positions_of(unit.records)
        before = trial.seated
        moved = [one for one in before if one.position in touched]
        trial.occupy(moved, -1)
        trial.put_back(unit.records)
        trial.seated = [one for one in before if one.position not in touched]
        kept = len(trial.seated)
        if self._reseat(moved):
            return True
        trial.occupy(trial.seated[kept:], -1)
        trial.take_away(unit.records)
        trial.seated = before
        trial.occupy(moved, 1)
        return False

    def _reseat(self, moved: Sequence[Seated]) -> bool:
        for one in moved:
            kind = self._trial.kind_of(one.record)
            left = [one.record]
            self._trial.fill(kind, left, np.array([one.position]))
            if left:
                self._trial.fill(kind, left, self._trial.everywhere)
            if left:
                return False
        return True
