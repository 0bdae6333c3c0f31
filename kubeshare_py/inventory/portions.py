"""A long reading in portions, so that taking in one of them never takes the scheduler long."""

from collections.abc import Iterator

from kubeshare_py.domain.events import InventoryRead

#: Taking in a card costs about 7 us, on a node with many pods more.
CARDS_A_PORTION = 400


def portions(read: InventoryRead, most: int = CARDS_A_PORTION) -> Iterator[InventoryRead]:
    """The same in order: all but the last say that there is `more`.

    A portion ends with the node whose cards fill it; one without cards counts as one.
    """
    first = size = 0
    for number, (_, cards) in enumerate(read.changed, 1):
        size += max(len(cards), 1)
        if size >= most and number < len(read.changed):
            yield InventoryRead(read.changed[first:number], more=True)
            first, size = number, 0
    yield InventoryRead(read.changed[first:], read.silent, more=read.more)
