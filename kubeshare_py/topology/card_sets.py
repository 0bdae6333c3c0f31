"""Which cards of a board: the best set of so many, and the order in which idle cards are broken.

Sets are bits: position p of the board is 1 << p. Why sets are ordered as they are:
docs/decisions/0009-which-cards.md.
"""

from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.topology.board import Board
from kubeshare_py.topology.company import Company, divisions
from kubeshare_py.topology.growth import grown
from kubeshare_py.topology.islands import MOST_FOR_CLIQUES, broken, intact, islands
from kubeshare_py.topology.rings import members, ring_bandwidths, totals

#: Boards up to this size are searched whole; on larger ones a set is grown from each card.
MOST_FOR_SEARCH = 8

#: Of two sets the greater is better. The slowest hop; intact islands that break, negative, widest
#: level first; the sum over pairs; the sum over pairs of what stays idle; positions, negative.
Worth = tuple[int, tuple[int, ...], int, int, tuple[int, ...]]


#: Small boards have fewer sets; for large ones all are forgotten when there are so many.
MOST_REMEMBERED = 4096

IntArray = NDArray[np.int64]


class CardSets:
    """The choices on one board. Each is worked out when it is first asked for, and remembered."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.islands = islands(board.bandwidth)
        self._chosen: dict[tuple[int, int, int], int] = {}
        self._orders: dict[int, tuple[int, ...]] = {}
        self._divided: dict[tuple[int, tuple[int, ...]], tuple[int, ...]] = {}
        self._places: dict[tuple[int, Company], tuple[int, ...]] = {}
        self.everything = (1 << board.count) - 1
        #: Whether all sets can be looked at, and kept in a table.
        self.is_small = board.count <= MOST_FOR_SEARCH
        self._rings = ring_bandwidths(board.bandwidth) if self.is_small else []
        self._totals = totals(board.bandwidth) if self.is_small else []
        #: Each card's island at each level; where it is in none, all positions and one more.
        beyond = (1 << board.count + 1) - 1
        self._homes = [
            [next((one for one in level if one >> card & 1), beyond) for level in self.islands]
            for card in range(board.count)
        ]
        self._matrix = np.array(board.bandwidth, np.int64).reshape(board.count, board.count)

    def choose(self, idle: int, count: int, taken: int = 0) -> int:
        """The best `count` of the idle cards; 0 where there are not so many.

        Best together with those that are `taken` by the same group, as if these were idle too.
        """
        key = (idle, count, taken)
        chosen = self._chosen.get(key)
        if chosen is None:
            _make_room(self._chosen)
            chosen = self._chosen[key] = self._best(idle & ~taken, count, taken)
        return chosen

    def part(self, idle: int, size: int, company: Company) -> int:
        """The best `size` of the idle cards for a member of a group; 0 if there are not so many.

        Of all that the group is to get it is a part that is well joined itself.
        """
        if idle.bit_count() < size:
            return 0
        parts = self._parts(idle, size, company)
        part = next(one for one in parts if one.bit_count() == size)
        self._follows(idle, part, sum(parts), company.taken)
        return part

    def places(self, idle: int, company: Company) -> tuple[int, ...]:
        """By position: when a share for a member of a group should take a card, 0 for the first.

        Cards in use come before idle ones, those where the group is first. Of idle ones those come
        first that are the best together for all that the group is to get.
        """
        key = (idle, company)
        places = self._places.get(key)
        if places is None:
            _make_room(self._places)
            places = self._places[key] = self._placed(idle, company)
        return places

    def links(self, cards: int, others: int) -> int:
        """The sum of bandwidth between two sets of positions."""
        rows, beyond = self.board.bandwidth, members(others)
        return sum(rows[one][other] for one in members(cards) for other in beyond)

    def order(self, idle: int) -> tuple[int, ...]:
        """The idle cards in the order in which shares should break them, first one first.

        One of an island that is broken already, then the one that is joined worst to the others:
        what `worths` says of single cards.
        """
        order = self._orders.get(idle)
        if order is None:
            _make_room(self._orders)
            order = self._orders[idle] = self._ordered(idle)
        return order

    def worths(self, idle: int) -> Callable[[int], Worth]:
        """How good it is to take a set of the idle cards."""
        now = intact(self.islands, idle)

        def worth(cards: int) -> Worth:
            return (
                self.slowest_hop(cards),
                tuple(-count for count in broken(now, cards)),
                self._total(cards),
                self._total(idle & ~cards),
                tuple(-position for position in members(cards)),
            )

        return worth

    def slowest_hop(self, cards: int) -> int:
        """Bandwidth of the slowest hop of the best ring; on large boards that of the worst pair.

        Behind switches the two are the same. 0 for a single card.
        """
        if self.is_small:
            return self._rings[cards]
        rows = self.board.bandwidth
        return min((rows[a][b] for a, b in combinations(members(cards), 2)), default=0)

    def _total(self, cards: int) -> int:
        if self.is_small:
            return self._totals[cards]
        chosen = self._vector(cards)
        return int(chosen @ self._matrix @ chosen) // 2

    def _vector(self, cards: int) -> IntArray:
        return np.array([cards >> position & 1 for position in range(self.board.count)], np.int64)

    def _ordered(self, idle: int) -> tuple[int, ...]:
        reach = (self._matrix @ self._vector(idle)).tolist()

        def key(card: int) -> tuple[list[bool], int, int]:
            return [home & idle == home for home in self._homes[card]], reach[card], card

        return tuple(sorted(members(idle), key=key))

    def _parts(self, idle: int, size: int, company: Company) -> tuple[int, ...]:
        """All that the group is to get, divided among its members; single cards come last."""
        sizes, taken = company.sizes(size, idle), company.taken
        together = self.choose(idle, sum(sizes), taken)
        if not self.is_small and self.board.count <= MOST_FOR_CLIQUES:
            # What is grown for all may miss what is best for each.
            worth, parts = self.worths(idle | taken), self._one_by_one(idle, sizes, taken)
            if worth(sum(parts) | taken) > worth(together | taken):
                return parts
        return self._divide(together, sizes)

    def _divide(self, cards: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """So that the slowest hop of the worst part is as fast as can be, then of the next worst.

        On large boards one part after the other gets the best of what is left.
        """
        key = (cards, sizes)
        parts = self._divided.get(key)
        if parts is None:
            _make_room(self._divided)
            if self.is_small:
                parts = max(divisions(cards, sizes), key=self._joined)
            else:
                parts = self._one_by_one(cards, sizes, 0)
            self._divided[key] = parts
        return parts

    def _one_by_one(self, idle: int, sizes: tuple[int, ...], taken: int) -> tuple[int, ...]:
        """One part after the other gets the best of what is left; single cards all together."""
        parts = []
        for size in sizes:
            if size > 1:
                parts.append(self.choose(idle, size))
                idle &= ~parts[-1]
        singles = len(sizes) - len(parts)
        rest = self.choose(idle, singles, taken | sum(parts)) if singles else 0
        return (*parts, *(1 << card for card in members(rest)))

    def _joined(self, parts: Iterable[int]) -> tuple[list[int], int]:
        several = [part for part in parts if part & (part - 1)]
        return sorted(map(self.slowest_hop, several)), sum(map(self._total, several))

    def _placed(self, idle: int, company: Company) -> tuple[int, ...]:
        taken = company.taken
        used = members(self.everything & ~idle)
        places = [0] * self.board.count
        if taken:
            near = sorted(
                used, key=lambda one: (not taken >> one & 1, -self.links(1 << one, taken), one)
            )
            for place, position in enumerate(near):
                places[position] = place
        if not idle:
            return tuple(places)
        parts = self._parts(idle, 1, company)
        single = sum(part for part in parts if not part & (part - 1))
        others = sum(parts) & ~single

        def key(one: int) -> tuple[int, int, int, int]:
            whose = 0 if single >> one & 1 else 2 if others >> one & 1 else 1
            card = 1 << one
            return whose, -self.links(card, taken), -self.links(card, single), one

        order = sorted(members(idle), key=key)
        self._follows(idle, 1 << order[0], single | others, taken)
        for place, position in enumerate(order, max(1, len(used))):
            places[position] = place
        return tuple(places)

    def _follows(self, idle: int, part: int, together: int, taken: int) -> None:
        """Once a part is taken, what is left of what was chosen together is chosen still.

        On a small board a search would find the same; on a large one that takes long.
        """
        left = together & ~part
        _make_room(self._chosen)
        self._chosen.setdefault((idle & ~part, left.bit_count(), taken | part), left)

    def _best(self, idle: int, count: int, taken: int) -> int:
        cards = members(idle)
        if count >= len(cards):
            return idle if count == len(cards) else 0
        worth = self.worths(idle | taken)
        return max(self._sets(cards, count, taken), key=lambda one: worth(one | taken))

    def _sets(self, cards: tuple[int, ...], count: int, taken: int) -> Iterable[int]:
        """All sets on a small board; on a large one what is grown from `taken` and each card."""
        if self.is_small:
            return (sum(1 << card for card in one) for one in combinations(cards, count))
        before = members(taken)
        rows = self.board.bandwidth
        return sorted({grown(rows, (*before, one), cards, count - 1) | 1 << one for one in cards})


def _make_room(remembered: dict[Any, Any]) -> None:
    if len(remembered) >= MOST_REMEMBERED:
        remembered.clear()
