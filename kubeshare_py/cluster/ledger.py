"""The ledger: who holds what of which card, on columns that plugins read.

Only the machine writes it.

Charges are kept by (node, card uuid). One on a node or card that is not known (yet, or any more)
waits in a row or slot of its own, marked absent, and counts from the moment the card appears.

An *earmark* is a place that belongs to a pod which waits. Columns count it as taken, so that nobody
else takes it, even while others still hold the place: what is free may then be less than nothing,
and that is no over-commitment. Nothing outside of the scheduler knows of it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from kubeshare_py.cluster.changes import ChangeLog
from kubeshare_py.cluster.charge import Charge, Resources
from kubeshare_py.cluster.columns import (
    ABSENT,
    CARD_COLUMNS,
    EMPTY_SLOT,
    PODS,
    PORTS,
    UNHEALTHY,
    Columns,
    IntArray,
)
from kubeshare_py.cluster.derived import derive_card, derive_node, hold_back
from kubeshare_py.cluster.earmarked import (
    Earmarked,
    count_earmark,
    count_together,
    is_overdrawn,
    overdrawn,
)
from kubeshare_py.cluster.joined import derive_order, put_on_board
from kubeshare_py.cluster.overdrafts import Overdrafts
from kubeshare_py.cluster.ports import POOL_SIZE, PortPool
from kubeshare_py.cluster.what_if import Amounts, WhatIf
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.gpu import WHOLE_MILLI, Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodUid
from kubeshare_py.domain.node import Node

#: Distinct requests whose rows of columns are remembered.
VECTORS_KEPT = 4096

#: Whole GPUs as the vendor's device plugin hands them out: the kubelet picks the cards.
NATIVE_GPU = "nvidia.com/gpu"


class Ledger:
    """Nodes, cards and charges. Every change is logged by row.

    `changed` lists rows whose amounts changed, `improved` those of them that may fit more than
    before, `relabelled` those whose node object changed (labels, taints, presence).
    """

    def __init__(self) -> None:
        self.columns = Columns()
        self.changed = ChangeLog()
        self.improved = ChangeLog()
        self.relabelled = ChangeLog()
        self.inventory: dict[NodeName, tuple[Gpu, ...]] = {}
        #: KubeShare's cells by row, of rows that have some.
        self._cells: dict[int, dict[GpuUuid, str]] = {}
        self._charges: dict[PodUid, Charge] = {}
        self._pods_on: dict[NodeName, dict[PodUid, Charge]] = {}
        self._ports: dict[NodeName, PortPool] = {}
        #: GPUs of native pods by row: so many idle cards are held back, since nobody knows which.
        self._native: dict[int, int] = {}
        #: Rows with slots for cards that the inventory does not show.
        self._rows_with_strays: set[int] = set()
        self._vectors: dict[tuple[Resources, bool], IntArray] = {}
        #: Grows with every change of nodes and cards: the same number, the same capacities.
        self.capacities = 0
        self.overdrafts = Overdrafts()
        self._earmarked = Earmarked()
        #: Pods whose charges are left out of the columns for the moment.
        self._aside: set[PodUid] = set()

    # --- reading -------------------------------------------------------------------------------

    def charge_of(self, uid: PodUid) -> Charge | None:
        """What this pod holds, None when it holds nothing."""
        return self._charges.get(uid)

    def pods_on(self, node: NodeName) -> dict[PodUid, Charge]:
        """The charges on a node, by pod; not to be changed."""
        return self._pods_on.get(node, {})

    def next_port(self, node: NodeName) -> int | None:
        """The pod-manager port that the next shared pod on this node gets; None: all are taken."""
        pool = self._ports.get(node)
        return PortPool().next_free() if pool is None else pool.next_free()

    def cells_on(self, row: int) -> Mapping[GpuUuid, str] | None:
        """Which cell each of a row's cards is in; None if none of them is in one."""
        return self._cells.get(row)

    def native_gpus(self, node: NodeName) -> int:
        """GPUs of this node that pods hold whose cards the kubelet picked."""
        row = self.columns.row_of.get(node)
        return 0 if row is None else self._native.get(row, 0)

    @property
    def earmarks(self) -> Mapping[PodUid, Charge]:
        """The earmarks, by the pods that they are for."""
        return self._earmarked.of

    def earmarks_on(self, node: NodeName) -> Mapping[PodUid, Charge]:
        """The earmarks on a node, by pod."""
        return self._earmarked.on.get(node, {})

    def overcommitted(self) -> Iterator[tuple[NodeName, GpuUuid]]:
        """Cards on which more is held than they have: others took it behind our back."""
        columns = self.columns
        for row, slot in np.argwhere(overdrawn(columns)).tolist():
            yield self._name(row), columns.uuids[row][slot]

    def amounts(self, lines: Sequence[Sequence[PodUid]]) -> Amounts:
        """What pods hold, for a what-if: a line is the sum of some pods of one node."""
        found = Amounts.none(len(lines), self.columns.free.shape[1], self.columns.width)
        for line, uids in enumerate(lines):
            for uid in uids:
                self._put_amounts(found, line, self._charges[uid])
        return found

    def _put_amounts(self, found: Amounts, line: int, charge: Charge) -> None:
        allocation = charge.allocation
        port = allocation is not None and allocation.port is not None
        found.free[line] += self.vector(charge.resources, port)
        if allocation is None or not allocation.cards:
            found.native[line] += _native_gpus(charge.resources)
            return
        uuids = self.columns.uuids[self.columns.row_of[charge.node]]
        for card in allocation.cards:
            slot = uuids.index(card.uuid)
            found.milli[line, slot] += card.milli
            found.memory[line, slot] += card.memory_bytes
            found.tenants[line, slot] += 1
            found.exclusive[line, slot] += allocation.exclusive

    def what_if(self, rows: IntArray) -> WhatIf:
        """Private copies of these rows."""
        native = [self._native.get(row, 0) for row in rows.tolist()] if self._native else 0
        return WhatIf(self.columns, rows, np.zeros(len(rows), np.int64) + native)

    # --- nodes and cards -----------------------------------------------------------------------

    def put_node(self, node: Node) -> None:
        """Add or change a node."""
        columns = self.columns
        row = columns.row_for(node.name)
        old = columns.nodes[row]
        if old == node:
            return
        self.capacities += 1
        allocatable = np.zeros(columns.free.shape[1], np.int64)
        for name, amount in node.allocatable:
            column = columns.resource(name)
            if column >= len(allocatable):
                allocatable = np.pad(allocatable, (0, columns.free.shape[1] - len(allocatable)))
            allocatable[column] = amount
        allocatable[PORTS] = POOL_SIZE
        columns.free[row] += allocatable - columns.allocatable[row]
        columns.allocatable[row] = allocatable
        columns.nodes[row] = node
        columns.present[row] = True
        columns.describe(row, node)
        if old is None:
            self._lay_out_cards(row)
        self.relabelled.add(row)
        self.changed.add(row)
        self.improved.add(row)

    def drop_node(self, name: NodeName) -> None:
        """The API server does not show this node any more; its charges stay."""
        columns = self.columns
        row = columns.row_of.get(name)
        if row is None or columns.nodes[row] is None:
            return
        self.capacities += 1
        columns.free[row] -= columns.allocatable[row]
        columns.allocatable[row] = 0
        columns.nodes[row] = None
        columns.present[row] = False
        self.relabelled.add(row)
        self.changed.add(row)
        self._forget_row_if_empty(row)

    def put_cards(self, name: NodeName, gpus: tuple[Gpu, ...]) -> None:
        """The cards of a node, all of them. Charges on cards that left stay with their uuid."""
        if gpus:
            self.inventory[name] = gpus
        else:
            self.inventory.pop(name, None)
        row = self.columns.row_of.get(name)
        if row is not None:
            self.capacities += 1
            self._lay_out_cards(row)
            self.changed.add(row)
            self.improved.add(row)

    # --- charges -------------------------------------------------------------------------------

    def charge(
        self, uid: PodUid, node: NodeName, resources: Resources, allocation: Allocation | None
    ) -> None:
        """The pod holds this from now on, instead of what it held before."""
        if uid in self._charges:
            self.release(uid)
        columns = self.columns
        row = columns.row_of.get(node)
        if row is None:
            row = columns.row_for(node)
        charge = self._charges[uid] = Charge(node, resources, allocation)
        pods = self._pods_on.get(node)
        if pods is None:
            pods = self._pods_on[node] = {}
        pods[uid] = charge
        port = None if allocation is None else allocation.port
        vector = self.vector(resources, port is not None)
        free = columns.free[row]
        np.subtract(free, vector, free)
        if port is not None:
            self._ports.setdefault(node, PortPool()).take(port)
        if allocation is not None and allocation.cards:
            slots = self._slots(row, allocation)
            if slots is None:
                self._lay_out_cards(row)
            else:
                self._count(row, slots, allocation, 1)
        elif resources:
            self._count_native(row, resources, 1)
        self.changed.add(row)

    def release(self, uid: PodUid) -> None:
        """The pod holds nothing any more; unknown pods are nobody's business."""
        charge = self._charges.pop(uid, None)
        if charge is None:
            return
        columns, allocation = self.columns, charge.allocation
        row = columns.row_of[charge.node]
        if allocation is not None and allocation.port is not None:
            self._ports[charge.node].give_back(allocation.port)
        self._discharge(uid, charge, row)
        self.improved.add(row)
        if columns.nodes[row] is None:
            self._forget_row_if_empty(row)

    def take_back(self, uid: PodUid) -> None:
        """Undo the charge of a pod, the last first, as if there had been none: nothing improved."""
        charge = self._charges.pop(uid)
        if charge.allocation is not None and charge.allocation.port is not None:
            self._ports[charge.node].take_back(charge.allocation.port)
        self._discharge(uid, charge, self.columns.row_of[charge.node])

    def _discharge(self, uid: PodUid, charge: Charge, row: int) -> None:
        del self._pods_on[charge.node][uid]
        self._add(charge, row, -1)

    def set_aside(self, uid: PodUid) -> None:
        """Leave a charge out of the columns, to see what would fit without it; within one turn.

        Nothing improves by it. The pod must not be released before it is put back.
        """
        self._aside.add(uid)
        self._try(self._charges[uid], -1)

    def put_back(self, uid: PodUid) -> None:
        """The charge of a pod that was set aside counts again."""
        self._aside.remove(uid)
        self._try(self._charges[uid], 1)

    # --- earmarks ------------------------------------------------------------------------------

    def earmark(
        self, uid: PodUid, node: NodeName, resources: Resources, allocation: Allocation | None
    ) -> None:
        """This place belongs to a pod that waits, instead of the one that did before.

        Whatever is free there. If the allocation names a port, some port is kept, not that one.
        """
        self.dissolve(uid)
        charge = Charge(node, resources, allocation)
        row = self.columns.row_for(node)
        self._earmarked.put(uid, charge)
        self._add_earmark(charge, row, 1)

    def dissolve(self, uid: PodUid) -> None:
        """The place belongs to nobody any more; pods without an earmark are nobody's business."""
        charge = self._earmarked.of.get(uid)
        if charge is None:
            return
        columns = self.columns
        row = columns.row_of[charge.node]
        lifted = self._earmarked.pop(uid)
        if not lifted:
            self._add_earmark(charge, row, -1)
        self.improved.add(row)
        if columns.nodes[row] is None:
            self._forget_row_if_empty(row)

    def lift(self, uids: Sequence[PodUid]) -> None:
        """Leave earmarks out of the columns; within one turn. Nothing improves by it."""
        self._add_earmarks(uids, -1)

    def lay(self, uids: Sequence[PodUid]) -> None:
        """Earmarks that were lifted count again."""
        self._add_earmarks(uids, 1)

    # --- inside --------------------------------------------------------------------------------

    def _add_earmarks(self, uids: Sequence[PodUid], sign: int) -> None:
        """Lift or lay earmarks, row by row, which takes half of the time of one by one."""
        by_row: dict[int, dict[PodUid, Charge]] = {}
        for uid in uids:
            charge = self._earmarked.of[uid]
            by_row.setdefault(self.columns.row_of[charge.node], {})[uid] = charge
        lifted = self._earmarked.lifted
        mark = lifted.add if sign < 0 else lifted.remove
        for row, charges in by_row.items():
            is_plain = row not in self._rows_with_strays and row not in self._native
            if is_plain and self._add_together(row, [*charges.values()], sign):
                for uid in charges:
                    mark(uid)
                continue
            # Each at its turn: whoever lays out the row meanwhile counts all that are laid.
            for uid, charge in charges.items():
                mark(uid)
                self._add_earmark(charge, row, sign)

    def _add_together(self, row: int, charges: Sequence[Charge], sign: int) -> bool:
        """False, and nothing is done, if they have to be counted one by one."""
        held = [one.allocation for one in charges if one.allocation and one.allocation.cards]
        if len(held) < len(charges) or not count_together(self.columns, row, held, sign):
            return False
        asked = zip(charges, held, strict=True)
        alike = Counter((charge.resources, one.port is not None) for charge, one in asked)
        for (resources, port), count in alike.items():
            self.columns.free[row] -= sign * count * self.vector(resources, port)
        self.changed.add(row)
        return True

    def _add_earmark(self, charge: Charge, row: int, sign: int) -> None:
        """Add (sign 1) or take away (-1) an earmark."""
        allocation = charge.allocation
        slots = None if allocation is None else self._slots(row, allocation)
        if allocation is not None and slots is not None:
            count_earmark(self.columns, row, slots, allocation, sign)
        self._try(charge, sign)

    def _try(self, charge: Charge, sign: int) -> None:
        """Add or take away what nobody really holds, or holds anyhow."""
        self.overdrafts.is_trial = True
        self._add(charge, self.columns.row_of[charge.node], sign)
        self.overdrafts.is_trial = False

    def _add(self, charge: Charge, row: int, sign: int) -> None:
        """Add (sign 1) or take away (-1) what a charge takes of the columns, ports aside."""
        allocation = charge.allocation
        needs_port = allocation is not None and allocation.port is not None
        vector = self.vector(charge.resources, needs_port)
        free = self.columns.free[row]
        (np.subtract if sign > 0 else np.add)(free, vector, free)
        if allocation is not None and allocation.cards:
            slots = self._slots(row, allocation)
            if slots is None or row in self._rows_with_strays:
                self._lay_out_cards(row)  # the slot of a card that left may be free now
            else:
                self._count(row, slots, allocation, sign)
        elif charge.resources:
            self._count_native(row, charge.resources, sign)
        self.changed.add(row)

    def vector(self, resources: Resources, port: bool) -> IntArray:
        """Requests as a row of the resource columns; a pod also takes one of `pods`."""
        vector = self._vectors.get((resources, port))
        columns = self.columns
        if vector is None or len(vector) != columns.free.shape[1]:
            places = [(columns.resource(name), amount) for name, amount in resources]
            vector = np.zeros(columns.free.shape[1], np.int64)
            for column, amount in places:
                vector[column] = amount
            vector[PODS] = 1
            vector[PORTS] = int(port)
            if len(self._vectors) > VECTORS_KEPT:
                self._vectors.clear()
            self._vectors[resources, port] = vector
        return vector

    def _slots(self, row: int, allocation: Allocation) -> list[int] | None:
        """Where the cards of an allocation are in the row; None if one of them has no slot."""
        uuids = self.columns.uuids[row]
        try:
            return [uuids.index(card.uuid) for card in allocation.cards]
        except ValueError:
            return None

    def _count(self, row: int, slots: list[int], allocation: Allocation, sign: int) -> None:
        """Add (sign 1) or take away (-1) an allocation, and bring derived columns along."""
        columns, exclusive = self.columns, allocation.exclusive
        flipped = False
        for slot, card in zip(slots, allocation.cards, strict=True):
            free_milli = columns.free_milli.item(row, slot) - sign * card.milli
            columns.free_milli[row, slot] = free_milli
            free_bytes = columns.free_bytes.item(row, slot) - sign * card.memory_bytes
            columns.free_bytes[row, slot] = free_bytes
            columns.tenants[row, slot] = columns.tenants.item(row, slot) + sign
            if exclusive:
                columns.exclusive[row, slot] = columns.exclusive.item(row, slot) + sign
            was_idle = columns.idle.item(row, slot)
            derive_card(columns, row, slot)
            flipped |= was_idle != columns.idle.item(row, slot)
            if not columns.flags.item(row, slot) & ABSENT:
                free = columns.gpu_free_milli.item(row) - sign * card.milli
                columns.gpu_free_milli[row] = free
                less = sign > 0 and (free_milli < 0 or free_bytes < 0)
                if less and is_overdrawn(columns, row, slot):
                    self.overdrafts.suspect(self._name(row))
        if self.overdrafts.watches:
            self.overdrafts.touched(self._name(row))
        if row in self._native:
            self._hold_back(row)
        elif flipped:
            derive_order(columns, row)
        derive_node(columns, row)

    def _hold_back(self, row: int) -> None:
        if not hold_back(self.columns, row, self._native[row]):
            self.overdrafts.suspect(self._name(row))
        derive_order(self.columns, row)

    def _name(self, row: int) -> NodeName:
        name = self.columns.names[row]
        assert name is not None
        return name

    def _count_native(self, row: int, resources: Resources, sign: int) -> None:
        """A pod without cards of ours came or went: does it hold cards that the kubelet picked?"""
        count = _native_gpus(resources)
        if count:
            self._native[row] = self._native.get(row, 0) + sign * count
            self._hold_back(row)
            self.overdrafts.touched(self._name(row))
            if not self._native[row]:
                del self._native[row]

    def _lay_out_cards(self, row: int) -> None:
        """Write a row's card slots anew, by uuid, from the inventory and the charges."""
        columns, name = self.columns, self._name(row)
        known = {gpu.uuid: gpu for gpu in self.inventory.get(name, ())}
        held = [
            charge.allocation
            for uid, charge in self.pods_on(name).items()
            if charge.allocation and uid not in self._aside
        ]
        earmarks = self._earmarked.laid_on(name)
        allocations = held + earmarks
        charged = {card.uuid for allocation in allocations for card in allocation.cards}
        uuids = sorted(known.keys() | charged)
        columns.widen(len(uuids))
        if len(uuids) > len(known):
            self._rows_with_strays.add(row)
        else:
            self._rows_with_strays.discard(row)
        for column in CARD_COLUMNS:
            getattr(columns, column)[row] = EMPTY_SLOT.get(column, 0)
        columns.uuids[row] = uuids
        self._cells.pop(row, None)
        cells = {uuid: gpu.cell_id for uuid, gpu in known.items() if gpu.cell_id}
        if cells:
            self._cells[row] = cells
        columns.gpu_count[row] = len(known)
        columns.gpu_free_milli[row] = len(known) * WHOLE_MILLI
        for slot, uuid in enumerate(uuids):
            if uuid in known:
                self._put_card(row, slot, known[uuid])
        put_on_board(columns, row, known)
        derive_order(columns, row)
        derive_node(columns, row)
        for allocation in earmarks:
            slots = [uuids.index(card.uuid) for card in allocation.cards]
            count_earmark(columns, row, slots, allocation, 1)
        for allocation in allocations:
            slots = [uuids.index(card.uuid) for card in allocation.cards]
            self._count(row, slots, allocation, 1)
        self.overdrafts.touched(name)
        if row in self._native:
            self._hold_back(row)

    def _put_card(self, row: int, slot: int, gpu: Gpu) -> None:
        columns = self.columns
        columns.capacity_milli[row, slot] = columns.free_milli[row, slot] = WHOLE_MILLI
        columns.capacity_bytes[row, slot] = columns.free_bytes[row, slot] = gpu.memory_bytes
        columns.max_tenants[row, slot] = gpu.max_tenants
        columns.model[row, slot] = columns.model_code(gpu.model)
        columns.cell_priority[row, slot] = gpu.cell_priority
        if gpu.numa_node is not None:
            columns.numa[row, slot] = gpu.numa_node
        columns.flags[row, slot] = 0 if gpu.healthy else UNHEALTHY
        derive_card(columns, row, slot)

    def _forget_row_if_empty(self, row: int) -> None:
        columns, name = self.columns, self._name(row)
        charged = self._pods_on.get(name) or self.earmarks_on(name)
        if columns.nodes[row] is None and not charged:
            self._pods_on.pop(name, None)
            self._ports.pop(name, None)
            inventory = self.inventory.pop(name, None)
            self._lay_out_cards(row)
            if inventory is not None:
                self.inventory[name] = inventory
            columns.free_row(row)


def _native_gpus(resources: Resources) -> int:
    return next((amount for name, amount in resources if name == NATIVE_GPU), 0)
