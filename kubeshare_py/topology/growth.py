"""Grows sets of cards card by card, for boards with too many sets to compare all of them."""

from kubeshare_py.topology.rings import Bandwidths, PositionSet

#: Faster than any hop.
_NO_HOP = 1 << 62


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
