"""The plan of a preemption: places for pods that fit nowhere, and the fewest that must go for them.

Pure: reads the machine's books and works on private rows. First everybody who leaves anyhow is
thought away; then each pod is put where it fits, or where the least important pods would have to
go; in the end whoever turns out not to be needed is spared. For several pods that is greedy: none
of the victims can be spared, but a quite different choice may do with fewer.
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

#: For one pod so many nodes are looked at, others next time; kube-scheduler takes a tenth of all.
MOST_NODES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A plan: the nodes of the rows it is about, who gets which place there, and who goes."""

    names: Sequence[NodeName]
    seated: Sequence[Seated]
    units: Sequence[Unit]


class PreemptionSearch:
    """One search, for the pods of one preemptor; `leaving` are pods that are expected to go."""

    def __init__(
        self,
        ledger: Ledger,
        askers: Mapping[str, Asker],
        evictable: Evictable,
        leaving: Sequence[Record] = (),
        model: str = "",
    ) -> None:
        """`model` is what pods get that ask for one model and leave it open; "" if none does."""
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

        `start` chooses the nodes where there are many; `among` are the only rows that will do.
        `fitting`: for one pod, too, also where it fits as it is. `portion`: for one pod, those of
        the rows where others are evicted.
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
        """For one pod some rows that evictions may help, for several all where any may fit."""
        near = [self._askers[profile].within_reach(shape) for profile, shape in kinds]
        if among is not None:
            near = [np.intersect1d(rows, among) for rows in near]
        if start is not None:
            rows = near[0]
            count = len(rows)
            return np.sort(np.roll(rows, -(start % count))[:MOST_NODES]) if count else rows
        return np.unique(np.concatenate([*near, self._fitting(kinds, among)]))

    def _fitting(self, kinds: Sequence[Kind], among: IntArray | None) -> IntArray:
        """The rows where pods of one of these kinds fit as it is."""
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
        """Places for pods of one kind, by evictions where they fit nowhere else."""
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
        """Take the best ways, as long as one does not change what another is; where they are."""
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
            # How much of a gang may go is another matter now, wherever its members are.
            changed |= {
                position
                for position, ways in known.items()
                if any(unit.gang in gangs for way in ways for unit in way.units)
            }
        return changed | set(taken)


def _hardest_first(entry: tuple[Kind, Sequence[Record]]) -> tuple[int, int, int]:
    """Shapes that want most of a node first."""
    claim = entry[0][1].claim
    cpu = sum(amount for name, amount in entry[0][1].resources if name == "cpu")
    return (-claim.count, -claim.milli, -cpu) if claim is not None else (0, 0, -cpu)
