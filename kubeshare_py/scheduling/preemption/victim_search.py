"""Finds the victims that make room for pods, on private rows, and reprieves those not needed."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice

import numpy as np

from kubeshare_py.cluster.charge import card_charges
from kubeshare_py.cluster.columns import ABSENT, CORDONED, UNHEALTHY, IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.overlay import WhatIf
from kubeshare_py.cluster.usage_accounting import Amounts
from kubeshare_py.domain.gpu import exclusions
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.evaluator import Evaluator
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
        for line, one in enumerate(seated):
            _, shape = self.kind_of(one.record)
            row = self.rows.index.item(one.position)
            amounts.free[line] = self._ledger.vector(shape.charged, shape.needs_port)
            amounts.pods[line] = [one.record.pod.placed]
            # A plugin may take an empty slot for a card: such a place becomes no plan.
            uuids = columns.uuids[row]
            slots = one.slots if max(one.slots, default=0) < len(uuids) else ()
            for card in card_charges(columns, row, slots, shape.claims):
                slot = uuids.index(card.uuid)
                amounts.milli[line, slot] = card.milli
                amounts.memory[line, slot] = card.memory_bytes
                amounts.tenants[line, slot] = 1
                amounts.exclusive[line, slot] = card.exclusive
                if card.tags:
                    amounts.excluding[line, slot] = bool(exclusions(card.tags))
                    amounts.tags.setdefault(line, []).append((slot, card.tags))
        return amounts


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

    def candidates(
        self, shape: Shape, positions: Sequence[int], portion: Portion | None = None
    ) -> list[Candidate]:
        """All candidates at these positions, or at a portion of them, the best first."""
        if not len(positions):
            return []
        most = max(1, min(SETS_OF_A_NODE, SETS_IN_ALL // len(positions)))
        if portion is not None:
            positions = positions[portion.begin :]
            if not len(positions):
                return []  # some nodes are gone since the last portion
        refused = {} if portion is None else portion.refused
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

    def add(self, position: int, groups: Iterable[EvictionGroup], sign: int) -> None:
        """Return the groups' pods on this node to the row (sign 1), or remove them (-1)."""
        lines = [[uid for group in groups for uid in self._here(group, position)]]
        one = np.array([position])
        self._rows.add(one, self._ledger.amounts(lines), np.zeros(1, np.int64), sign)
        self._rows.derive(one)

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
        uuids = self._ledger.columns.uuids[int(self._rows.index[position])]
        slot_of = {uuid: slot for slot, uuid in enumerate(uuids)}
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
        refused: dict[NodeName, tuple[str, ...]],
    ) -> list[Candidate]:
        """The candidates that make enough room, each with only the groups that it needs.

        What still refuses the others is put into `refused`.
        """
        if not candidates:
            return []
        amounts, first = self._amounts(candidates)
        rows = self._rows.take(np.array([candidate.position for candidate in candidates]))
        counts = np.array([len(candidate.groups) for candidate in candidates])
        for number in range(int(counts.max())):
            some = np.flatnonzero(counts > number)
            rows.add(some, amounts, first[some] + number, -1)
        rows.derive(np.arange(len(candidates)))
        masks = self._evaluator.masks_on(shape, rows)
        for candidate, mask in zip(candidates, masks.tolist(), strict=True):
            texts = self._evaluator.first_texts(shape, mask) if mask else ()
            refused[self._name(candidate.position)] = texts
        fits = masks == 0
        needed: list[list[EvictionGroup]] = [[] for _ in candidates]
        for number in range(int(counts.max())):
            some = np.flatnonzero((counts > number) & fits)
            free = [
                index
                for index in some.tolist()
                if candidates[index].groups[number].after not in needed[index]
            ]
            kept = self._kept(shape, rows, amounts, first, np.array(free, np.int64), number)
            for index in some.tolist():
                if index not in kept:
                    needed[index].append(candidates[index].groups[number])
        return [
            Candidate(candidate.position, tuple(needed[index]))
            for index, candidate in enumerate(candidates)
            if fits[index]
        ]

    def _kept(
        self,
        shape: Shape,
        rows: WhatIf,
        amounts: Amounts,
        first: IntArray,
        some: IntArray,
        number: int,
    ) -> set[int]:
        """Return unit `number` in each of these candidates; the candidates in which it can stay."""
        if not len(some):
            return set()
        rows.add(some, amounts, first[some] + number)
        rows.derive(some)
        fits = self._evaluator.fits(shape, rows.take(some))
        bad = some[~fits]
        if len(bad):
            rows.add(bad, amounts, first[bad] + number, -1)
            rows.derive(bad)
        return set(some[fits].tolist())

    def _amounts(self, candidates: Sequence[Candidate]) -> tuple[Amounts, IntArray]:
        """What the groups hold, one line each, and the first line of each candidate."""
        lines: list[list[PodUid]] = []
        first: list[int] = []
        for candidate in candidates:
            first.append(len(lines))
            lines += [self._here(group, candidate.position) for group in candidate.groups]
        return self._ledger.amounts(lines), np.array(first, np.int64)

    def _name(self, position: int) -> NodeName:
        name = self._ledger.columns.names[int(self._rows.index[position])]
        assert name is not None
        return name

    def _here(self, group: EvictionGroup, position: int) -> list[PodUid]:
        name = self._name(position)
        return [record.pod.uid for record in group.records if record.node == name]


def _distinct(sets: Iterable[list[Record]]) -> list[list[Record]]:
    """The sets without duplicates, which pods with several cards cause."""
    known = {tuple(record.pod.uid for record in records): records for records in sets}
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
