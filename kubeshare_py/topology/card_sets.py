"""Chooses cards of a board: the best set of a size, and the order in which shares break idle cards.

Sets are bits: position p of the board is 1 << p. docs/decisions/0009-which-cards.md says why sets
are ordered in this way.
"""

from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.topology.gang_context import GangContext, divisions
from kubeshare_py.topology.growth import grown
from kubeshare_py.topology.islands import MAX_FOR_CLIQUES, broken, intact, islands
from kubeshare_py.topology.node_topology import NodeTopology
from kubeshare_py.topology.rings import NO_CARDS, PositionSet, members, ring_bandwidths, totals

#: The most cards of a board on which all sets are compared; on larger boards a set is grown from
#: each card.
MAX_FOR_SEARCH = 8

#: The worth of a set; the greater is better. The slowest hop in MB/s; minus the number of intact
#: islands that break, widest level first; the sum of bandwidth over pairs; the same over pairs of
#: cards that stay idle; the positions, negated.
SetScore = tuple[int, tuple[int, ...], int, int, tuple[int, ...]]


#: The most results that are cached. Small boards have fewer; on large ones all are then dropped.
MAX_REMEMBERED = 4096


class CardSets:
    """The choices on one board, each computed at the first request and cached.

    `idle`, `taken`, `cards` and results that are int are sets of positions, as bits.
    """

    def __init__(self, topology: NodeTopology) -> None:
        self.board = topology
        self.islands = islands(topology.bandwidth)
        self._chosen: dict[tuple[PositionSet, int, PositionSet], PositionSet] = {}
        self._orders: dict[PositionSet, tuple[int, ...]] = {}
        self._divided: dict[tuple[PositionSet, tuple[int, ...]], tuple[PositionSet, ...]] = {}
        self._places: dict[tuple[PositionSet, GangContext], tuple[int, ...]] = {}
        self.everything = PositionSet((1 << topology.count) - 1)
        #: Whether all sets can be compared and kept in a table.
        self.is_small = topology.count <= MAX_FOR_SEARCH
        self._rings = ring_bandwidths(topology.bandwidth) if self.is_small else []
        self._totals = totals(topology.bandwidth) if self.is_small else []
        #: Each card's island at each level; for a card in none, all positions and one more.
        beyond = PositionSet((1 << topology.count + 1) - 1)
        self._homes = [
            [next((one for one in level if one >> card & 1), beyond) for level in self.islands]
            for card in range(topology.count)
        ]
        self._matrix = np.array(topology.bandwidth, np.int64).reshape(
            topology.count, topology.count
        )

    def choose(self, idle: PositionSet, count: int, taken: PositionSet = NO_CARDS) -> PositionSet:
        """The best `count` of the idle cards, as a set of positions; 0 if fewer are idle.

        Best means together with the cards `taken` by the same group, as if these were idle too.
        """
        key = (idle, count, taken)
        chosen = self._chosen.get(key)
        if chosen is None:
            _make_room(self._chosen)
            chosen = self._chosen[key] = self._best(PositionSet(idle & ~taken), count, taken)
        return chosen

    def part(self, idle: PositionSet, size: int, gang_context: GangContext) -> PositionSet:
        """The best `size` of the idle cards for a member of a group, as a set; 0 if fewer are idle.

        It is a part, well joined in itself, of the best cards for the whole group.
        """
        if idle.bit_count() < size:
            return NO_CARDS
        parts = self._parts(idle, size, gang_context)
        part = next(one for one in parts if one.bit_count() == size)
        self._follows(idle, part, PositionSet(sum(parts)), gang_context.taken)
        return part

    def places(self, idle: PositionSet, gang_context: GangContext) -> tuple[int, ...]:
        """The rank of each position for a share of a member of a group; 0 is taken first.

        Cards in use come before idle ones, and those where the group is come first. Of idle cards,
        those that are best together for the rest of the group come first.
        """
        key = (idle, gang_context)
        places = self._places.get(key)
        if places is None:
            _make_room(self._places)
            places = self._places[key] = self._placed(idle, gang_context)
        return places

    def links(self, cards: PositionSet, others: PositionSet) -> int:
        """The sum of bandwidth, in MB/s, between two sets of positions."""
        rows, beyond = self.board.bandwidth, members(others)
        return sum(rows[one][other] for one in members(cards) for other in beyond)

    def order(self, idle: PositionSet) -> tuple[int, ...]:
        """The idle positions in the order in which shares should break them.

        Cards of an island that is already broken come first, then those that are joined worst to
        the others. `worths` orders single cards in the same way.
        """
        order = self._orders.get(idle)
        if order is None:
            _make_room(self._orders)
            order = self._orders[idle] = self._ordered(idle)
        return order

    def worths(self, idle: PositionSet) -> Callable[[PositionSet], SetScore]:
        """A function that gives the worth of taking a set out of the idle cards."""
        now = intact(self.islands, idle)

        def worth(cards: PositionSet) -> SetScore:
            return (
                self.slowest_hop(cards),
                tuple(-count for count in broken(now, cards)),
                self._total(cards),
                self._total(PositionSet(idle & ~cards)),
                tuple(-position for position in members(cards)),
            )

        return worth

    def slowest_hop(self, cards: PositionSet) -> int:
        """The bandwidth of the slowest hop of a set's best ring.

        On large boards of its slowest pair.

        In MB/s. Behind switches both are the same. 0 for a single card.
        """
        if self.is_small:
            return self._rings[cards]
        rows = self.board.bandwidth
        return min((rows[a][b] for a, b in combinations(members(cards), 2)), default=0)

    def _total(self, cards: PositionSet) -> int:
        if self.is_small:
            return self._totals[cards]
        chosen = self._vector(cards)
        return int(chosen @ self._matrix @ chosen) // 2

    def _vector(self, cards: PositionSet) -> NDArray[np.int64]:
        return np.array([cards >> position & 1 for position in range(self.board.count)], np.int64)

    def _ordered(self, idle: PositionSet) -> tuple[int, ...]:
        reach = (self._matrix @ self._vector(idle)).tolist()

        def key(card: int) -> tuple[list[bool], int, int]:
            return [home & idle == home for home in self._homes[card]], reach[card], card

        return tuple(sorted(members(idle), key=key))

    def _parts(
        self, idle: PositionSet, size: int, gang_context: GangContext
    ) -> tuple[PositionSet, ...]:
        """The sets for each member of the group, this pod included; single cards come last."""
        sizes, taken = gang_context.sizes(size, idle), gang_context.taken
        together = self.choose(idle, sum(sizes), taken)
        if not self.is_small and self.board.count <= MAX_FOR_CLIQUES:
            # A set grown for all members may miss the best one for each.
            worth = self.worths(PositionSet(idle | taken))
            parts = self._one_by_one(idle, sizes, taken)
            if worth(PositionSet(sum(parts) | taken)) > worth(PositionSet(together | taken)):
                return parts
        return self._divide(together, sizes)

    def _divide(self, cards: PositionSet, sizes: tuple[int, ...]) -> tuple[PositionSet, ...]:
        """Divide a set so that the slowest hop of the worst part is fastest, and so on.

        On large boards, one part after the other gets the best of the remaining cards.
        """
        key = (cards, sizes)
        parts = self._divided.get(key)
        if parts is None:
            _make_room(self._divided)
            if self.is_small:
                parts = max(divisions(cards, sizes), key=self._joined)
            else:
                parts = self._one_by_one(cards, sizes, NO_CARDS)
            self._divided[key] = parts
        return parts

    def _one_by_one(
        self, idle: PositionSet, sizes: tuple[int, ...], taken: PositionSet
    ) -> tuple[PositionSet, ...]:
        """Each part in turn gets the best remaining cards; single cards are chosen together."""
        parts = []
        for size in sizes:
            if size > 1:
                parts.append(self.choose(idle, size))
                idle = PositionSet(idle & ~parts[-1])
        singles = len(sizes) - len(parts)
        before = PositionSet(taken | sum(parts))
        rest = self.choose(idle, singles, before) if singles else NO_CARDS
        return (*parts, *(PositionSet(1 << card) for card in members(rest)))

    def _joined(self, parts: Iterable[PositionSet]) -> tuple[list[int], int]:
        several = [part for part in parts if part & (part - 1)]
        return sorted(map(self.slowest_hop, several)), sum(map(self._total, several))

    def _placed(self, idle: PositionSet, gang_context: GangContext) -> tuple[int, ...]:
        taken = gang_context.taken
        used = members(PositionSet(self.everything & ~idle))
        places = [0] * self.board.count
        if taken:
            near = sorted(
                used,
                key=lambda one: (
                    not taken >> one & 1,
                    -self.links(PositionSet(1 << one), taken),
                    one,
                ),
            )
            for place, position in enumerate(near):
                places[position] = place
        if not idle:
            return tuple(places)
        parts = self._parts(idle, 1, gang_context)
        single = PositionSet(sum(part for part in parts if not part & (part - 1)))
        others = sum(parts) & ~single

        def key(one: int) -> tuple[int, int, int, int]:
            whose = 0 if single >> one & 1 else 2 if others >> one & 1 else 1
            card = PositionSet(1 << one)
            return whose, -self.links(card, taken), -self.links(card, single), one

        order = sorted(members(idle), key=key)
        self._follows(idle, PositionSet(1 << order[0]), PositionSet(single | others), taken)
        for place, position in enumerate(order, max(1, len(used))):
            places[position] = place
        return tuple(places)

    def _follows(
        self, idle: PositionSet, part: PositionSet, together: PositionSet, taken: PositionSet
    ) -> None:
        """Cache that the rest of a chosen set remains the choice once a part of it is taken.

        On a small board a search would find the same; on a large one it would take long.
        """
        left = PositionSet(together & ~part)
        _make_room(self._chosen)
        key = PositionSet(idle & ~part), left.bit_count(), PositionSet(taken | part)
        self._chosen.setdefault(key, left)

    def _best(self, idle: PositionSet, count: int, taken: PositionSet) -> PositionSet:
        cards = members(idle)
        if count >= len(cards):
            return idle if count == len(cards) else NO_CARDS
        worth = self.worths(PositionSet(idle | taken))
        sets = self._sets(cards, count, taken)
        return max(sets, key=lambda one: worth(PositionSet(one | taken)))

    def _sets(
        self, cards: tuple[int, ...], count: int, taken: PositionSet
    ) -> Iterable[PositionSet]:
        """All sets on a small board; on a large one those grown from `taken` and each card."""
        if self.is_small:
            several = combinations(cards, count)
            return (PositionSet(sum(1 << card for card in one)) for one in several)
        before = members(taken)
        rows = self.board.bandwidth
        found = {one: grown(rows, (*before, one), cards, count - 1) for one in cards}
        return sorted({PositionSet(rest | 1 << one) for one, rest in found.items()})


def _make_room(remembered: dict[Any, Any]) -> None:
    if len(remembered) >= MAX_REMEMBERED:
        remembered.clear()
