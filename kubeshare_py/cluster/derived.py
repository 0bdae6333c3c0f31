"""Columns that follow from others: flags, room for one more pod, and how full a node is.

They are kept so that plugins can decide with one comparison. Each rule is stated once, for the ints
of one card or node as for the int64 arrays of many: the ledger derives card by card after each
change of the columns that others follow from, and `WhatIf` derives many rows at once. Comparisons
count as 0 or 1.
"""

from collections.abc import Callable
from typing import TypeVar

from kubeshare_py.cluster.columns import (
    ABSENT,
    CORDONED,
    CROWDED,
    EXCLUDING,
    EXCLUSIVE,
    FOREIGN,
    HELD_BACK,
    UNHEALTHY,
    Columns,
    IntArray,
)
from kubeshare_py.domain.gpu import WHOLE_MILLI

#: One entry of a column of cards or nodes, or many: an int64 array of the column's shape.
Entries = TypeVar("Entries", int, IntArray)
#: The flags that charges do not change.
_LASTING = ABSENT | UNHEALTHY | CORDONED | FOREIGN

# --- the rules -------------------------------------------------------------------------------


def flags_of(
    before: Entries,
    tenants: Entries,
    max_tenants: Entries,
    exclusive: Entries,
    excluding: Entries,
) -> Entries:
    """A card's flags without HELD_BACK; those that charges do not change are as `before`."""
    is_crowded = (max_tenants > 0) & (tenants >= max_tenants)
    alone = (exclusive > 0) * EXCLUSIVE | (excluding > 0) * EXCLUDING
    flags: Entries = before & _LASTING | alone | is_crowded * CROWDED
    return flags


def held_back(
    flags: Entries, idle: Entries, idle_from: Entries, idle_all: Entries, native: Entries
) -> Entries:
    """HELD_BACK for the last idle cards of a row, as many as native pods hold; else 0.

    If fewer are idle, all cards are held back. `idle_from` counts the row's idle cards from this
    one on, `idle_all` all of them, and `native` the GPUs of native pods.
    """
    is_last = (idle > 0) & (idle_from <= native)
    is_short = (idle_all < native) & (flags & ABSENT == 0)
    held: Entries = (is_last | is_short) * HELD_BACK
    return held


def room(
    flags: Entries,
    tenants: Entries,
    free_milli: Entries,
    free_bytes: Entries,
    share_bytes: Entries,
    least: Callable[[Entries, Entries | int], Entries],
) -> tuple[Entries, Entries, Entries]:
    """A card's `headroom`, `share_headroom` and `idle`; `least` is `min` or `np.minimum`.

    `share_bytes` is 1 or more, also for a card that is absent.
    """
    is_open = flags == 0
    # The largest share whose default memory is free. A pod asks for one card at most, whatever the
    # card's cores are scaled to.
    widest = ((free_bytes + 1) * WHOLE_MILLI - 1) // share_bytes
    both = least(least(free_milli, WHOLE_MILLI), widest)
    # An overdrawn card has -1, like one with flags: tables by headroom are indexed with it.
    headroom: Entries = (is_open & (both >= 0)) * (both + 1) - 1
    share_headroom: Entries = is_open * (free_milli + 1) - 1
    idle: Entries = is_open * (tenants == 0)
    return headroom, share_headroom, idle


def used_percent(
    whole: Entries, gpu_free_milli: Entries, least: Callable[[Entries, Entries | int], Entries]
) -> Entries:
    """How full a node's cards are, in percent; 0 for a node without cards.

    `whole` is `gpu_capacity_milli`.
    """
    used = least(whole, whole - gpu_free_milli)
    percent: Entries = used * 100 // (whole + (whole == 0))
    return percent


# --- in the tables ---------------------------------------------------------------------------

#: The room of every card with flags.
_NO_ROOM = room(ABSENT, 0, 0, 0, 1, min)


def derive_card(columns: Columns, row: int, slot: int) -> int:
    """Write the flags that follow from a card's tenants, and its room for one more pod.

    Returns 1 if the card is idle, or 0.
    """
    tenants, before = columns.tenants.item(row, slot), columns.flags.item(row, slot)
    most, exclusive = columns.max_tenants.item(row, slot), columns.exclusive.item(row, slot)
    flags = flags_of(before, tenants, most, exclusive, columns.excluding.item(row, slot))
    if flags != before:
        columns.flags[row, slot] = flags
    if flags:
        values = _NO_ROOM
    else:
        milli, memory = columns.free_milli.item(row, slot), columns.free_bytes.item(row, slot)
        with_share = columns.share_bytes.item(row, slot)
        values = room(flags, tenants, milli, memory, with_share, min)
    columns.headroom[row, slot], columns.share_headroom[row, slot], columns.idle[row, slot] = values
    return values[2]


def hold_back(columns: Columns, row: int, native: int) -> bool:
    """Derive a row's cards, where native pods hold so many of its GPUs.

    False if fewer are idle: then all cards are held back.
    """
    slots = range(len(columns.uuids[row]))
    for slot in slots:
        derive_card(columns, row, slot)
    idle: list[int] = columns.idle[row].tolist()
    idle_from = idle_all = sum(idle)
    for slot in slots if native else ():
        flags = columns.flags.item(row, slot)
        held = held_back(flags, idle[slot], idle_from, idle_all, native)
        idle_from -= idle[slot]
        if held:
            columns.flags[row, slot] = flags | held
            columns.headroom[row, slot], columns.share_headroom[row, slot] = _NO_ROOM[:2]
            columns.idle[row, slot] = _NO_ROOM[2]
    return native <= idle_all


def derive_node(columns: Columns, row: int) -> None:
    """Write how full the node's cards are, in percent."""
    whole, free = columns.gpu_capacity_milli.item(row), columns.gpu_free_milli.item(row)
    columns.gpu_used_percent[row] = used_percent(whole, free, min)
