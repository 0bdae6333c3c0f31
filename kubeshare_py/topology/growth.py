"""Sets of cards grown card by card: for boards with too many sets to look at all of them."""

from kubeshare_py.topology.rings import Matrix

#: Faster than any hop.
_NO_HOP = 1 << 62


def grown(bandwidth: Matrix, seeds: tuple[int, ...], cards: tuple[int, ...], count: int) -> int:
    """So many of these cards beside the seeds, which are not in the answer; as bits.

    The card that is nearest to those in the set is added, and of these the one that the cards
    outside miss the least.
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
    return found
