"""Counts charges in the columns: adds them to rows and subtracts them, card by card.

It knows rows and charges, but not which pods they belong to; the ledger does. A charge on a card
without a slot in its row cannot be counted: the row is then laid out anew, from all its charges.
Cards that the node does not have get only a few slots. Beyond them a charge is kept by the ledger
alone, and counts from the moment the card appears.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from kubeshare_py.cluster.card_counts import count_cards, hold_back_cards
from kubeshare_py.cluster.changes import ChangeLog
from kubeshare_py.cluster.charge import Charge
from kubeshare_py.cluster.columns import (
    ABSENT,
    CARD_COLUMNS,
    CORDONED,
    EMPTY_SLOT,
    EXCLUSIVE,
    FOREIGN,
    PODS,
    PORTS,
    UNHEALTHY,
    Columns,
    IntArray,
)
from kubeshare_py.cluster.derived import derive_card, derive_node
from kubeshare_py.cluster.joined import derive_order, put_on_board
from kubeshare_py.cluster.native.native_gpus import NONE, NativeGpus, Resources, to_hold_back
from kubeshare_py.cluster.offered import Offered
from kubeshare_py.cluster.overdrafts import Overdrafts
from kubeshare_py.cluster.reserved_places import (
    count_reservation,
    is_intruded,
    is_overdrawn,
)
from kubeshare_py.cluster.what_if import Amounts
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.card_reading import PATHS
from kubeshare_py.domain.card_tags import exclusions
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName

#: The most requests whose vectors are cached, and the most resources in one of them.
VECTORS_KEPT = 4096
LONGEST_KEPT = 32
#: The most slots, in order of uuid, for charged cards that a node does not have. Each slot costs
#: one on every node.
MAX_STRAYS = 16


class UsageAccounting:
    """The columns and their upkeep. `changed` logs rows whose amounts changed."""

    def __init__(self) -> None:
        self.columns = Columns()
        self.changed = ChangeLog()
        self.overdrafts = Overdrafts()
        #: GPUs of native pods by row. Idle cards are held back for those of unknown cards.
        self.native: dict[int, NativeGpus] = {}
        #: KubeShare's cells by row, for rows that have cells.
        self.cells: dict[int, dict[GpuUuid, str]] = {}
        #: Rows with slots for cards that are not in the inventory.
        self._rows_with_strays: set[int] = set()
        #: The resource columns.
        self.offered = Offered(self.columns)
        self._vectors: dict[tuple[Resources, bool], tuple[IntArray, Resources]] = {}
        self._vectors_of = self.columns.resources

    def name(self, row: int) -> NodeName:
        """The node of a row that is in use."""
        name = self.columns.names[row]
        assert name is not None
        return name

    def vector(self, resources: Resources, port: bool) -> IntArray:
        """A request as amounts by resource column, (resources,) int64.

        A pod also takes one of `pods`.

        Resources that no node offers have no column, and are left out.
        """
        return self._request(resources, port)[0]

    def _request(self, resources: Resources, port: bool) -> tuple[IntArray, Resources]:
        """The vector of a request, and its resources without a column."""
        columns = self.columns
        if self._vectors_of is not columns.resources or len(self._vectors) > VECTORS_KEPT:
            self._vectors.clear()
            self._vectors_of = columns.resources
        found = self._vectors.get((resources, port))
        if found is None:
            vector = np.zeros(columns.free.shape[1], np.int64)
            unoffered = []
            for name, amount in resources:
                column = columns.resources.get(name)
                if column is not None:
                    vector[column] = amount
                elif amount:
                    unoffered.append((name, amount))
            vector[PODS] += 1  # a lingering pod has -1, and so takes none of `pods`
            vector[PORTS] = int(port)
            found = vector, tuple(unoffered)
            if len(resources) <= LONGEST_KEPT:
                self._vectors[resources, port] = found
        return found

    def put_amounts(self, found: Amounts, line: int, charge: Charge) -> None:
        """Add the amounts of a charge to one line."""
        if charge.pod is not None:
            found.pods.setdefault(line, []).append(charge.pod)
        allocation = charge.allocation
        port = allocation is not None and allocation.port is not None
        found.free[line] += self.vector(charge.resources, port)
        found.native[line] += charge.native
        if allocation is None or not allocation.cards:
            return
        uuids = self.columns.uuids[self.columns.row_of[charge.node]]
        for card in allocation.cards:
            if card.uuid not in uuids:
                continue
            slot = uuids.index(card.uuid)
            found.milli[line, slot] += card.milli
            found.memory[line, slot] += card.memory_bytes
            found.tenants[line, slot] += 1
            found.exclusive[line, slot] += card.exclusive
            if card.tags:
                found.excluding[line, slot] += bool(exclusions(card.tags))
                found.tags.setdefault(line, []).append((slot, card.tags))

    # --- charges -------------------------------------------------------------------------------

    def add(self, row: int, charge: Charge, sign: int) -> bool:
        """Add (sign 1) or subtract (-1) a charge, without its port.

        False if the row's cards have to be laid out anew: then only other resources were counted.
        """
        allocation = charge.allocation
        vector, unoffered = self._request(
            charge.resources, allocation is not None and allocation.port is not None
        )
        free = self.columns.free[row]
        (np.subtract if sign > 0 else np.add)(free, vector, free)
        if unoffered:
            self.offered.hold(row, unoffered, sign)
        self.changed.add(row)
        is_native = self._count_native(row, charge.native, sign)
        if allocation is not None and allocation.cards:
            slots = self._slots(row, allocation)
            if slots is None or row in self._rows_with_strays:
                return False  # the slot of a card that left may be free now
            self._count(row, slots, allocation, sign)
        if is_native:
            self.hold_back(row)
        return True

    def add_reservation(self, row: int, charge: Charge, sign: int) -> bool:
        """Add (sign 1) or subtract (-1) a reservation, as `add` does."""
        allocation = charge.allocation
        slots = None if allocation is None else self._slots(row, allocation)
        if allocation is not None and slots is not None:
            count_reservation(self.columns, row, slots, allocation, sign)
        return self.add(row, charge, sign)

    def _slots(self, row: int, allocation: Allocation) -> list[int] | None:
        """The slots of an allocation's cards in the row; None if a card has none."""
        uuids = self.columns.uuids[row]
        try:
            return [uuids.index(card.uuid) for card in allocation.cards]
        except ValueError:
            return None

    def _count(self, row: int, slots: list[int], allocation: Allocation, sign: int) -> None:
        """Add or subtract an allocation, and update the derived columns."""
        columns = self.columns
        name, native = self.name(row), self.held_back(row)
        if not count_cards(columns, row, slots, allocation, sign, native):
            self.overdrafts.suspect(name)
        if sign > 0:
            for slot in slots:
                flags = columns.flags.item(row, slot)
                if flags & ABSENT:
                    continue
                free = columns.free_milli.item(row, slot), columns.free_bytes.item(row, slot)
                if (min(free) < 0 and is_overdrawn(columns, row, slot)) or (
                    flags & EXCLUSIVE and is_intruded(columns, row, slot)
                ):
                    self.overdrafts.suspect(name)
        if self.overdrafts.watches:
            self.overdrafts.touched(name)

    def held_back(self, row: int) -> int:
        """How many idle cards of a row are held back for native pods."""
        native = self.native.get(row)
        return 0 if native is None else to_hold_back(self.columns, row, native)

    def hold_back(self, row: int) -> None:
        """Hold back as many idle cards as native pods need now."""
        if not hold_back_cards(self.columns, row, self.held_back(row)):
            self.overdrafts.suspect(self.name(row))

    def _count_native(self, row: int, held: NativeGpus, sign: int) -> bool:
        """Count the GPUs that the kubelet gives to a pod; whether there are any."""
        if held == NONE:
            return False
        native = self.native.get(row, NONE).plus(held, sign)
        if native == NONE:
            del self.native[row]
        else:
            self.native[row] = native
        self.overdrafts.touched(self.name(row))
        return True

    # --- rows ----------------------------------------------------------------------------------

    def lay_out(
        self,
        row: int,
        gpus: Sequence[Gpu],
        held: Sequence[Allocation],
        reservations: Sequence[Allocation],
    ) -> None:
        """Rewrite a row's card slots, by uuid, from its cards and all that is charged on it."""
        columns = self.columns
        known = {gpu.uuid: gpu for gpu in gpus}
        charged = {card.uuid for one in (*held, *reservations) for card in one.cards}
        strays = sorted(charged - known.keys())
        uuids = sorted({*known, *strays[:MAX_STRAYS]})
        columns.widen(len(uuids))
        if len(uuids) > len(known):
            self._rows_with_strays.add(row)
        else:
            self._rows_with_strays.discard(row)
        for column in CARD_COLUMNS:
            getattr(columns, column)[row] = EMPTY_SLOT.get(column, 0)
        columns.put_uuids(row, uuids)
        self._put_cards(row, known)
        slot_of = {uuid: slot for slot, uuid in enumerate(uuids)}
        counted = [_with_slots(one, slot_of) for one in (*held, *reservations)]
        for number, allocation in enumerate(counted):
            slots = [slot_of[card.uuid] for card in allocation.cards]
            if number >= len(held):
                count_reservation(columns, row, slots, allocation, 1)
            self._count(row, slots, allocation, 1)
        self.overdrafts.touched(self.name(row))
        if row in self.native:
            self.hold_back(row)

    def _put_cards(self, row: int, known: Mapping[GpuUuid, Gpu]) -> None:
        columns = self.columns
        self.cells.pop(row, None)
        cells = {uuid: gpu.cell_id for uuid, gpu in known.items() if gpu.cell_id}
        if cells:
            self.cells[row] = cells
        columns.gpu_count[row] = len(known)
        whole = sum(gpu.capacity_milli for gpu in known.values())
        columns.gpu_capacity_milli[row] = columns.gpu_free_milli[row] = whole
        for slot, uuid in enumerate(columns.uuids[row]):
            if uuid in known:
                self._put_card(row, slot, known[uuid])
        put_on_board(columns, row, known)
        derive_order(columns, row)
        derive_node(columns, row)

    def _put_card(self, row: int, slot: int, gpu: Gpu) -> None:
        columns = self.columns
        columns.capacity_milli[row, slot] = columns.free_milli[row, slot] = gpu.capacity_milli
        columns.capacity_bytes[row, slot] = columns.free_bytes[row, slot] = gpu.capacity_bytes
        columns.share_bytes[row, slot] = gpu.share_bytes
        columns.max_tenants[row, slot] = gpu.max_tenants
        columns.model[row, slot] = columns.models.number(gpu.model)
        columns.readiness[row, slot] = columns.readinesses.number(gpu.readiness)
        columns.cell_priority[row, slot] = gpu.cell_priority
        if gpu.numa_node is not None:
            columns.numa[row, slot] = gpu.numa_node
        if gpu.rdma is not None:
            columns.rdma[row, slot] = len(PATHS) - PATHS.index(gpu.rdma)
        columns.flags[row, slot] = (not gpu.healthy) * UNHEALTHY | bool(gpu.vendor) * FOREIGN
        node = columns.nodes[row]
        if node is not None and node.cordoned and {gpu.uuid, gpu.parent} & {*node.cordoned}:
            columns.flags[row, slot] |= CORDONED
        derive_card(columns, row, slot)


def _with_slots(allocation: Allocation, slot_of: Mapping[GpuUuid, int]) -> Allocation:
    """The allocation without the cards that have no slot."""
    cards = tuple(card for card in allocation.cards if card.uuid in slot_of)
    return allocation if len(cards) == len(allocation.cards) else replace(allocation, cards=cards)
