"""Finds the victims that make room for pods, on private rows, and reprieves those not needed."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice

import numpy as np

from kubeshare_py.cluster.charge import card_charges, card_of_each
from kubeshare_py.cluster.columns import ABSENT, CORDONED, UNHEALTHY, IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.overlay import WhatIf
from kubeshare_py.cluster.usage_accounting import Amounts
from kubeshare_py.domain.allocation import CardCharge
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodUid
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.framework.prepared_plugins import ASKING
from kubeshare_py.framework.snapshot import Snapshot
from kubeshare_py.scheduling.pod_groups.gang_places import ProfileShape, kind_of
from kubeshare_py.scheduling.preemption.potential_victims import (
    EvictionGroup,
    PotentialVictims,
    cost,
)
from kubeshare_py.scheduling.queue.gangs import Gang
from kubeshare_py.scheduling.queue.pod_records import Record

# Private rows on which a preemption is tried: pods are removed, and others get places.


@dataclass(slots=True, eq=False)
class TrialPlacement:
    """A pod with its place in the plan: the row's position, and its cards' slots."""

    record: Record
    position: int
    slots: tuple[int, ...]


class TrialRows:
    """Copies of some rows. A position is a row's index among them."""

    def __init__(self, snapshot: Snapshot, index: IntArray, model: str) -> None:
        """`index`, (k,) int64, are the rows of the tables to copy."""
        self.rows = snapshot.tables.what_if(index)
        self.rows.be_one_plan()
        self.everywhere = np.arange(len(index))
        self.placements: list[TrialPlacement] = []
        self._model = model
        self._ledger, self._evaluators = snapshot.ledger, snapshot.evaluators
        self._position = {row: position for position, row in enumerate(index.tolist())}

    def names(self) -> list[NodeName]:
        """The nodes of the rows, by position."""
        names = (self._ledger.columns.names[row] for row in self.rows.index.tolist())
        return [name for name in names if name is not None]

    def kind_of(self, record: Record) -> ProfileShape:
        """The profile and shape by which this pod is placed."""
        return kind_of(record, self._model)

    def positions_of(self, records: Sequence[Record]) -> set[int]:
        """The positions of these pods; pods on other rows are left out."""
        found = (self._position_of(record.node) for record in records if record.node is not None)
        return {position for position in found if position is not None}

    def take_away(self, records: Sequence[Record]) -> set[int]:
        """Remove pods from the rows; the positions that changed."""
        return self._change(records, -1)

    def put_back(self, records: Sequence[Record]) -> None:
        """Return pods that were removed."""
        self._change(records, 1)

    def _change(self, records: Sequence[Record], sign: int) -> set[int]:
        by_position: dict[int, list[PodUid]] = {}
        for record in records:
            assert record.node is not None
            position = self._position_of(record.node)
            if position is not None:
                by_position.setdefault(position, []).append(record.pod.uid)
        if by_position:
            positions = np.array(list(by_position), np.int64)
            amounts = self._ledger.amounts(list(by_position.values()))
            self.rows.add(positions, amounts, np.arange(len(positions)), sign)
            self.rows.derive(positions)
        return set(by_position)

    def _position_of(self, node: NodeName) -> int | None:
        """The position of a node; None for other rows, and for a node without a row."""
        row = self._ledger.columns.row_of.get(node)
        return None if row is None else self._position.get(row)

    # --- places --------------------------------------------------------------------------------

    def fill(
        self, kind: ProfileShape, left: list[Record], positions: IntArray, *, one_each: bool = False
    ) -> None:
        """Give pods from the front of `left` places at these positions, (k,) int64, the best first.

        `one_each`: first one pod at each position where it fits, all at once.
        """
        if not len(positions):
            return
        evaluator, shape = self._evaluators[kind[0]], kind[1]
        scores, slots = evaluator.score_rows(shape, self.rows.take(positions))
        if one_each and len(positions) > 1:
            fitting = np.flatnonzero(scores >= 0)[: len(left)]
            self._place(kind, left, positions[fitting], _some(slots, fitting))
            scores, slots = evaluator.score_rows(shape, self.rows.take(positions))
        while left:
            best = int(scores.argmax())
            if scores[best] < 0:
                return
            here = np.array([best])
            self._place(kind, left, positions[here], _some(slots, here))
            scores[here], card = evaluator.score_rows(shape, self.rows.take(positions[here]))
            if slots is not None and card is not None:
                slots[here] = card

    def _place(
        self, kind: ProfileShape, left: list[Record], positions: IntArray, slots: IntArray | None
    ) -> None:
        """Give the next pods these places, one each."""
        seated = []
        for number, position in enumerate(positions.tolist()):
            if slots is not None:
                chosen: tuple[int, ...] = (slots.item(number),)
            else:
                row = self.rows.take(positions[number : number + 1])
                chosen = self._evaluators[kind[0]].cards_of(kind[1], row)
            seated.append(TrialPlacement(left[number], position, chosen))
        del left[: len(seated)]
        self.occupy(seated, 1)
        self.placements += seated

    def occupy(self, seated: Sequence[TrialPlacement], sign: int) -> None:
        """Charge pods to their places (sign 1), or remove them (-1)."""
        while seated:
            # A row can be changed only once per call.
            first = {one.position: number for number, one in reversed([*enumerate(seated)])}
            now = [seated[number] for number in sorted(first.values())]
            positions = np.array([one.position for one in now], np.int64)
            self.rows.add(positions, self.amounts(now), np.arange(len(now)), sign)
            self.rows.derive(positions)
            done = set(first.values())
            seated = [one for number, one in enumerate(seated) if number not in done]

    def amounts(self, seated: Sequence[TrialPlacement]) -> Amounts:
        """What pods take at their places, one line each."""
        columns = self._ledger.columns
        amounts = Amounts.none(len(seated), columns.free.shape[1], columns.width)
        lines: dict[Shape, list[int]] = {}
        for line, one in enumerate(seated):
            lines.setdefault(self.kind_of(one.record)[1], []).append(line)
            amounts.pods[line] = [one.record.pod.placed]
        rows = self.rows.index.take([one.position for one in seated]).tolist()
        for shape, some in lines.items():
            amounts.free[some] = self._ledger.vector(shape.charged, shape.needs_port)
            cards = self._cards(shape, [(rows[line], seated[line].slots) for line in some])
            amounts.put_cards(
                [
                    (line, columns.uuids[rows[line]].index(card.uuid), card)
                    for line, of_pod in zip(some, cards, strict=True)
                    for card in of_pod
                ]
            )
        return amounts

    def _cards(
        self, shape: Shape, places: Sequence[tuple[int, tuple[int, ...]]]
    ) -> list[tuple[CardCharge, ...]]:
        """What pods of this shape take of the cards in these slots of rows."""
        columns, claim = self._ledger.columns, shape.claim
        # A plugin may take an empty slot for a card: such a place becomes no plan.
        there = [
            (row, slots if max(slots, default=0) < len(columns.uuids[row]) else ())
            for row, slots in places
        ]
        if claim is not None and claim.count == 1 and all(slots for _, slots in there):
            rows, slots_of = [row for row, _ in there], [slots[0] for _, slots in there]
            return [(card,) for card in card_of_each(columns, rows, slots_of, claim, _no_cells)]
        return [card_charges(columns, row, slots, shape.claims) for row, slots in there]


def _no_cells(row: int) -> None:
    """Cells do not matter to what is free."""


def _some(slots: IntArray | None, index: IntArray) -> IntArray | None:
    return None if slots is None else slots[index]


# Finds the victims that make room for one more pod: all candidates at once, on private rows.
#
# A candidate begins with all evictable pods removed from the cards that it is about, or from the
# node if more than cards is short. Then pods are reprieved, the most important first, while the
# plugins say that the preemptor still fits. The pods that remain are needed: none of them could
# stay.


#: A portion of a search ends after so many candidates (about 60 µs each).
CANDIDATES_AT_ONCE = 96
#: The most sets of cards in all, and on each node; there are 70 sets of 4 cards out of 8.
SETS_IN_ALL, SETS_OF_A_NODE = 16_384, 70
#: What kube-scheduler says of a node (pkg/scheduler/framework/plugins/defaultpreemption).
NO_VICTIMS = "No preemption victims found for incoming pod"


@dataclass(slots=True)
class Portion:
    """The positions from `begin` on that one iteration searches; `end` None means all of them.

    It ends after nodes with `most_pods` pods, None for any number.
    `refused`: what is said of nodes on which no eviction makes room, by the first filter that
    refuses them then.
    """

    begin: int = 0
    most_pods: int | None = None
    end: int | None = None
    refused: dict[NodeName, tuple[str, ...]] = field(default_factory=dict)

    def is_over(self, candidates: int, pods: int) -> bool:
        """Whether it ends, after so many candidates and pods."""
        of_pods = self.most_pods is not None and pods >= self.most_pods
        return of_pods or candidates >= CANDIDATES_AT_ONCE


@dataclass(slots=True)
class Candidate:
    """A candidate: evicting these eviction groups makes room for one more pod at this position."""

    position: int
    groups: tuple[EvictionGroup, ...]
    cost: tuple[int, ...] = ()


class VictimSearch:
    """Looks for candidates on `rows`, which the caller changes as a plan grows."""

    def __init__(
        self,
        ledger: Ledger,
        evaluator: Evaluator,
        rows: WhatIf,
        potential_victims: PotentialVictims,
    ) -> None:
        self._ledger = ledger
        self._evaluator = evaluator
        self._rows = rows
        self._potential_victims = potential_victims
        #: What units hold on their nodes, line by line, and the line of each: these do not change
        #: while a plan is made.
        self._held: Amounts | None = None
        self._line_of: dict[tuple[PodUid, ...], int] = {}
        self._slots_of: dict[int, dict[GpuUuid, int]] = {}
        names = ledger.columns.names
        self._names: list[NodeName | None] = [names[row] for row in rows.index.tolist()]

    def candidates(
        self, shape: Shape, positions: Sequence[int], portion: Portion | None = None
    ) -> list[Candidate]:
        """All candidates at these positions, or at a portion of them, the best first.

        The shape must not fit these positions as they are.
        """
        if not len(positions):
            return []
        most = max(1, min(SETS_OF_A_NODE, SETS_IN_ALL // len(positions)))
        if portion is not None:
            positions = positions[portion.begin :]
            if not len(positions):
                return []  # some nodes are gone since the last portion
        refused = None if portion is None else portion.refused
        only_cards = self._evaluator.lack_only_cards(shape, self._rows.take(np.array(positions)))
        candidates: list[Candidate] = []
        looked_at = 0
        for position, cards_alone in zip(positions, only_cards.tolist(), strict=True):
            if portion is not None and portion.is_over(len(candidates), looked_at):
                portion.end = position
                break
            name = self._name(position)
            looked_at += len(self._ledger.pods_on(name))
            records = self._potential_victims.on(name)
            if refused is not None:
                # Members of gangs that must stay are no victims either.
                refused[name] = (NO_VICTIMS,)
            if not records:
                continue
            sets = _distinct(self._sets(shape, position, records, most))
            every = len(shape.claims) > 1 or any(one.one_numa_node for one in shape.claims)
            if (every or not sets or not cards_alone) and len(records) not in map(len, sets):
                sets.append(records)
            candidates += [
                Candidate(position, tuple(groups))
                for some in sets
                for groups in self._potential_victims.choices(some)
            ]
        found = self._lean(shape, candidates, refused)
        for candidate in found:
            candidate.cost = cost(candidate.groups)
        return sorted(found, key=lambda candidate: (candidate.cost, candidate.position))

    # --- inside --------------------------------------------------------------------------------

    def _sets(
        self, shape: Shape, position: int, records: Sequence[Record], most: int
    ) -> Iterator[list[Record]]:
        """The pods on the cards that would be needed, for each choice of cards."""
        if not shape.claims:
            return
        on, claim = self._tenants(position, records), shape.claim
        if claim is None or claim.count == 1:
            # Several claims may need several cards: all pods of the node are tried besides.
            yield from on.values()
            return
        if not claim.exclusive:
            return
        idle = self._rows.idle[position]
        tenants = self._rows.tenants[position]
        lacking = claim.count - int(idle.sum())
        emptied = [slot for slot in on if len(on[slot]) == tenants[slot]]
        if not 0 < lacking <= len(emptied):
            return
        emptied.sort(key=lambda slot: cost([EvictionGroup((record,)) for record in on[slot]]))
        for slots in islice(combinations(emptied, lacking), most):
            taken = {id(record) for slot in slots for record in on[slot]}
            yield [record for record in records if id(record) in taken]

    def _tenants(self, position: int, records: Sequence[Record]) -> dict[int, list[Record]]:
        """The evictable pods of each usable card, by slot."""
        slot_of = self._slots_of.get(position)
        if slot_of is None:
            uuids = self._ledger.columns.uuids[int(self._rows.index[position])]
            slot_of = {uuid: slot for slot, uuid in enumerate(uuids)}
            self._slots_of[position] = slot_of
        flags = self._rows.flags[position].tolist()
        found: dict[int, list[Record]] = {}
        for record in records:
            for card in record.allocation.cards if record.allocation else ():
                slot = slot_of.get(card.uuid)
                if slot is not None and not flags[slot] & (ABSENT | UNHEALTHY | CORDONED):
                    found.setdefault(slot, []).append(record)
        return found

    def _lean(
        self,
        shape: Shape,
        candidates: Sequence[Candidate],
        refused: dict[NodeName, tuple[str, ...]] | None,
    ) -> list[Candidate]:
        """The candidates that make enough room, each with only the groups that it needs.

        What still refuses the others is put into `refused`, if that is given.
        """
        if not candidates:
            return []
        lines, amounts = self._lines(candidates)
        rows = self._rows.take(np.array([candidate.position for candidate in candidates]))
        counts = np.array([len(candidate.groups) for candidate in candidates])
        for number in range(int(counts.max())):
            some = np.flatnonzero(counts > number)
            rows.add(some, amounts, lines[some, number], -1)
        rows.derive(np.arange(len(candidates)))
        masks = self._evaluator.masks_on(shape, rows)
        if refused is not None:
            for candidate, mask in zip(candidates, masks.tolist(), strict=True):
                texts = self._evaluator.first_texts(shape, mask) if mask else ()
                refused[self._name(candidate.position)] = texts
        fits = masks == 0
        # With its only unit back, a row is as it was before, and the shape did not fit it.
        is_lean = (counts == 1) & (not shape.is_cluster_wide and len(shape.claims) < 2)  # noqa: PLR2004
        self._count_as_asked(int((is_lean & fits).sum()), alone=bool(is_lean.all()))
        open_to: list[int] = np.flatnonzero(fits & ~is_lean).tolist()
        needed: dict[int, list[EvictionGroup]] = {index: [] for index in open_to}
        for number in range(int(counts.max()) if needed else 0):
            there = [index for index in open_to if counts[index] > number]
            free = [
                index
                for index in there
                if candidates[index].groups[number].after not in needed[index]
            ]
            returned = np.array(free, np.int64)
            kept = self._kept(shape, rows, amounts, lines[returned, number], returned)
            for index in there:
                if index not in kept:
                    needed[index].append(candidates[index].groups[number])
        for index, groups in needed.items():
            candidates[index].groups = tuple(groups)
        fitting: list[int] = np.flatnonzero(fits).tolist()
        return [candidates[index] for index in fitting]

    def _count_as_asked(self, rows: int, *, alone: bool) -> None:
        """Count so many rows as asked about; `alone`: in a question of their own.

        What a search costs does not depend on what is known without asking.
        """
        if rows:
            self._evaluator.work.rows += rows
            self._evaluator.work.other += ASKING * alone

    def _kept(
        self,
        shape: Shape,
        rows: WhatIf,
        amounts: Amounts,
        lines: IntArray,
        some: IntArray,
    ) -> set[int]:
        """Return a unit, by its line, in each of these candidates; those in which it can stay."""
        if not len(some):
            return set()
        rows.add(some, amounts, lines)
        rows.derive(some)
        fits = self._evaluator.fits(shape, rows.take(some))
        bad = some[~fits]
        if len(bad):
            rows.add(bad, amounts, lines[~fits], -1)
            rows.derive(bad)
        return set(some[fits].tolist())

    def _lines(self, candidates: Sequence[Candidate]) -> tuple[IntArray, Amounts]:
        """The lines for the groups of each candidate, (candidates, most groups), in `Amounts`."""
        known: dict[tuple[PodUid, ...], int] = self._line_of
        new: list[tuple[PodUid, ...]] = []
        found: list[list[int]] = []
        for candidate in candidates:
            lines = []
            for group in candidate.groups:
                uids = self._here(group, candidate.position)
                if uids not in known:
                    known[uids] = len(known)
                    new.append(uids)
                lines.append(known[uids])
            found.append(lines)
        if new or self._held is None:
            amounts = self._ledger.amounts(new)
            self._held = amounts if self._held is None else self._held.joined(amounts)
        most = max(map(len, found))
        filled = [lines + [0] * (most - len(lines)) for lines in found]
        return np.array(filled, np.int64).reshape(len(found), most), self._held

    def _name(self, position: int) -> NodeName:
        name = self._names[position]
        assert name is not None
        return name

    def _here(self, group: EvictionGroup, position: int) -> tuple[PodUid, ...]:
        name, records = self._names[position], group.records
        if len(records) == 1 and records[0].node == name:
            return (records[0].pod.uid,)
        return tuple([record.pod.uid for record in records if record.node == name])


def _distinct(sets: Iterable[list[Record]]) -> list[list[Record]]:
    """The sets without duplicates, which pods with several cards cause."""
    known = {tuple(map(id, records)): records for records in sets}
    return list(known.values())


# Reprieves victims: returns eviction groups, the most important first, while all pods fit.
#
# As in kube-scheduler, which reprieves the victims of a candidate node in this order.


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
