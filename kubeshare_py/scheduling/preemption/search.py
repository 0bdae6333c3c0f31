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
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.framework.snapshot import Snapshot
from kubeshare_py.scheduling.pod_groups.gang_models import ProfileShape, kind_of
from kubeshare_py.scheduling.preemption.potential_victims import EvictionGroup, PotentialVictims
from kubeshare_py.scheduling.preemption.reprieve import Reprieve
from kubeshare_py.scheduling.preemption.trial_rows import TrialPlacement, TrialRows
from kubeshare_py.scheduling.preemption.victim_search import Candidate, Portion, VictimSearch
from kubeshare_py.scheduling.queue.pod_records import Record

#: The most nodes searched for one pod, others next time; kube-scheduler takes a tenth of all.
MAX_NODES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftPlan:
    """A draft plan.

    The nodes of its rows, the pods with their places there, and the eviction groups to evict.
    """

    names: Sequence[NodeName]
    placements: Sequence[TrialPlacement]
    groups: Sequence[EvictionGroup]


class PreemptionSearch:
    """One search for one preemptor's pods; `leaving` are pods that are expected to leave."""

    def __init__(
        self,
        snapshot: Snapshot,
        potential_victims: PotentialVictims,
        leaving: Sequence[Record] = (),
        model: str = "",
    ) -> None:
        """`model` is the model for pods that want one model and leave it open; "" if none."""
        self._snapshot = snapshot
        self._ledger, self._evaluators = snapshot.ledger, snapshot.evaluators
        self._potential_victims = potential_victims
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
    ) -> DraftPlan | None:
        """Places for all of these pods, or None.

        `start` selects the nodes where there are many. `among`, (k,) int64, are the only acceptable
        rows. `fitting`: for one pod, also places where it fits without victims. `portion`: for one
        pod, the part of the rows to search.
        """
        kinds: dict[ProfileShape, list[Record]] = {}
        for record in members:
            kinds.setdefault(kind_of(record, self._model), []).append(record)
        index = self._rows_for(list(kinds), start if len(members) == 1 else None, among)
        if fitting and len(members) == 1:
            free = self._fitting(list(kinds), among)
            index = np.union1d(index, np.roll(free, -(start % max(1, len(free))))[:MAX_NODES])
        trial = TrialRows(self._snapshot, index, self._model)
        self._potential_victims.gone.update(record.pod.uid for record in self._leaving)
        trial.take_away(self._leaving)
        groups: list[EvictionGroup] = []
        for kind, records in sorted(kinds.items(), key=_hardest_first):
            if not self._place_all(trial, kind, records, groups, portion):
                return None
        if len(members) > 1 or any(group.whole for group in groups):
            groups = Reprieve(self._snapshot, self._potential_victims, trial, groups).reprieve()
        return DraftPlan(names=trial.names(), placements=trial.placements, groups=groups)

    # --- the rows ------------------------------------------------------------------------------

    def _rows_for(
        self, kinds: Sequence[ProfileShape], start: int | None, among: IntArray | None
    ) -> IntArray:
        """For one pod some rows that evictions may help; for several, all where any may fit."""
        near = [self._evaluators[profile].within_reach(shape) for profile, shape in kinds]
        if among is not None:
            near = [np.intersect1d(rows, among) for rows in near]
        if start is not None:
            rows = near[0]
            some = np.roll(rows, -(start % max(1, len(rows))))[:MAX_NODES]
            return np.union1d(some, self._refused_later(kinds[0], rows, among, len(some)))
        return np.unique(np.concatenate([*near, self._fitting(kinds, among)]))

    def _refused_later(
        self, kind: ProfileShape, near: IntArray, among: IntArray | None, taken: int
    ) -> IntArray:
        """Rows that a later filter refuses, whatever is evicted; kube-scheduler tries them, too.

        They are for what is said of a search in vain.
        """
        rows = np.setdiff1d(self._evaluators[kind[0]].first_in_reach(kind[1]), near)
        if among is not None:
            rows = np.intersect1d(rows, among)
        return rows[: MAX_NODES - taken]

    def _fitting(self, kinds: Sequence[ProfileShape], among: IntArray | None) -> IntArray:
        """The rows where pods of one of these kinds fit without victims."""
        fitting = [
            np.flatnonzero(self._evaluators[profile].keys(shape) >= 0) for profile, shape in kinds
        ]
        rows: IntArray = np.unique(np.concatenate(fitting))
        return rows if among is None else np.intersect1d(rows, among)

    # --- places --------------------------------------------------------------------------------

    def _place_all(
        self,
        trial: TrialRows,
        kind: ProfileShape,
        records: Sequence[Record],
        groups: list[EvictionGroup],
        portion: Portion | None,
    ) -> bool:
        """Find places for pods of one kind, with victims where they fit nowhere else."""
        left = list(records)
        trial.fill(kind, left, trial.everywhere)
        search = VictimSearch(
            self._ledger, self._evaluators[kind[0]], trial.rows, self._potential_victims
        )
        known: dict[int, list[Candidate]] = {}
        stale = set(trial.everywhere.tolist())
        while left:
            for position in stale:
                known.pop(position, None)
            for candidate in search.candidates(kind[1], sorted(stale), portion):
                known.setdefault(candidate.position, []).append(candidate)
            stale = self._evict(trial, known, len(left), groups)
            if not stale:
                return False
            before = len(left)
            trial.fill(kind, left, np.array(sorted(stale), np.int64), one_each=True)
            if len(left) == before:
                return False
        return True

    def _evict(
        self,
        trial: TrialRows,
        known: Mapping[int, Sequence[Candidate]],
        most: int,
        groups: list[EvictionGroup],
    ) -> set[int]:
        """Take the best candidates that do not affect each other; the positions that changed."""
        ranked = (
            sorted(
                (candidate.cost, number, position, candidate)
                for position, candidates in known.items()
                for number, candidate in enumerate(candidates)
                if number < most
            )
            if most > 1
            else sorted(
                (candidates[0].cost, 0, position, candidates[0])
                for position, candidates in known.items()
                if candidates
            )
        )
        taken: dict[int, Candidate] = {}
        gangs: set[object] = set()
        for _, _, position, candidate in ranked:
            shared = {group.gang for group in candidate.groups if group.gang is not None}
            if len(taken) == most or position in taken or shared & gangs:
                break
            taken[position] = candidate
            gangs |= shared
        going = [group for candidate in taken.values() for group in candidate.groups]
        self._potential_victims.take(going)
        groups += going
        changed = trial.take_away([record for group in going for record in group.records])
        if gangs:
            # How many members of a gang may go has changed now, at every position with members.
            changed |= {
                position
                for position, candidates in known.items()
                if any(
                    group.gang in gangs for candidate in candidates for group in candidate.groups
                )
            }
        return changed | set(taken)


def _hardest_first(entry: tuple[ProfileShape, Sequence[Record]]) -> tuple[int, int, int]:
    """Sorts shapes that take most of a node first."""
    shape = entry[0][1]
    cpu = sum(amount for name, amount in shape.resources if name == "cpu")
    cards = sum(claim.count for claim in shape.claims)
    return -cards, -sum(claim.milli for claim in shape.claims), -cpu
