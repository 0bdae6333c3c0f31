"""Plans a preemption: places for pods that fit nowhere, and the fewest victims.

Pure: it reads the machine's state and works on private rows. First all pods that leave anyhow are
removed. Then each pod is put where it fits, or where the least important pods would have to go. In
the end victims that turn out not to be needed are reprieved. For several pods the search is greedy:
no single victim could stay, but a quite different choice may do with fewer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.framework.asks import Asker
from kubeshare_py.scheduling.preemption.evictable import Evictable, Unit
from kubeshare_py.scheduling.preemption.sparing import Sparing
from kubeshare_py.scheduling.preemption.trial_rows import Kind, Seated, TrialRows, kind_of
from kubeshare_py.scheduling.preemption.victim_search import Portion, VictimSearch, Way
from kubeshare_py.scheduling.queue.pod_records import Record

#: The most nodes searched for one pod, others next time; kube-scheduler takes a tenth of all.
MOST_NODES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A draft plan.

    The nodes of its rows, the pods with their places there, and the units to evict.
    """

    names: Sequence[NodeName]
    seated: Sequence[Seated]
    units: Sequence[Unit]


class PreemptionSearch:
    """One search for one preemptor's pods; `leaving` are pods that are expected to leave."""

    def __init__(
        self,
        ledger: Ledger,
        askers: Mapping[str, Asker],
        evictable: Evictable,
        leaving: Sequence[Record] = (),
        model: str = "",
    ) -> None:
        """`model` is the model for pods that want one model and leave it open; "" if none."""
        self._ledger = ledger
        self._askers = askers
        self._evictable = evictable
        self._leaving = leaving
        self._model = model

    def find(
        self,
        members: Sequence[Record],
        start: int = 0,
        among: IntArray | None = None,
        *,
        fitting: bool = False,
        portion: Portion | None = None,
    ) -> Draft | None:
        """Places for all of these pods, or None.

        `start` selects the nodes where there are many. `among`, (k,) int64, are the only acceptable
        rows. `fitting`: for one pod, also places where it fits without victims. `portion`: for one
        pod, the part of the rows to search.
        """
        kinds: dict[Kind, list[Record]] = {}
        for record in members:
            kinds.setdefault(kind_of(record, self._model), []).append(record)
        index = self._rows_for(list(kinds), start if len(members) == 1 else None, among)
        if fitting and len(members) == 1:
            free = self._fitting(list(kinds), among)
            index = np.union1d(index, np.roll(free, -(start % max(1, len(free))))[:MOST_NODES])
        trial = TrialRows(self._ledger, self._askers, index, self._model)
        self._evictable.gone.update(record.pod.uid for record in self._leaving)
        trial.take_away(self._leaving)
        units: list[Unit] = []
        for kind, records in sorted(kinds.items(), key=_hardest_first):
            if not self._seat_all(trial, kind, records, units, portion):
                return None
        if len(members) > 1 or any(unit.whole for unit in units):
            units = Sparing(self._ledger, self._askers, self._evictable, trial, units).spare()
        return Draft(names=trial.names(), seated=trial.seated, units=units)

    # --- the rows ------------------------------------------------------------------------------

    def _rows_for(
        self, kinds: Sequence[Kind], start: int | None, among: IntArray | None
    ) -> IntArray:
        """For one pod some rows that evictions may help; for several, all where any may fit."""
        near = [self._askers[profile].within_reach(shape) for profile, shape in kinds]
        if among is not None:
            near = [np.intersect1d(rows, among) for rows in near]
        if start is not None:
            rows = near[0]
            count = len(rows)
            return np.sort(np.roll(rows, -(start % count))[:MOST_NODES]) if count else rows
        return np.unique(np.concatenate([*near, self._fitting(kinds, among)]))

    def _fitting(self, kinds: Sequence[Kind], among: IntArray | None) -> IntArray:
        """The rows where pods of one of these kinds fit without victims."""
        fitting = [
            np.flatnonzero(self._askers[profile].keys(shape) >= 0) for profile, shape in kinds
        ]
        rows: IntArray = np.unique(np.concatenate(fitting))
        return rows if among is None else np.intersect1d(rows, among)

    # --- places --------------------------------------------------------------------------------

    def _seat_all(
        self,
        trial: TrialRows,
        kind: Kind,
        records: Sequence[Record],
        units: list[Unit],
        portion: Portion | None,
    ) -> bool:
        """Find places for pods of one kind, with victims where they fit nowhere else."""
        left = list(records)
        trial.fill(kind, left, trial.everywhere)
        search = VictimSearch(self._ledger, self._askers[kind[0]], trial.rows, self._evictable)
        known: dict[int, list[Way]] = {}
        stale = set(trial.everywhere.tolist())
        while left:
            for position in stale:
                known.pop(position, None)
            for way in search.ways(kind[1], sorted(stale), portion):
                known.setdefault(way.position, []).append(way)
            stale = self._evict(trial, known, len(left), units)
            if not stale:
                return False
            before = len(left)
            trial.fill(kind, left, np.array(sorted(stale), np.int64), one_each=True)
            if len(left) == before:
                return False
        return True

    def _evict(
        self, trial: TrialRows, known: Mapping[int, Sequence[Way]], most: int, units: list[Unit]
    ) -> set[int]:
        """Take the best ways that do not affect each other; the positions that changed."""
        ranked = (
            sorted(
                (way.cost, number, position, way)
                for position, ways in known.items()
                for number, way in enumerate(ways)
                if number < most
            )
            if most > 1
            else sorted(
                (ways[0].cost, 0, position, ways[0]) for position, ways in known.items() if ways
            )
        )
        taken: dict[int, Way] = {}
        gangs: set[object] = set()
        for _, _, position, way in ranked:
            shared = {unit.gang for unit in way.units if unit.gang is not None}
            if len(taken) == most or position in taken or shared & gangs:
                break
            taken[position] = way
            gangs |= shared
        going = [unit for way in taken.values() for unit in way.units]
        self._evictable.take(going)
        units += going
        changed = trial.take_away([record for unit in going for record in unit.records])
        if gangs:
            # How many members of a gang may go has changed now, at every position with members.
            changed |= {
                position
                for position, ways in known.items()
                if any(unit.gang in gangs for way in ways for unit in way.units)
            }
        return changed | set(taken)


def _hardest_first(entry: tuple[Kind, Sequence[Record]]) -> tuple[int, int, int]:
    """Sorts shapes that take most of a node first."""
    claim = entry[0][1].claim
    cpu = sum(amount for name, amount in entry[0][1].resources if name == "cpu")
    return (-claim.count, -claim.milli, -cpu) if claim is not None else (0, 0, -cpu)
