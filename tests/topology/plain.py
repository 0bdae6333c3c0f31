"""The choice of cards made the plain way: every set looked at, every ring gone round.

Written from docs/decisions/0009-which-cards.md, on sets of numbers, with nothing of the package.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import combinations, permutations

Matrix = tuple[tuple[int, ...], ...]
Cards = frozenset[int]


@cache
def slowest_hop(matrix: Matrix, cards: Cards) -> int:
    """Of the best ring through all cards."""
    if len(cards) < 2:
        return 0
    first, *others = sorted(cards)
    return max(
        min(matrix[a][b] for a, b in zip((first, *way), (*way, first), strict=True))
        for way in permutations(others)
    )


def total(matrix: Matrix, cards: Iterable[int]) -> int:
    return sum(matrix[a][b] for a, b in combinations(sorted(cards), 2))


@cache
def islands(matrix: Matrix) -> tuple[tuple[Cards, ...], ...]:
    """Widest level first; at each level the largest set of cards with at least so much, again and
    again among those that are left.
    """
    everybody = range(len(matrix))
    found: list[tuple[Cards, ...]] = []
    for least in sorted({matrix[a][b] for a, b in combinations(everybody, 2)}):
        left, level = set(everybody), []
        while best := largest(matrix, left, least):
            level.append(best)
            left -= best
        if level and set(level) not in [set(known) for known in found]:
            found.append(tuple(level))
    return tuple(found)


def largest(matrix: Matrix, left: set[int], least: int) -> Cards:
    for size in range(len(left), 1, -1):
        sets = [
            one
            for one in combinations(sorted(left), size)
            if all(matrix[a][b] >= least for a, b in combinations(one, 2))
        ]
        if sets:
            return frozenset(min(sets, key=lambda one: (-total(matrix, one), one)))
    return frozenset()


def broken(matrix: Matrix, idle: Cards, taken: Cards) -> list[int]:
    """How many islands that were idle as a whole are not any more, and were not taken whole."""
    return [
        sum(one <= idle and bool(one & taken) and not one <= taken for one in level)
        for level in islands(matrix)
    ]


def best(matrix: Matrix, idle: Iterable[int], count: int, taken: Iterable[int] = ()) -> Cards:
    """Empty where there are not so many. Together with what is taken it is as good as can be."""
    before = frozenset(taken)
    there = frozenset(idle) | before
    sets = [frozenset(one) for one in combinations(sorted(there - before), count)] if count else []
    return min(
        sets,
        key=lambda one: (
            -slowest_hop(matrix, one | before),
            broken(matrix, there, one | before),
            -total(matrix, one | before),
            -total(matrix, there - before - one),
            sorted(one),
        ),
        default=frozenset(),
    )


def hops_of_best_parts(matrix: Matrix, cards: Iterable[int], sizes: Sequence[int]) -> list[int]:
    """Divided among pods that want so many each: the slowest hop of each, the worst first."""

    def parts(left: Cards, wanted: Sequence[int]) -> Iterator[list[int]]:
        if not wanted:
            yield []
            return
        for part in combinations(sorted(left), wanted[0]):
            for rest in parts(left - {*part}, wanted[1:]):
                yield [slowest_hop(matrix, frozenset(part)), *rest]

    return max(sorted(hops) for hops in parts(frozenset(cards), sizes))


def first_for_shares(matrix: Matrix, idle: Iterable[int]) -> Sequence[int]:
    """Idle cards: of a broken island first, then the worst-connected, then the lowest position."""
    there = frozenset(idle)
    return sorted(
        there,
        key=lambda card: (
            broken(matrix, there, frozenset({card})),
            sum(matrix[card][other] for other in there),
            card,
        ),
    )
