"""What a member of a group is to be near: its group's cards on one board, had and to be had.

Sets are bits: position p of the board is 1 << p.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from kubeshare_py.topology.rings import members


@dataclass(frozen=True, slots=True)
class Company:
    """The others of a pod's group, on one board.

    `taken` are the positions where they have cards. `others` says how many idle cards each of those
    wants that come after this pod, the most first: all are chosen together.
    """

    taken: int = 0
    others: tuple[int, ...] = ()

    def sizes(self, size: int, idle: int) -> tuple[int, ...]:
        """What is to be chosen of these idle cards, the most first: `size`, and what else fits."""
        left = idle.bit_count() - size
        chosen = [size]
        for other in self.others:
            if other <= left:
                chosen.append(other)
                left -= other
        return tuple(sorted(chosen, reverse=True))


def divisions(cards: int, sizes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """All ways to divide a set into parts of these sizes, the largest first, which use all of it.

    Single cards are not permuted: they come by position.
    """
    yield from _divisions(cards, sizes, -1)


def _divisions(cards: int, sizes: tuple[int, ...], least: int) -> Iterator[tuple[int, ...]]:
    """`least`: of parts of one size the one with the lower first position comes first."""
    if not sizes or sizes[0] == 1:
        yield tuple(1 << card for card in members(cards))
        return
    size, *rest = sizes
    for part in combinations(members(cards), size):
        if part[0] > least:
            bits = sum(1 << card for card in part)
            after = part[0] if rest and rest[0] == size else -1
            for others in _divisions(cards & ~bits, tuple(rest), after):
                yield (bits, *others)
