"""Cards that an allocation names by their index, because its pod's annotations do.

The index of a card is the driver's, and may be another card's after a repair. So an index is looked
up once, in the first list of the node's cards that has it; from then on the pod holds that card.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kubeshare_py.domain.allocation import Allocation, CardCharge, summed
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, index_of


def has_indices(allocation: Allocation | None) -> bool:
    """Whether it names a card by an index that was not found yet."""
    return allocation is not None and any(
        index_of(card.uuid) is not None for card in allocation.cards
    )


def looked_up(allocation: Allocation, gpus: Sequence[Gpu]) -> Allocation:
    """The allocation with the uuids of the cards that a node lists; the same if none is found.

    An index means a whole card. It means a MIG instance only if no other card or instance has it.
    """
    found: dict[GpuUuid, Gpu] = {}
    for card in allocation.cards:
        index = index_of(card.uuid)
        gpu = None if index is None else _with_index(gpus, index)
        if gpu is not None:
            found[card.uuid] = gpu
    if not found:
        return allocation
    claims = tuple(replace(one, cards=_named(one.cards, found)) for one in allocation.claims)
    return replace(allocation, cards=_named(allocation.cards, found), claims=claims)


def _with_index(gpus: Sequence[Gpu], index: int) -> Gpu | None:
    """The one card of this index; None if none or several have it."""
    named = [gpu for gpu in gpus if gpu.index == index]
    whole = [gpu for gpu in named if gpu.parent is None] or named
    return whole[0] if len(whole) == 1 else None


def _named(cards: Sequence[CardCharge], found: Mapping[GpuUuid, Gpu]) -> tuple[CardCharge, ...]:
    return summed(
        replace(card, uuid=found[card.uuid].uuid, model=found[card.uuid].model)
        if card.uuid in found
        else card
        for card in cards
    )
