"""The worth of a set of cards to a program that runs on all of them. Sets are bits."""

from collections.abc import Sequence
from typing import NewType

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
    all of them to `end`. Time grows as 2**n * n * n, unless all hops are equal.
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
