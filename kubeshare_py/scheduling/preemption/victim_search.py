"""Finds the victims that make room for one more pod: all candidates at once, on private rows.

A candidate begins with all evictable pods removed from the cards that it is about, or from the
node if more than cards is short. Then pods are reprieved, the most important first, while the
plugins say that the preemptor still fits. The pods that remain are needed: none of them could stay.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice

import numpy as np

from kubeshare_py.cluster.columns import ABSENT, CORDONED, UNHEALTHY, IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.what_if import Amounts, WhatIf
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.scheduling.preemption.potential_victims import (
    EvictionGroup,
    PotentialVictims,
    cost,
)
from kubeshare_py.scheduling.queue.pod_records import Record

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
