"""Score and CardScore: well-joined cards for pods of several cards, other cards for shares."""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.plugin import (
    WHOLE_MILLI,
    BestCards,
    ByHeadroom,
    CardRank,
    CardSets,
    CardSetScore,
    GangContext,
    IntArray,
    Normaliser,
    Rows,
    RowScore,
    Shape,
)
from kubeshare_py.topology.card_sets import PositionSet, intact

#: Equal for all cards: other policies decide, and among idle cards that they rank equal, the column
#: `break_order` does.
_IN_ORDER = ByHeadroom(np.zeros(WHOLE_MILLI + 1, np.int64), keeps=True)

# The 100 points of a node: the speed of its best idle cards relative to the best that its board can
# do, that speed itself, and islands that stay intact. With the default weight of 10, half the speed
# counts more than islands, and an island more than all points of BinPack.
_OF_ITS_BEST, _MAX_SPEED, _ISLANDS = 60, 20, 20
#: Points for each doubling of the slowest hop's GB/s.
_A_DOUBLING = 2
_MB = 1000
#: Not computed yet.
_UNKNOWN = -1
#: The most tables of boards and counts, of at most 2 KiB each.
_TABLES_KEPT = 1024


class Topology:
    """Ranks cards and nodes by how their cards are joined (docs/decisions/0009-which-cards.md).

    Whole cards: the node whose best idle set is fast and breaks few islands, and that set of it.
    Shares: among idle cards that other policies rank equal, the one that should be broken first.
    """

    name = "Topology"
    normaliser: Normaliser | None = None

    def __init__(self) -> None:
        self._tables: dict[tuple[CardSets, int], IntArray] = {}

    def score(self, shape: Shape) -> RowScore | None:
        """Only for pods of several whole cards; of several such claims, by the largest."""
        if shape.policy is not None:
            return None
        counts = [claim.count for claim in shape.claims if claim.exclusive and claim.count > 1]
        return partial(self._points, max(counts)) if counts else None

    def card_score(self, shape: Shape) -> CardRank | CardSetScore | None:
        """A set for several whole cards, otherwise a rank for each card."""
        claim = shape.claim
        if shape.policy is not None:
            return None
        if claim is not None and claim.exclusive and claim.count > 1:
            return CardSetScore(partial(_best, claim.count), partial(_nearest, claim.count))
        return _IN_ORDER

    def gang_score(self, count: int) -> RowScore:
        """A gang on one node is scored like one pod with so many cards."""
        return partial(self._points, count)

    def _points(self, count: int, rows: Rows, cards: BestCards | None) -> IntArray:
        boards, idle = rows.board, rows.idle_cards
        points = np.zeros(len(boards), np.int64)
        for number in sorted({*boards.tolist()}):
            there = np.flatnonzero(boards == number)
            points[there] = self._on_board(rows.boards[number], count, idle[there])
        return points

    def _on_board(self, sets: CardSets, count: int, idle: IntArray) -> IntArray | int:
        """Points from a table of all sets of idle cards, filled on demand.

        `idle` is (n,) bit sets.
        """
        if not sets.is_small:
            return _speed_points(sets, sets.slowest_hop(sets.everything), count)
        table = self._tables.get((sets, count))
        if table is None:
            table = np.full(sets.everything + 1, _UNKNOWN)
            if len(self._tables) >= _TABLES_KEPT:
                self._tables.clear()
            self._tables[sets, count] = table
        points = table[idle]
        if (points == _UNKNOWN).any():
            for cards in sorted({*idle[points == _UNKNOWN].tolist()}):
                table[cards] = _points_of(sets, count, PositionSet(cards))
            points = table[idle]
        return points


def _points_of(sets: CardSets, wanted: int, idle: PositionSet) -> int:
    chosen = sets.choose(idle, wanted)
    if not chosen:
        return 0
    lost = [
        (island & ~chosen).bit_count()
        for level in intact(sets.islands, idle)
        for island in level
        if island & chosen not in (0, island)
    ]
    count = sets.board.count
    kept = _ISLANDS // 2 * (count - max(lost)) // count if lost else _ISLANDS
    return _speed_points(sets, sets.slowest_hop(chosen), wanted) + kept


def _speed_points(sets: CardSets, speed: int, count: int) -> int:
    fastest = sets.slowest_hop(sets.choose(sets.everything, count))
    relative = _OF_ITS_BEST * speed // fastest if fastest else 0
    return relative + min(_MAX_SPEED, _A_DOUBLING * (speed // _MB).bit_length())


def _best(count: int, rows: Rows, fits: NDArray[np.bool_]) -> tuple[int, ...]:
    """The best of the cards that fit; the first ones if nothing is known about their links."""
    return _set(count, rows, fits, lambda sets, there: sets.choose(there, count))


def _nearest(
    count: int, rows: Rows, fits: NDArray[np.bool_], gang_context: GangContext
) -> tuple[int, ...]:
    """The best of the cards that fit for a member of a gang."""
    return _set(count, rows, fits, lambda sets, there: sets.part(there, count, gang_context))


def _set(
    count: int,
    rows: Rows,
    fits: NDArray[np.bool_],
    choose: Callable[[CardSets, PositionSet], PositionSet],
) -> tuple[int, ...]:
    bits: list[int] = rows.position_bit[0].tolist()
    slots = np.flatnonzero(fits).tolist()
    there = PositionSet(sum(bits[slot] for slot in slots))
    chosen = choose(rows.boards[rows.board.item(0)], there)
    if not chosen:
        return tuple(slots[:count])
    best = [slot for slot in slots if bits[slot] & chosen]
    return tuple(sorted(best, key=bits.__getitem__))
