"""Score and CardScore: cards that are well joined for pods of several, the others for shares."""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.points import BestSet, ByRoom, CardRank, Cards, Normaliser, RowScore
from kubeshare_py.topology.card_sets import CardSets
from kubeshare_py.topology.company import Company
from kubeshare_py.topology.islands import intact

#: The same for all cards: other policies decide, and idle cards that are the same to them come in
#: order.
_IN_ORDER = ByRoom(np.zeros(WHOLE_MILLI + 1, np.int64), keeps=True)

# What the 100 points of a node are for: the speed of its best idle cards compared with what its
# board can do at most; that speed itself; islands that stay intact. With the default's weight of 10
# half the speed is more than islands, and an island more than all that BinPack can say.
_OF_ITS_BEST, _MOST_SPEED, _ISLANDS = 60, 20, 20
#: Points for each doubling of the slowest hop's GB/s.
_A_DOUBLING = 2
_MB = 1000
#: Not worked out yet.
_UNKNOWN = -1
#: Tables of boards and counts, 2 KiB each at most.
_TABLES_KEPT = 1024


class Topology:
    """Which cards and nodes, by how cards are joined (docs/decisions/0009-which-cards.md).

    Whole cards: the node whose best idle set is fast and breaks little, and of it that set. Shares:
    of idle cards that are the same to the other policies, that which should be broken first.
    """

    name = "Topology"
    normaliser: Normaliser | None = None

    def __init__(self) -> None:
        self._tables: dict[tuple[CardSets, int], IntArray] = {}

    def score(self, shape: Shape) -> RowScore | None:
        """Only for pods of several whole cards."""
        claim = shape.claim
        if claim is None or not claim.exclusive or claim.count == 1:
            return None
        return partial(self._points, claim.count)

    def card_score(self, shape: Shape) -> CardRank | BestSet | None:
        """A set for several whole cards, else card by card."""
        claim = shape.claim
        if claim is not None and claim.exclusive and claim.count > 1:
            return BestSet(partial(_best, claim.count), partial(_nearest, claim.count))
        return _IN_ORDER

    def together(self, count: int) -> RowScore:
        """A gang on one node is judged as one pod with so many cards."""
        return partial(self._points, count)

    def _points(self, count: int, rows: Rows, cards: Cards | None) -> IntArray:
        boards, idle = rows.column("board"), rows.column("idle_cards")
        points = np.zeros(len(boards), np.int64)
        for number in sorted({*boards.tolist()}):
            there = np.flatnonzero(boards == number)
            points[there] = self._on_board(rows.boards[number], count, idle[there])
        return points

    def _on_board(self, sets: CardSets, count: int, idle: IntArray) -> IntArray | int:
        """By a table of all sets of idle cards, filled where it is asked for."""
        if not sets.is_small:
            return _speed_points(sets, sets.slowest_hop(sets.everything), count)
        table = self._tables.get((sets, count))
        if table is None:
            table = np.full(sets.everything + 1, _UNKNOWN)
            if len(self._tables) >= _TABLES_KEPT:
                self._tables.clear()
            self._tables[sets, count] = table
        points = table.take(idle)
        if (points == _UNKNOWN).any():
            for cards in sorted({*idle[points == _UNKNOWN].tolist()}):
                table[cards] = _points_of(sets, count, cards)
            points = table.take(idle)
        return points


def _points_of(sets: CardSets, wanted: int, idle: int) -> int:
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
    return relative + min(_MOST_SPEED, _A_DOUBLING * (speed // _MB).bit_length())


def _best(count: int, rows: Rows, fits: NDArray[np.bool_]) -> tuple[int, ...]:
    """The best of the cards that fit; where nothing is known of them, the first."""
    return _set(count, rows, fits, lambda sets, there: sets.choose(there, count))


def _nearest(count: int, rows: Rows, fits: NDArray[np.bool_], company: Company) -> tuple[int, ...]:
    """The best for a member of a gang."""
    return _set(count, rows, fits, lambda sets, there: sets.part(there, count, company))


def _set(
    count: int, rows: Rows, fits: NDArray[np.bool_], choose: Callable[[CardSets, int], int]
) -> tuple[int, ...]:
    bits: list[int] = rows.column("bit")[0].tolist()
    slots = np.flatnonzero(fits).tolist()
    there = sum(bits[slot] for slot in slots)
    chosen = choose(rows.boards[rows.column("board").item(0)], there)
    if not chosen:
        return tuple(slots[:count])
    best = [slot for slot in slots if bits[slot] & chosen]
    return tuple(sorted(best, key=bits.__getitem__))
