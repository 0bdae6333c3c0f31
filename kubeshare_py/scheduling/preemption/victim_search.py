"""Finds the victims on a node that make room for one more pod: all ways at once, on private rows.

A way begins with all evictable pods removed from the cards that it is about, or from the node if
more than cards is short. Then pods are reprieved, the most important first, while the plugins say
that the preemptor still fits. The pods that remain are needed: none of them could stay.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice

import numpy as np

from kubeshare_py.cluster.columns import ABSENT, UNHEALTHY, IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.what_if import Amounts, WhatIf
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.asks import Asker
from kubeshare_py.scheduling.preemption.evictable import Evictable, Unit, cost
from kubeshare_py.scheduling.queue.pod_records import Record

#: A portion of a search ends after so many ways (about 60 µs each).
WAYS_AT_ONCE = 96
#: The most sets of cards in all, and on each node; there are 70 sets of 4 cards out of 8.
SETS_IN_ALL, SETS_OF_A_NODE = 16_384, 70


@dataclass(slots=True)
class Portion:
    """The positions from `begin` on that one turn searches; `end` None means all of them."""

    begin: int = 0
    end: int | None = None


@dataclass(slots=True)
class Way:
    """A candidate: evicting these units makes room for one more pod at this position."""

    position: int
    units: tuple[Unit, ...]
    cost: tuple[int, ...] = ()


class VictimSearch:
    """Looks for ways on `rows`, which the caller changes as a plan grows."""

    def __init__(self, ledger: Ledger, asker: Asker, rows: WhatIf, evictable: Evictable) -> None:
        self._ledger = ledger
        self._asker = asker
        self._rows = rows
        self._evictable = evictable

    def ways(
        self, shape: Shape, positions: Sequence[int], portion: Portion | None = None
    ) -> list[Way]:
        """All ways at these positions, or at a portion of them, the best first."""
        if not len(positions):
            return []
        most = max(1, min(SETS_OF_A_NODE, SETS_IN_ALL // len(positions)))
        if portion is not None:
            positions = positions[portion.begin :]
            if not len(positions):
                return []  # some nodes are gone since the last portion
        only_cards = self._asker.lack_only_cards(shape, self._rows.take(np.array(positions)))
        ways: list[Way] = []
        for position, cards_alone in zip(positions, only_cards.tolist(), strict=True):
            if portion is not None and len(ways) >= WAYS_AT_ONCE:
                portion.end = position
                break
            records = self._evictable.on(self._name(position))
            if not records:
                continue
            sets = _distinct(self._sets(shape, position, records, most))
            near = shape.claim is not None and shape.claim.one_numa_node
            if (near or not sets or not cards_alone) and len(records) not in map(len, sets):
                sets.append(records)
            ways += [
                Way(position, tuple(units))
                for some in sets
                for units in self._evictable.choices(some)
            ]
        found = self._lean(shape, ways)
        for way in found:
            way.cost = cost(way.units)
        return sorted(found, key=lambda way: (way.cost, way.position))

    def add(self, position: int, units: Iterable[Unit], sign: int) -> None:
        """Return the units' pods to the row (sign 1) or remove them (-1), those on its node."""
        lines = [[uid for unit in units for uid in self._here(unit, position)]]
        one = np.array([position])
        self._rows.add(one, self._ledger.amounts(lines), np.zeros(1, np.int64), sign)
        self._rows.derive(one)

    # --- inside --------------------------------------------------------------------------------

    def _sets(
        self, shape: Shape, position: int, records: Sequence[Record], most: int
    ) -> Iterator[list[Record]]:
        """The pods on the cards that would be needed, for each choice of cards."""
        claim = shape.claim
        if claim is None:
            return
        on = self._tenants(position, records)
        if claim.count == 1:
            yield from on.values()
            return
        if not claim.exclusive:
            return
        idle = self._rows.column("idle")[position]
        tenants = self._rows.column("tenants")[position]
        lacking = claim.count - int(idle.sum())
        emptied = [slot for slot in on if len(on[slot]) == tenants[slot]]
        if not 0 < lacking <= len(emptied):
            return
        emptied.sort(key=lambda slot: cost([Unit((record,)) for record in on[slot]]))
        for slots in islice(combinations(emptied, lacking), most):
            taken = {id(record) for slot in slots for record in on[slot]}
            yield [record for record in records if id(record) in taken]

    def _tenants(self, position: int, records: Sequence[Record]) -> dict[int, list[Record]]:
        """The evictable pods of each usable card, by slot."""
        uuids = self._ledger.columns.uuids[int(self._rows.index[position])]
        slot_of = {uuid: slot for slot, uuid in enumerate(uuids)}
        flags = self._rows.column("flags")[position].tolist()
        found: dict[int, list[Record]] = {}
        for record in records:
            for card in record.allocation.cards if record.allocation else ():
                slot = slot_of.get(card.uuid)
                if slot is not None and not flags[slot] & (ABSENT | UNHEALTHY):
                    found.setdefault(slot, []).append(record)
        return found

    def _lean(self, shape: Shape, ways: Sequence[Way]) -> list[Way]:
        """The ways that make enough room, each reduced to the units that it needs."""
        if not ways:
            return []
        amounts, first = self._amounts(ways)
        rows = self._rows.take(np.array([way.position for way in ways]))
        counts = np.array([len(way.units) for way in ways])
        for number in range(int(counts.max())):
            some = np.flatnonzero(counts > number)
            rows.add(some, amounts, first[some] + number, -1)
        rows.derive(np.arange(len(ways)))
        fits = self._asker.fits(shape, rows)
        needed: list[list[Unit]] = [[] for _ in ways]
        for number in range(int(counts.max())):
            some = np.flatnonzero((counts > number) & fits)
            free = [
                index
                for index in some.tolist()
                if ways[index].units[number].after not in needed[index]
            ]
            kept = self._kept(shape, rows, amounts, first, np.array(free, np.int64), number)
            for index in some.tolist():
                if index not in kept:
                    needed[index].append(ways[index].units[number])
        return [
            Way(way.position, tuple(needed[index])) for index, way in enumerate(ways) if fits[index]
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
        """Return unit `number` in each of these ways; the ways in which it can stay."""
        if not len(some):
            return set()
        rows.add(some, amounts, first[some] + number)
        rows.derive(some)
        fits = self._asker.fits(shape, rows.take(some))
        bad = some[~fits]
        if len(bad):
            rows.add(bad, amounts, first[bad] + number, -1)
            rows.derive(bad)
        return set(some[fits].tolist())

    def _amounts(self, ways: Sequence[Way]) -> tuple[Amounts, IntArray]:
        """What the units hold at their way's position, one line each, and each way's first line."""
        lines: list[list[PodUid]] = []
        first: list[int] = []
        for way in ways:
            first.append(len(lines))
            lines += [self._here(unit, way.position) for unit in way.units]
        return self._ledger.amounts(lines), np.array(first, np.int64)

    def _name(self, position: int) -> NodeName:
        name = self._ledger.columns.names[int(self._rows.index[position])]
        assert name is not None
        return name

    def _here(self, unit: Unit, position: int) -> list[PodUid]:
        name = self._name(position)
        return [record.pod.uid for record in unit.records if record.node == name]


def _distinct(sets: Iterable[list[Record]]) -> list[list[Record]]:
    """The sets without duplicates, which pods with several cards cause."""
    known = {tuple(record.pod.uid for record in records): records for records in sets}
    return list(known.values())
