"""Columns that follow from others: flags, room for one more pod, and how full a node is.

They are kept so that plugins can decide with one comparison. The ledger calls these functions after
each change of the columns that they follow from.
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
    """Write the flags that follow from a card's tenants, and its room for one more pod."""
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
    columns.share_headroom[row, slot] = free_milli
    # An overdrawn card has -1, like one with flags: tables by room are indexed with it.
    columns.headroom[row, slot] = max(-1, min(free_milli, widest))
    columns.idle[row, slot] = tenants == 0


def hold_back(columns: Columns, row: int, count: int) -> bool:
    """Keep as many idle cards of the row as native pods hold.

    False if fewer are idle: then all cards are kept.
    """
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
    """Write how full the node's cards are, in percent."""
    whole = columns.gpu_count.item(row) * WHOLE_MILLI
    used = whole - max(columns.gpu_free_milli.item(row), 0)
    columns.gpu_used_percent[row] = used * 100 // whole if whole else 0


def _close(columns: Columns, row: int, slot: int) -> None:
    columns.share_headroom[row, slot] = columns.headroom[row, slot] = -1
    columns.idle[row, slot] = 0
