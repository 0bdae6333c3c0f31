"""Sets of cards of one board: what each is worth to a program, and which one a pod should get.

Sets are bits: position p of the board is 1 << p. The choice is made in `CardSets`, which nodes of
equal hardware have in common.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NewType

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.topology.node_topology import (
    MAX_FOR_CLIQUES,
    NodeTopology,
    in_order,
    topology_of,
)

# The worth of a set of cards to a program that runs on all of them. Sets are bits.


Bandwidths = Sequence[Sequence[int]]
#: A set of positions on a board, which are cards: position p is the bit 1 << p.
PositionSet = NewType("PositionSet", int)
NO_CARDS = PositionSet(0)

#: For a path of one card: faster than any hop.
_NO_HOP = 1 << 62


def members(cards: PositionSet) -> tuple[int, ...]:
    """The positions in a set, ascending."""
    return tuple(position for position in range(cards.bit_length()) if cards >> position & 1)


def totals(bandwidth: Bandwidths) -> list[int]:
    """For every set of positions, indexed by its bits, the sum of bandwidth over its pairs."""
    sums = [0]
    for card, row in enumerate(bandwidth):
        reached = [0]
        for other in range(card):
            reached += [before + row[other] for before in reached]
        sums += [before + more for before, more in zip(sums, reached, strict=True)]
    return sums


def ring_bandwidths(bandwidth: Bandwidths) -> list[int]:
    """For every set of positions, indexed by its bits, the slowest hop of its best ring, in MB/s.

    For two cards it is the bandwidth of their pair, for fewer 0. This is the Held-Karp algorithm:
    `slowest[cards][end]` is the slowest hop of the best path from the first of these cards through
    all of them to `end`. Time grows as 2**n * n * n, unless all hops are equal:
    only boards of at most MAX_FOR_SEARCH cards are searched so.
    """
    count = len(bandwidth)
    speeds = {row[other] for card, row in enumerate(bandwidth) for other in range(card)}
    if len(speeds) == 1:
        (speed,) = speeds
        return [speed if cards & (cards - 1) else 0 for cards in range(1 << count)]
    slowest = [[0] * count for _ in range(1 << count)]
    rings = [0] * (1 << count)
    sets = [members(PositionSet(cards)) for cards in range(1 << count)]
    for cards in range(1, 1 << count):
        first, *ends = sets[cards]
        if not ends:
            slowest[cards][first] = _NO_HOP
        for end in ends:
            row, before = bandwidth[end], cards & ~(1 << end)
            paths = slowest[before]
            best = max(min(paths[last], row[last]) for last in sets[before])
            slowest[cards][end] = best
            rings[cards] = max(rings[cards], min(best, row[first]))
    return rings


# Grows sets of cards card by card, for boards with too many sets to compare all of them.


def grown(
    bandwidth: Bandwidths, seeds: tuple[int, ...], cards: tuple[int, ...], count: int
) -> PositionSet:
    """`count` of these cards, without the seeds, as a set of positions in bits.

    Each step adds the card that is nearest to the set, and among equally near ones the card that
    the remaining cards miss least.
    """
    left = {card: sum(bandwidth[card][other] for other in cards) for card in cards}
    slowest = dict.fromkeys(cards, _NO_HOP)
    reach = dict.fromkeys(cards, 0)
    found, added = 0, seeds
    for _ in range(count):
        for card in added:
            for known in (left, slowest, reach):
                known.pop(card, None)
            for other in left:
                most = bandwidth[card][other]
                slowest[other] = min(slowest[other], most)
                reach[other] += most
        best = max(left, key=lambda one: (slowest[one], reach[one], -left[one], -one))
        found |= 1 << best
        added = (best,)
    return PositionSet(found)


# The cards that a pod's group has, and is still to get, on one board.
#
# A member should be near them.
#
# Sets are bits: position p of the board is 1 << p.


@dataclass(frozen=True, slots=True)
class GangContext:
    """The other members of a pod's group, on one board.

    `taken` is the set of positions, as bits, where they have cards. `others` are the numbers of
    idle cards that members after this pod claim, largest first: all of them are chosen together.
    """

    taken: PositionSet = NO_CARDS
    others: tuple[int, ...] = ()

    def sizes(self, size: int, idle: PositionSet) -> tuple[int, ...]:
        """The set sizes to choose among these idle cards, largest first.

        `size`, and others that fit.

        `idle` is a set of positions, as bits.
        """
        left = idle.bit_count() - size
        chosen = [size]
        for other in self.others:
            if other <= left:
                chosen.append(other)
                left -= other
        return tuple(sorted(chosen, reverse=True))


def divisions(cards: PositionSet, sizes: tuple[int, ...]) -> Iterator[tuple[PositionSet, ...]]:
    """All ways to divide a whole set, given as bits, into parts of these sizes, largest first.

    Single cards are not permuted: they come by position.
    """
    yield from _divisions(cards, sizes, -1)


def _divisions(
    cards: PositionSet, sizes: tuple[int, ...], least: int
) -> Iterator[tuple[PositionSet, ...]]:
    """`least`: among parts of one size, the part with the lower first position comes first."""
    if not sizes or sizes[0] == 1:
        yield tuple(PositionSet(1 << card) for card in members(cards))
        return
    size, *rest = sizes
    for part in combinations(members(cards), size):
        if part[0] > least:
            bits = PositionSet(sum(1 << card for card in part))
            after = part[0] if rest and rest[0] == size else -1
            for others in _divisions(PositionSet(cards & ~bits), tuple(rest), after):
                yield (bits, *others)


# Islands: cards that reach each other faster than others reach them, as sets of positions.
#
# Position p is bit 1 << p.


Matrix = Sequence[Sequence[int]]


def islands(bandwidth: Matrix) -> tuple[tuple[PositionSet, ...], ...]:
    """The islands at each level, widest level first, where every card reaches every other.

    A level is a bandwidth that occurs (MB/s). Its islands are sets of two or more cards in which
    each pair has at least that bandwidth. The largest are found first, so that a cube mesh is two
    quads and not a ring of pairs. Levels with the same islands as the level before are left out.
    """
    cards = range(len(bandwidth))
    found: list[tuple[PositionSet, ...]] = []
    for least in sorted({bandwidth[one][other] for one, other in combinations(cards, 2)}):
        level = tuple(sorted(_bits(group) for group in _groups(bandwidth, least)))
        if level and level not in found:
            found.append(level)
    return tuple(found)


def intact(levels: Iterable[Sequence[PositionSet]], idle: PositionSet) -> list[list[PositionSet]]:
    """The islands of which all cards are idle, level by level; `idle` is a set of positions."""
    return [[island for island in level if island & idle == island] for level in levels]


def broken(intact_islands: Iterable[Sequence[PositionSet]], taken: PositionSet) -> tuple[int, ...]:
    """How many intact islands lose some of their cards but not all, level by level."""
    return tuple(
        sum(island & taken not in (0, island) for island in level) for level in intact_islands
    )


def _groups(bandwidth: Matrix, least: int) -> Iterable[Iterable[int]]:
    """Disjoint groups of two or more cards."""
    cards = range(len(bandwidth))
    if all(bandwidth[one][other] >= least for one, other in combinations(cards, 2)):
        return [cards]
    # Imported late: see its head.
    from kubeshare_py.topology.card_graph import joined_groups  # noqa: PLC0415

    return joined_groups(bandwidth, least)


def _bits(cards: Iterable[int]) -> PositionSet:
    return PositionSet(sum(1 << card for card in cards))


# Chooses cards of a board: the best set of a size, and the order in which shares break idle cards.
#
# Sets are bits: position p of the board is 1 << p. docs/decisions/0009-which-cards.md says why sets
# are ordered in this way.


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


# All boards of a cluster, numbered; a column holds each row's number.


#: The most boards beyond those in use, and cached descriptions, that are kept.
SPARE_BOARDS = 256
#: Sets of positions are kept in columns of 64 bits.
MAX_CARDS = 62


class NodeTopologies:
    """Gives nodes of equal hardware one number, and one CardSets in common.

    Number 0 is the board without cards. It also stands for boards with more than 62 cards, of which
    it is not known how they are joined.
    """

    def __init__(self) -> None:
        nothing = NodeTopology(())
        self.sets: list[CardSets] = [CardSets(nothing)]
        self._numbers: dict[NodeTopology, int] = {nothing: 0}
        self._known: dict[object, int] = {}
        self._most = SPARE_BOARDS

    def number(self, cards: Sequence[Gpu]) -> int:
        """The number of the board of these cards, which are all those of one node."""
        if len(cards) > MAX_CARDS:
            return 0
        ordered = in_order(cards)
        parents = sorted({card.parent for card in ordered if card.parent is not None})
        key = tuple(
            (card.index, card.links, card.numa_node, card.parent and parents.index(card.parent))
            for card in ordered
        )
        known = self._known.get(key)
        if known is None:
            if len(self._known) > 2 * self._most:
                self._known.clear()
            known = self._known[key] = self._numbered(topology_of(ordered))
        return known

    @property
    def is_crowded(self) -> bool:
        """Whether most of the boards may be out of use."""
        return len(self.sets) > self._most

    def renumber(self, column: NDArray[np.int64]) -> NDArray[np.int64]:
        """Drop the boards that are not in this column of numbers; the column with the new numbers.

        Both are (rows,) int64.
        """
        used = np.union1d(column, [0])
        self.sets = [self.sets[number] for number in used.tolist()]
        self._numbers = {sets.board: number for number, sets in enumerate(self.sets)}
        self._known.clear()
        self._most = 2 * len(self.sets) + SPARE_BOARDS
        renumbered: NDArray[np.int64] = np.searchsorted(used, column)
        return renumbered

    def _numbered(self, topology: NodeTopology) -> int:
        number = self._numbers.setdefault(topology, len(self.sets))
        if number == len(self.sets):
            self.sets.append(CardSets(topology))
        return number
