"""Counts what a pod takes of a row's cards, in the columns of the ledger or of an overlay."""

from collections.abc import Sequence
from dataclasses import replace

from kubeshare_py.cluster.card_tags import count_tags
from kubeshare_py.cluster.columns import ABSENT, Columns
from kubeshare_py.cluster.derived import derive_card, derive_node, hold_back
from kubeshare_py.cluster.joined import derive_order
from kubeshare_py.domain.allocation import Allocation


def count_cards(
    columns: Columns, row: int, slots: Sequence[int], allocation: Allocation, sign: int, native: int
) -> bool:
    """Add (sign 1) or subtract (-1) an allocation, and update the derived columns.

    `slots` are those of its cards. False if fewer cards are idle than native pods hold on the row.
    """
    free_milli, free_bytes = columns.free_milli, columns.free_bytes
    tenants, idle, flags = columns.tenants, columns.idle, columns.flags
    taken, flipped = 0, False
    for slot, card in zip(slots, allocation.cards, strict=True):
        free_milli[row, slot] = free_milli.item(row, slot) - sign * card.milli
        free_bytes[row, slot] = free_bytes.item(row, slot) - sign * card.memory_bytes
        tenants[row, slot] = tenants.item(row, slot) + sign
        if card.exclusive:
            columns.exclusive[row, slot] = columns.exclusive.item(row, slot) + sign
        if card.tags:
            count_tags(columns, row, slot, card.tags, sign)
        was_idle = idle.item(row, slot)
        flipped |= was_idle != derive_card(columns, row, slot)
        if not flags.item(row, slot) & ABSENT:
            taken += card.milli
    columns.gpu_free_milli[row] -= sign * taken
    enough = True
    if native:
        enough = hold_back_cards(columns, row, native)
    elif flipped:
        derive_order(columns, row)
    derive_node(columns, row)
    return enough


def hold_back_cards(columns: Columns, row: int, native: int) -> bool:
    """Keep idle cards for native pods, and write the order of the others; False if too few."""
    enough = hold_back(columns, row, native)
    derive_order(columns, row)
    return enough


def with_slots(
    columns: Columns, row: int, allocation: Allocation | None
) -> tuple[list[int], Allocation | None]:
    """The slots of the cards that have one in this row, and the allocation of only these."""
    if allocation is None:
        return [], None
    uuids = columns.uuids[row]
    cards = tuple(card for card in allocation.cards if card.uuid in uuids)
    if len(cards) < len(allocation.cards):
        allocation = replace(allocation, cards=cards)
    return [uuids.index(card.uuid) for card in cards], allocation
