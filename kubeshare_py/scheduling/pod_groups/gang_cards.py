"""Chooses a row's cards for members of a gang, near the cards that other members have or will have.

Members are placed one after the other. For their cards to be the best set together, each placement
gets the positions of the row's board that the gang already has, and the number of members to
follow.
"""

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from kubeshare_py.cluster.columns import Columns, IntArray
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.framework.choice import Choice
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.scheduling.queue.gangs import PLACED, Gang
from kubeshare_py.topology.gang_context import GangContext
from kubeshare_py.topology.rings import PositionSet

#: A number of members of one shape.
Some = tuple[Shape, int]
#: The most nodes with members whose links are compared, those with the best scores.
MAX_COMPARED = 16


class GangCards:
    """The cards of one gang's members, by row."""

    def __init__(self, columns: Columns, gang: Gang, among: Collection[int] | None = None) -> None:
        """`among`: only cards of these rows matter."""
        self._columns = columns
        self._slots: dict[int, list[int]] = {}
        for member in gang.members.values() if gang.placed else ():
            node, allocation = member.record.node, member.record.allocation
            if member.role not in PLACED or node is None or allocation is None:
                continue
            row = columns.row_of.get(node)
            if row is not None and (among is None or row in among):
                uuids = columns.uuids[row]
                there = [card.uuid for card in allocation.cards if card.uuid in uuids]
                self.took(row, [uuids.index(uuid) for uuid in there])

    def took(self, row: int, slots: Sequence[int]) -> None:
        """Record that a member got these cards."""
        self._slots.setdefault(row, []).extend(slots)

    def gang_context(
        self, row: int, shape: Shape, here: int, others: Sequence[Some]
    ) -> GangContext | None:
        """The cards that one of `here` members of a shape should be near on this row.

        `others` come to the row after them. None if it makes no difference.
        """
        claims, idle = shape.claims, self._columns.idle_cards.item(row).bit_count()
        largest = int(self._columns.capacity_milli[row].max())
        if not claims or (len(claims) == 1 and _takes_all(claims[0], here, idle, largest)):
            return None
        taken = self._taken(row)
        ahead: tuple[int, ...] = ()
        for claim in claims:
            ahead += _ahead(claim, here, idle, largest)[1:]
        for other, count in others:
            for claim in other.claims:
                ahead += _ahead(claim, count, idle, largest)
        if not taken and not ahead:
            return None
        return GangContext(taken, tuple(sorted(ahead, reverse=True)) if others else ahead)

    def best(self, evaluator: Evaluator, shape: Shape, rows: IntArray, here: int) -> Choice | None:
        """The best place for one of `here` members of a shape.

        It fits at least one of `rows`, (k,) int64. Among rows with members, the one with the most
        bandwidth between its cards and theirs; among equal ones, or without such rows, the one with
        the best score.
        """
        there = [row for row in rows.tolist() if self._taken(row)]
        if not there:
            return evaluator.best_among(shape, rows)
        keys = evaluator.keys(shape).take(there)
        found = []
        for at in np.argsort(-keys, kind="stable")[:MAX_COMPARED].tolist():
            choice = evaluator.at(shape, there[at], self.gang_context(there[at], shape, here, ()))
            if choice is not None:
                found.append(choice)
        return max(found, key=self._nearness, default=None)

    def _nearness(self, choice: Choice) -> tuple[int, int]:
        """How many of these cards the gang has already, and the bandwidth to its others."""
        columns, taken = self._columns, self._taken(choice.row)
        cards = self._bits(choice.row, choice.slots)
        sets = columns.boards.sets[columns.board.item(choice.row)]
        return (cards & taken).bit_count(), sets.links(cards, taken)

    def _taken(self, row: int) -> PositionSet:
        """The positions of the row's board where members have cards, as bits."""
        return self._bits(row, self._slots.get(row, ()))

    def _bits(self, row: int, slots: Iterable[int]) -> PositionSet:
        bits = 0
        for slot in slots:
            bits |= self._columns.position_bit.item(row, slot)
        return PositionSet(bits)


def _takes_all(claim: GpuClaim, here: int, idle: int, largest: int) -> bool:
    """Whether members with whole cards take all idle ones, so that the order does not matter.

    `largest` is the largest capacity of a card, in milli.
    """
    if claim.count > 1:
        return claim.exclusive and claim.count == idle
    is_whole = claim.exclusive or (claim.milli == WHOLE_MILLI and largest < 2 * WHOLE_MILLI)
    return is_whole and here >= idle


def _ahead(claim: GpuClaim, members: int, idle: int, largest: int) -> tuple[int, ...]:
    """How many of these idle cards each of so many members takes at most."""
    if claim.exclusive:
        return (claim.count,) * min(members, idle // claim.count)
    on_one = max(largest // max(claim.milli, 1), 1)
    return (1,) * min(claim.count * -(-members // on_one), idle)
