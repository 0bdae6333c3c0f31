"""The cards that a pod's group has, and is still to get, on one board.

A member should be near them.

Sets are bits: position p of the board is 1 << p.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from kubeshare_py.topology.rings import NO_CARDS, PositionSet, members


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
