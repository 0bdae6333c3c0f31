"""Columns of how a row's cards are joined, and which idle card shares should break first."""

from collections.abc import Mapping

from kubeshare_py.cluster.columns import Columns
from kubeshare_py.domain.gpu import WHOLE_MILLI, Gpu
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.topology.node_topology import in_order
from kubeshare_py.topology.rings import PositionSet


def put_on_board(columns: Columns, row: int, known: Mapping[GpuUuid, Gpu]) -> None:
    """Write the row's board and the position of each card on it. Cards must have slots already."""
    cards = in_order(tuple(known.values()))
    number = columns.boards.number(cards)
    columns.board[row] = number
    count = columns.boards.sets[number].board.count
    slots = tuple(columns.uuids[row].index(card.uuid) for card in cards[:count])
    columns.board_slots[row] = slots
    for position, slot in enumerate(slots):
        columns.position_bit[row, slot] = 1 << position


def derive_order(columns: Columns, row: int) -> None:
    """Write which cards are idle, and the order in which shares should break them.

    Cards scaled to less than one GPU have no place in it: some shares do not fit them, idle or not.
    """
    idle, bits, capacity = columns.idle, columns.position_bit, columns.capacity_milli
    slots = columns.board_slots[row]
    cards = small = 0
    for slot in slots:
        if idle.item(row, slot):
            cards |= bits.item(row, slot)
            if capacity.item(row, slot) < WHOLE_MILLI:
                small |= bits.item(row, slot)
    columns.idle_cards[row] = cards
    keep = columns.break_order[row]
    keep.fill(0)
    order = columns.boards.sets[columns.board.item(row)].order(PositionSet(cards & ~small))
    for place, position in enumerate(order, 1):
        keep[slots[position]] = place
