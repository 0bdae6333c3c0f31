"""Columns that follow from others: flags, what a card takes of one more pod, a node's fill.

They are kept so that plugins can decide by one comparison; the ledger calls these functions after
each change of the columns they follow from.
"""

from kubeshare_py.cluster.columns import (
    ABSENT,
    CROWDED,
    EXCLUSIVE,
    HELD_BACK,
    UNHEALTHY,
    Columns,
)
from kubeshare_py.domain.gpu import WHOLE_MILLI, widest_share


def derive_card(columns: Columns, row: int, slot: int) -> None:
    """The flags that follow from a card's tenants, and what it takes of one more pod."""
    tenants = columns.tenants.item(row, slot)
    most = columns.max_tenants.item(row, slot)
    before = columns.flags.item(row, slot)
    flags = before & (ABSENT | UNHEALTHY)
    if columns.exclusive.item(row, slot) > 0:
        flags |= EXCLUSIVE
    if most and tenants >= most:
        flags |= CROWDED
    if flags != before:
        columns.flags[row, slot] = flags
    if flags:
        _close(columns, row, slot)
        return
    free_milli = columns.free_milli.item(row, slot)
    capacity = columns.capacity_bytes.item(row, slot)
    widest = widest_share(capacity, columns.free_bytes.item(row, slot))
    columns.share_room[row, slot] = free_milli
    # Of an overdrawn card as of one with flags: -1, which tables by room are looked up with.
    columns.room[row, slot] = max(-1, min(free_milli, widest))
    columns.idle[row, slot] = tenants == 0


def hold_back(columns: Columns, row: int, count: int) -> bool:
    """Keep as many idle cards as native pods hold; with fewer idle ones (False), keep all cards."""
    slots = range(len(columns.uuids[row]))
    for slot in slots:
        derive_card(columns, row, slot)
    if not count:
        return True
    idle = [slot for slot in slots if columns.idle.item(row, slot)]
    for slot in idle[len(idle) - count :] if count <= len(idle) else slots:
        if not columns.flags.item(row, slot) & ABSENT:
            columns.flags[row, slot] |= HELD_BACK
            _close(columns, row, slot)
    return count <= len(idle)


def derive_node(columns: Columns, row: int) -> None:
    """How full the node's cards are."""
    whole = columns.gpu_count.item(row) * WHOLE_MILLI
    used = whole - max(columns.gpu_free_milli.item(row), 0)
    columns.gpu_used_percent[row] = used * 100 // whole if whole else 0


def _close(columns: Columns, row: int, slot: int) -> None:
    columns.share_room[row, slot] = columns.room[row, slot] = -1
    columns.idle[row, slot] = 0
