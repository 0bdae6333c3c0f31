"""Splits a long reading into portions, so that taking in one of them is always quick."""

from collections.abc import Iterator

from kubeshare_py.domain.events import InventoryRead

#: Taking in a card costs about 7 µs, and more on a node with many pods.
CARDS_A_PORTION = 400


def portions(read: InventoryRead, most: int = CARDS_A_PORTION) -> Iterator[InventoryRead]:
    """The reading in portions, in order; all but the last have `more` set.

    A portion ends with the node whose cards fill it; a node without cards counts as one card.
    """
    first = size = 0
    for number, (_, cards) in enumerate(read.changed, 1):
        size += max(len(cards), 1)
        if size >= most and number < len(read.changed):
            yield InventoryRead(read.changed[first:number], more=True)
            first, size = number, 0
    yield InventoryRead(read.changed[first:], read.silent, more=read.more)
