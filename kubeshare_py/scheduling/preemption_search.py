"""The plan of a preemption: places for pods that fit nowhere, and the fewest that must go for them.

Pure: reads the machine's books and works on private rows. First everybody who leaves anyhow is
thought away; then each pod is put where it fits, or where the least important pods would have to
go; in the end whoever turns out not to be needed is spared. For several pods that is greedy: none
of the victims can be spared, but a quite different choice may do with fewer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.what_if import Amounts
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.asks import Asker
from kubeshare_py.scheduling.evictable import Evictable, Unit
from kubeshare_py.scheduling.gang_models import narrowed
from kubeshare_py.scheduling.gangs import Gang
from kubeshare_py.scheduling.pod_records import Record
from kubeshare_py.scheduling.victim_search import VictimSearch, Way

#: For one pod so many nodes are looked at, others next time; kube-scheduler takes a tenth of all.
MOST_NODES = 512


@dataclass(slots=True, eq=False)
class Seated:
    """A pod that has a place in the plan: the row's position, and its cards' slots."""

    record: Record
    position: int
    slots: tuple[int, ...]


@dataclass(slots=True)
class Draft:
    """A plan as it grows."""

    seated: list[Seated] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)


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
        self._model = model
        self._ledger = ledger
        self._askers = askers
        self._evictable = evictable
        self._leaving = leaving
        self._rows = ledger.what_if(np.zeros(0, np.int64))
        self._position: dict[int, int] = {}
        self._draft = Draft()

    def names(self) -> list[NodeName]:
        """The nodes of the rows, by position."""
        names = (self._ledger.columns.names[row] for row in self._rows.index.tolist())
        return [name for name in names if name is not None]

    def find(
        self, members: Sequence[Record], start: int = 0, among: IntArray | None = None
    ) -> Draft | None:
        """Places for all of these pods, or None.

        `start` chooses the nodes where there are many; `among` are the only rows that will do.
        """
        kinds: dict[tuple[str, Shape], list[Record]] = {}
        for record in members:
            kinds.setdefault((record.pod.scheduler_name, self._shape_of(record)), []).append(record)
        self._begin(self._rows_for(list(kinds), start if len(members) == 1 else None, among))
        for (profile, shape), records in sorted(kinds.items(), key=_hardest_first):
            if not self._seat_all(self._askers[profile], shape, records):
                return None
        if len(members) > 1 or any(unit.whole for unit in self._draft.units):
            self._spare()
        return self._draft

    # --- the rows ------------------------------------------------------------------------------

    def _rows_for(
        self, kinds: Sequence[tuple[str, Shape]], start: int | None, among: IntArray | None
    ) -> IntArray:
        """For one pod some rows that evictions may help, for several all where any may fit."""
        near = [self._askers[profile].within_reach(shape) for profile, shape in kinds]
        if among is not None:
            near = [np.intersect1d(rows, among) for rows in near]
        if start is not None:
            rows = near[0]
            count = len(rows)
            return np.sort(np.roll(rows, -(start % count))[:MOST_NODES]) if count else rows
        fitting = [
            np.flatnonzero(self._askers[profile].keys(shape) >= 0) for profile, shape in kinds
        ]
        if among is not None:
            fitting = [np.intersect1d(rows, among) for rows in fitting]
        return np.unique(np.concatenate([*near, *fitting]))

    def _shape_of(self, record: Record) -> Shape:
        return narrowed(record.shape, self._model)

    def _begin(self, rows: IntArray) -> None:
        self._rows = self._ledger.what_if(rows)
        self._position = {row: position for position, row in enumerate(rows.tolist())}
        self._draft = Draft()
        for record in self._leaving:
            self._evictable.gone.add(record.pod.uid)
            self._change([record], -1)

    def _change(self, records: Sequence[Record], sign: int) -> set[int]:
        """Put pods back, or take them away; the positions that changed."""
        by_position: dict[int, list[PodUid]] = {}
        row_of = self._ledger.columns.row_of
        for record in records:
            assert record.node is not None
            position = self._position.get(row_of[record.node])
            if position is not None:
                by_position.setdefault(position, []).append(record.pod.uid)
        if by_position:
            positions = np.array(list(by_position), np.int64)
            amounts = self._ledger.amounts(list(by_position.values()))
            self._rows.add(positions, amounts, np.arange(len(positions)), sign)
            self._rows.derive(positions)
        return set(by_position)

    # --- places --------------------------------------------------------------------------------

    def _seat_all(self, asker: Asker, shape: Shape, records: Sequence[Record]) -> bool:
        """Places for pods of one shape, by evictions where they fit nowhere else."""
        left = list(records)
        everywhere = np.arange(len(self._rows.index))
        self._fill(asker, shape, left, everywhere)
        search = VictimSearch(self._ledger, asker, self._rows, self._evictable)
        known: dict[int, list[Way]] = {}
        stale = set(everywhere.tolist())
        while left:
            for position in stale:
                known.pop(position, None)
            for way in search.ways(shape, sorted(stale)):
                known.setdefault(way.position, []).append(way)
            stale = self._evict(known, len(left))
            if not stale:
                return False
            before = len(left)
            self._fill(asker, shape, left, np.array(sorted(stale), np.int64), one_each=True)
            if len(left) == before:
                return False
        return True

    def _evict(self, known: Mapping[int, Sequence[Way]], most: int) -> set[int]:
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
        units = [unit for way in taken.values() for unit in way.units]
        self._evictable.take(units)
        self._draft.units += units
        changed = self._change([record for unit in units for record in unit.records], -1)
        if gangs:
            # How much of a gang may go is another matter now, wherever its members are.
            changed |= {
                position
                for position, ways in known.items()
                if any(unit.gang in gangs for way in ways for unit in way.units)
            }
        return changed | set(taken)

    def _fill(
        self,
        asker: Asker,
        shape: Shape,
        left: list[Record],
        positions: IntArray,
        *,
        one_each: bool = False,
    ) -> None:
        """Give pods from the front of `left` places at these positions, the best first.

        `one_each`: first one pod at each position where it fits, all at once.
        """
        if not len(positions):
            return
        keys, slots = asker.rate(shape, self._rows.take(positions))
        if one_each and len(positions) > 1:
            fitting = np.flatnonzero(keys >= 0)[: len(left)]
            self._seat(asker, shape, left, positions[fitting], _some(slots, fitting))
            keys, slots = asker.rate(shape, self._rows.take(positions))
        while left:
            best = int(keys.argmax())
            if keys[best] < 0:
                return
            here = np.array([best])
            self._seat(asker, shape, left, positions[here], _some(slots, here))
            keys[here], card = asker.rate(shape, self._rows.take(positions[here]))
            if slots is not None and card is not None:
                slots[here] = card

    def _seat(
        self,
        asker: Asker,
        shape: Shape,
        left: list[Record],
        positions: IntArray,
        slots: IntArray | None,
    ) -> None:
        """Give the next pods these places, one each."""
        seated = []
        for number, position in enumerate(positions.tolist()):
            if slots is not None:
                chosen: tuple[int, ...] = (slots.item(number),)
            else:
                chosen = asker.cards_of(shape, self._rows.take(positions[number : number + 1]))
            seated.append(Seated(left[number], position, chosen))
        del left[: len(seated)]
        self._occupy(seated, 1)
        self._draft.seated += seated

    def _occupy(self, seated: Sequence[Seated], sign: int) -> None:
        """Charge pods to their places, or take them away again."""
        while seated:
            # A row can be changed once at a time.
            first = {one.position: number for number, one in reversed([*enumerate(seated)])}
            now = [seated[number] for number in sorted(first.values())]
            positions = np.array([one.position for one in now], np.int64)
            self._rows.add(positions, self._amounts(now), np.arange(len(now)), sign)
            self._rows.derive(positions)
            done = set(first.values())
            seated = [one for number, one in enumerate(seated) if number not in done]

    def _amounts(self, seated: Sequence[Seated]) -> Amounts:
        """What pods take at their places, line by line."""
        columns = self._ledger.columns
        amounts = Amounts.none(len(seated), columns.free.shape[1], columns.width)
        capacities, models = self._rows.column("capacity_bytes"), self._rows.column("model")
        for line, one in enumerate(seated):
            shape = self._shape_of(one.record)
            amounts.free[line] = self._ledger.vector(shape.resources, shape.needs_port)
            claim = shape.claim
            for slot in one.slots if claim is not None else ():
                assert claim is not None
                capacity = capacities.item(one.position, slot)
                model = columns.model_names[models.item(one.position, slot)]
                amounts.milli[line, slot] = claim.milli_on(model)
                amounts.memory[line, slot] = claim.bytes_of(capacity, model)
                amounts.tenants[line, slot] = 1
                amounts.exclusive[line, slot] = claim.exclusive
        return amounts

    # --- nobody too many -----------------------------------------------------------------------

    def _spare(self) -> None:
        """Let those stay who need not go, the most important first."""
        hopeless = self._hopeless(self._draft.units)
        left = sorted(self._draft.units, key=lambda unit: unit.importance)
        wholly_gone = {unit.gang: None for unit in left if unit.whole}
        again = True
        while again:
            again = False
            for unit in [unit for unit in left if unit.whole or unit.gang not in wholly_gone]:
                left.remove(unit)
                if unit not in hopeless and self._can_stay(unit):
                    self._draft.units.remove(unit)
                    self._evictable.spare(unit)
                    # The members above its minimum may stay only now.
                    wholly_gone.pop(unit.gang, None)
                    again |= unit.whole
        for gang in wholly_gone:
            if gang is not None and gang.met:
                self._spare_minimum(gang)

    def _spare_minimum(self, gang: Gang) -> None:
        """Let members of a gang that goes as a whole stay if enough of them can: any of them."""
        units = [unit for unit in self._draft.units if unit.gang is gang]
        records = [record for unit in units for record in unit.records]
        least = gang.minimum - gang.completed
        singles = sorted(
            (Unit((record,), gang=gang) for record in records), key=lambda unit: unit.importance
        )
        if least >= len(singles):
            return
        hopeless = self._hopeless(singles)
        before = self._draft.seated
        staying: list[Unit] = []
        for number, unit in enumerate(singles):
            if len(staying) + len(singles) - number < least or len(hopeless) > len(singles) - least:
                break
            if unit not in hopeless and self._can_stay(unit):
                staying.append(unit)
        if len(staying) < least:
            self._occupy(self._draft.seated, -1)
            self._change([unit.records[0] for unit in staying], -1)
            self._draft.seated = before
            self._occupy(before, 1)
            return
        violations = sum(unit.violations for unit in units) - len(staying)
        going = [unit for unit in singles if unit not in staying]
        for unit in staying:
            self._evictable.spare(unit)
        for unit in going[: max(0, violations)]:
            unit.violations = 1
        self._draft.units = [unit for unit in self._draft.units if unit not in units] + going

    def _hopeless(self, units: Sequence[Unit]) -> set[Unit]:
        """Units that certainly have to go; looked up at once, since mostly all of them have to.

        Said only of plans for pods of one shape, and of units on one node.
        """
        seated = self._draft.seated
        kinds = {(one.record.pod.scheduler_name, self._shape_of(one.record)) for one in seated}
        local = [unit for unit in units if len(self._positions_of(unit)) == 1]
        if len(kinds) > 1 or not local:
            return set()
        ((profile, shape),) = kinds
        asker = self._askers[profile]
        at = [position for unit in local for position in self._positions_of(unit)]
        rows, every = self._rows.take(np.array(at, np.int64)), np.arange(len(at))
        lines: dict[int, list[int]] = {position: [] for position in at}
        for line, one in enumerate(seated):
            lines.setdefault(one.position, []).append(line)
        amounts = self._amounts(seated)
        for number in range(max(map(len, lines.values()))):
            some = [index for index in every.tolist() if len(lines[at[index]]) > number]
            which = [lines[at[index]][number] for index in some]
            rows.add(np.array(some, np.int64), amounts, np.array(which, np.int64), -1)
        rows.add(every, self._ledger.amounts([unit.uids for unit in local]), every)
        rows.derive(every)
        elsewhere = int(asker.room(shape, self._rows).sum())
        room = asker.room(shape, rows).tolist()
        return {
            unit
            for unit, position, most in zip(local, at, room, strict=True)
            if most + elsewhere < len(lines[position])
        }

    def _can_stay(self, unit: Unit) -> bool:
        """Whether all still fit with these pods back; if so, they are put back."""
        touched = self._positions_of(unit)
        moved = [one for one in self._draft.seated if one.position in touched]
        self._occupy(moved, -1)
        self._change(unit.records, 1)
        before = self._draft.seated
        self._draft.seated = [one for one in before if one.position not in touched]
        kept = len(self._draft.seated)
        if self._reseat(moved):
            return True
        self._occupy(self._draft.seated[kept:], -1)
        self._draft.seated = before
        self._change(unit.records, -1)
        self._occupy(moved, 1)
        return False

    def _reseat(self, moved: Sequence[Seated]) -> bool:
        everywhere = np.arange(len(self._rows.index))
        for one in moved:
            shape = self._shape_of(one.record)
            asker = self._askers[one.record.pod.scheduler_name]
            here = np.array([one.position])
            left = [one.record]
            self._fill(asker, shape, left, here)
            if left:
                self._fill(asker, shape, left, everywhere)
            if left:
                return False
        return True

    def _positions_of(self, unit: Unit) -> set[int]:
        row_of = self._ledger.columns.row_of
        rows = (row_of[record.node] for record in unit.records if record.node is not None)
        return {self._position[row] for row in rows if row in self._position}


def _some(slots: IntArray | None, index: IntArray) -> IntArray | None:
    return None if slots is None else slots[index]


def _hardest_first(entry: tuple[tuple[str, Shape], Sequence[Record]]) -> tuple[int, int, int]:
    """Shapes that want most of a node first."""
    claim = entry[0][1].claim
    cpu = sum(amount for name, amount in entry[0][1].resources if name == "cpu")
    return (-claim.count, -claim.milli, -cpu) if claim is not None else (0, 0, -cpu)
