"""The ledger: which pod holds what of which card, on columns that plugins read.

It is written for pods by `charges/pod_charges`, and by `reservations`, `external_changes`,
`device_claims` and `machine` of `scheduling`.

Charges are kept by (node, card uuid). A charge on a card that is not, or no longer, known waits in
a slot of its own, marked absent, and counts from the moment the card appears. A row has few of
these slots (`usage_accounting`); further charges wait outside of the columns. So do all charges on
a node that the API server has not shown yet, because pods may name any node. A node that was shown
keeps its row while anything is charged on it.

A *reservation* is a place for a pod that waits. The columns count it as taken, so that no other pod
takes it, even while other pods still hold the place: free amounts may then be below 0, which is no
over-commitment. Nothing outside of the scheduler knows of reservations.

A charge may name a card by its index (`card_at`). It counts on the card that has this index in the
first list of the node's cards that shows it, and stays there (`charge`).

A *lingering* pod is deleted, but its containers may still run: it keeps its cards (`charge`).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace

import numpy as np

from kubeshare_py.cluster.card_disputes import Claims
from kubeshare_py.cluster.changes import ChangeLog
from kubeshare_py.cluster.charge import (
    NONE,
    POOL_SIZE,
    Charge,
    Lingering,
    NativeGpus,
    PortPool,
    ReservedPlaces,
    Resources,
    as_array,
    cards_alone,
    freed,
    has_indices,
    intruded,
    kept,
    looked_up,
    overdrawn,
    picks_of,
    with_picks,
)
from kubeshare_py.cluster.columns import (
    PORTS,
    UNBOUNDED,
    UNREQUESTED_CPU,
    UNREQUESTED_MEMORY,
    Columns,
    IntArray,
)
from kubeshare_py.cluster.overlay import WhatIf
from kubeshare_py.cluster.placed_pods import PlacedPods
from kubeshare_py.cluster.usage_accounting import Amounts, RowRequest, UsageAccounting
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.card_reading import ReadinessReport
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodUid, index_of
from kubeshare_py.domain.mypyc_hints import mypyc_attr
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.pod import PlacedPod

#: In the log of improved rows: any row may fit shapes whose placement depends on the whole cluster.
ANYWHERE = -1


@mypyc_attr(native_class=False)  # it is copied
class Ledger:
    """Nodes, cards and charges. Every change is logged by row.

    `changed` logs rows whose amounts changed, `improved` those of them that may fit more than
    before and ANYWHERE, and `relabelled` those whose node object changed (labels, taints,
    presence).
    """

    def __init__(self) -> None:
        usage = self._usage = UsageAccounting()
        self.columns, self.changed = usage.columns, usage.changed
        #: The pods that are placed, as other pods' placement depends on them.
        self.placed_pods = self.columns.pods = PlacedPods(self.columns.objects)
        self.placed_pods.all = self._placed
        self.improved = ChangeLog()
        self.relabelled = ChangeLog()
        self.overdrafts = usage.overdrafts
        #: Cards by node; those that count on another node, or on none, are not healthy in it.
        self.inventory: dict[NodeName, tuple[Gpu, ...]] = {}
        self.claims = Claims()
        self._charges: dict[PodUid, Charge] = {}
        self._pods_on: dict[NodeName, dict[PodUid, Charge]] = {}
        self._ports: dict[NodeName, PortPool] = {}
        #: Nodes whose cards are not reported now; their last known cards stay.
        self.silent: frozenset[NodeName] = frozenset()
        #: Grows with every change of nodes and cards: while it is equal, so are capacities.
        self.capacities = 0
        self._reserved = ReservedPlaces()
        self._lingering = Lingering()
        #: How many charges of lingering pods and of claims ended, or were replaced; to be read.
        self.lingering_ended = 0
        #: Pods whose cards by index were looked up since they were taken; to be read.
        self.found: list[PodUid] = []

    # --- reading -------------------------------------------------------------------------------

    def for_reading(self) -> "Ledger":
        """The same ledger until its next change, for questions that decisions must not depend on.

        Label columns that these build, with numbers in the order of the rows, are not kept.
        """
        same = copy(self)
        same.columns = copy(self.columns)
        same.columns.labels = dict(self.columns.labels)
        same.columns.pods = same.placed_pods = self.placed_pods.for_reading()
        return same

    def charge_of(self, uid: PodUid) -> Charge | None:
        """The pod's charge; None if it has none."""
        return self._charges.get(uid)

    def pods_on(self, node: NodeName) -> dict[PodUid, Charge]:
        """The charges on a node, by pod, without those of lingering pods. Do not change it."""
        return self._pods_on.get(node, {})

    def next_port(self, node: NodeName) -> int | None:
        """The pod-manager port of the next shared pod on this node; None if all are taken."""
        pool = self._ports[node] if node in self._ports else PortPool()
        return pool.next_free()

    def readiness_of(self, node: NodeName, uuid: GpuUuid) -> ReadinessReport:
        """The readiness of isolation back-ends on a card; empty for an unknown card."""
        columns = self.columns
        row = columns.row_of.get(node)
        if row is None or uuid not in columns.uuids[row]:
            return ()
        return columns.readiness_sets[columns.readiness.item(row, columns.uuids[row].index(uuid))]

    def cells_on(self, row: int) -> Mapping[GpuUuid, str] | None:
        """The cell of each of a row's cards; None if none of them is in a cell."""
        cells = self._usage.cells
        return cells.get(row) if cells else None

    def held_back_on(self, node: NodeName) -> int:
        """How many idle cards of this node are held back for cards that the kubelet picks."""
        row = self.columns.row_of.get(node)
        return 0 if row is None else self._usage.held_back(row)

    @property
    def reservations(self) -> Mapping[PodUid, Charge]:
        """The reservations, by pod."""
        return self._reserved.of

    @property
    def reservation_changes(self) -> int:
        """A number that grows with every change of reservations."""
        return self._reserved.changes

    def reservations_on(self, node: NodeName) -> Mapping[PodUid, Charge]:
        """The reservations on a node, by pod."""
        return self._reserved.on.get(node, {})

    @property
    def lingering(self) -> Mapping[PodUid, Charge]:
        """Cards that are held without a live pod, by the uid of the pod or of the claim."""
        return self._lingering.of

    def lingering_on(self, node: NodeName) -> Mapping[PodUid, Charge]:
        """The charges of lingering pods on a node, by pod."""
        return self._lingering.on(node)

    def charges_on(self, node: NodeName) -> Mapping[PodUid, Charge]:
        """The charges on a node, those of lingering pods included."""
        lingering = self._lingering.on(node)
        return {**self.pods_on(node), **lingering} if lingering else self.pods_on(node)

    def charges_on_row(self, row: int) -> Mapping[PodUid, Charge]:
        """`charges_on` the node of a row; empty if the row is not in use."""
        name = self.columns.names[row]
        return {} if name is None else self.charges_on(name)

    def overcommitted(self) -> Iterator[tuple[NodeName, GpuUuid]]:
        """Cards of which pods hold more than there is, because of binds by others."""
        columns = self.columns
        for row, slot in np.argwhere(overdrawn(columns)).tolist():
            yield self._usage.name(row), columns.uuids[row][slot]

    def unexclusive(self) -> Iterator[tuple[NodeName, GpuUuid]]:
        """Cards that a pod holds exclusively and other pods hold too."""
        columns = self.columns
        for row, slot in np.argwhere(intruded(columns)).tolist():
            node, uuid = self._usage.name(row), columns.uuids[row][slot]
            if any(one.holds_alone(uuid) for one in self.allocations_of(node, uuid).values()):
                yield node, uuid

    def allocations_of(self, node: NodeName, uuid: GpuUuid) -> dict[PodUid, Allocation]:
        """The allocations that include this card, by pod, those of lingering pods included."""
        found = {}
        for uid, charge in self.charges_on(node).items():
            held = charge.allocation
            if held is not None and any(card.uuid == uuid for card in held.cards):
                found[uid] = held
        return found

    def shared_ports(self, node: NodeName) -> list[int]:
        """The pod-manager ports of this node that several pods hold."""
        pool = self._ports.get(node)
        return [] if pool is None else sorted(pool.shared)

    @property
    def shared_port_count(self) -> int:
        """The number of such ports on all nodes that have a row."""
        pools, row_of = self._ports.items(), self.columns.row_of
        return sum(len(pool.shared) for node, pool in pools if pool.shared and node in row_of)

    def amounts(self, lines: Sequence[Sequence[PodUid]]) -> Amounts:
        """The amounts that pods hold, for a what-if: each line sums up some pods of one node."""
        charges, lingering = self._charges, self._lingering.of
        return self._usage.amounts(
            [[charges.get(uid) or lingering[uid] for uid in uids] for uids in lines]
        )

    def what_if(self, rows: IntArray) -> WhatIf:
        """Private copies of these rows, (k,) int64."""
        none = np.zeros((len(rows), len(NONE)), np.int64)
        native = as_array(self.native_on, rows) if self._usage.native else none
        return WhatIf(self.columns, rows, native)

    def native_on(self, row: int) -> NativeGpus:
        """The GPUs of a row that the kubelet gives to pods."""
        return self._usage.native.get(row, NONE)

    @property
    def has_native(self) -> bool:
        """Whether there are such GPUs on any row."""
        return bool(self._usage.native)

    def vector(self, resources: Resources, port: bool) -> IntArray:
        """A request as amounts by resource column, (resources,) int64.

        A pod also takes one of `pods`.
        """
        return self._usage.vector(resources, port)

    # --- nodes and cards -----------------------------------------------------------------------

    def put_node(self, node: Node) -> None:
        """Add or change a node."""
        columns = self.columns
        row = self._row_for(node.name)
        old = columns.nodes[row]
        if old == node:
            return
        if old is not None and replace(old, locks=node.locks) == node:
            columns.nodes[row] = node  # placement does not depend on locks, which change often
            return
        self.capacities += 1
        was = set() if old is None else {name for name, _ in old.allocatable}
        offered = {name for name, _ in node.allocatable}
        self._usage.offered.offer(offered - was)
        allocatable = np.zeros(columns.free.shape[1], np.int64)
        for name, amount in node.allocatable:
            allocatable[columns.resources[name]] = amount
        allocatable[PORTS] = POOL_SIZE
        allocatable[UNREQUESTED_CPU] = allocatable[UNREQUESTED_MEMORY] = UNBOUNDED
        columns.free[row] += allocatable - columns.allocatable[row]
        columns.allocatable[row] = allocatable
        self._withdraw(was - offered)
        columns.nodes[row] = node
        columns.images.change(row, old, node)
        columns.present[row] = True
        columns.describe(row, node)
        columns.tidy()
        if old is None or old.cordoned != node.cordoned:
            self._lay_out_cards(row)
        elif row in self._usage.native:
            self._usage.hold_back(row)  # as many as the device plugin advertises at most
        if old is None or old.agent != node.agent:
            self._heed_agent(row)
        self.relabelled.add(row)
        self.changed.add(row)
        self.improved.add(row)
        self._claim(node.name, present=True, created=node.created)

    def drop_node(self, name: NodeName) -> None:
        """Remove a node that the API server no longer shows; its charges stay.

        Its lingering pods end, because its kubelet is gone.
        """
        columns = self.columns
        row = columns.row_of.get(name)
        node = None if row is None else columns.nodes[row]
        if row is None or node is None:
            return
        for uid in [*self.lingering_on(name)]:
            self.end_lingering(uid)
        self.capacities += 1
        columns.free[row] -= columns.allocatable[row]
        columns.allocatable[row] = 0
        self._withdraw({name for name, _ in node.allocatable})
        columns.nodes[row] = None
        columns.images.change(row, node, None)
        columns.present[row] = False
        self._heed_agent(row)
        self.relabelled.add(row)
        self.changed.add(row)
        self._claim(name, present=False)
        self._forget_if_empty(name)

    def put_cards(self, name: NodeName, gpus: tuple[Gpu, ...]) -> None:
        """Set the cards that a node lists, all of them.

        Charges on cards that left stay with their uuid.
        """
        self.claims.listed(name, gpus)
        self._look_up(name, gpus)
        self._put_counted(name)
        self._heed_claims()

    def take_looked_up(self) -> list[PodUid]:
        """The pods whose cards by index were looked up in new lists of cards since the last call.

        Their charges name the cards that were found.
        """
        found, self.found = self.found, []
        return found

    def put_silent(self, nodes: frozenset[NodeName]) -> None:
        """Set the nodes whose cards are not reported now, all of them."""
        self.silent = nodes
        self.claims.silent_are(nodes)
        self._heed_claims()

    # --- charges -------------------------------------------------------------------------------

    def charge(
        self,
        uid: PodUid,
        node: NodeName,
        resources: Resources,
        allocation: Allocation | None,
        pod: PlacedPod | None = None,
    ) -> Allocation | None:
        """Charge the pod with this, in place of what it held before.

        `pod` is what the placement of other pods depends on besides. If the node has no row,
        the charge counts from when `put_node` shows the node. Returns the allocation as it is
        charged: with the uuids of cards that it names by index, where the node lists them.
        """
        if allocation is not None and has_indices(allocation):
            allocation = looked_up(allocation, self.claims.as_listed.get(node, ()))
        if uid in self._charges:
            self.release(uid)
        elif uid in self._lingering.of:
            self.end_lingering(uid)
        row = self.columns.row_of.get(node)
        charge = self._picked(uid, Charge(node, resources, allocation, pod), row)
        self._charges[uid] = charge
        pods = self._pods_on.get(node)
        if pods is None:
            pods = self._pods_on[node] = {}
        pods[uid] = charge
        port = None if allocation is None else allocation.port
        is_shared = port is not None and not self._ports.setdefault(node, PortPool()).take(port)
        if row is not None:
            if is_shared:
                self.overdrafts.suspect(node)
            self._add(charge, row, 1)
            if _is_tagged(charge):
                self.improved.add(row)  # pods of the same affinity tag may fit now
            if pod is not None and self.placed_pods.is_counting:
                # So may pods that are to be near this one, and those that are spread.
                self.improved.add(ANYWHERE)
        self._hold(charge, 1)
        return allocation

    def has_room_for(self, columns: Columns, charges: Collection[Charge]) -> bool:
        """Whether `charge_each` may be called: all is certainly free in these columns.

        They are the ledger's own, or show it without some reservations. The pods hold nothing yet.
        """
        if self.claims.disputes:
            return False
        row_of, nodes = self.columns.row_of, self.columns.nodes
        for row in {row_of[one.node] for one in charges}:
            node = nodes[row]
            if node is None or node.agent.picks:
                return False
        return self._usage.has_room_for(columns, *self._as_lists(charges))

    def charge_each(self, charges: Mapping[PodUid, Charge]) -> None:
        """`charge` many pods at once, for which `has_room_for` says that there is room.

        Their ports are taken already (`take_port`).
        """
        rows, requests, cards = self._as_lists(charges.values())
        self._usage.add_each(rows, requests, cards)
        placed, held = self.placed_pods, self.claims.held
        for row, (uid, charge), of_pod in zip(rows.tolist(), charges.items(), cards, strict=True):
            node = charge.node
            self._charges[uid] = charge
            if node not in self._pods_on:
                self._pods_on[node] = {}
            self._pods_on[node][uid] = charge
            if charge.pod is not None:
                placed.add(row, charge.pod, 1)
                if placed.is_counting:
                    self.improved.add(ANYWHERE)
            for card in of_pod:
                held(node, card.uuid, 1)
        self._heed_claims()

    def _as_lists(
        self, charges: Collection[Charge]
    ) -> tuple[IntArray, list[RowRequest], list[tuple[CardCharge, ...]]]:
        """The row of each charge, (n,), what it takes of the node, and its cards."""
        row_of = self.columns.row_of
        rows = np.array([row_of[one.node] for one in charges], np.int64)
        requests: list[RowRequest] = []
        cards: list[tuple[CardCharge, ...]] = []
        for one in charges:
            held = one.allocation
            requests.append((one.resources, held is not None and held.port is not None))
            cards.append(() if held is None else held.cards)
        return rows, requests, cards

    def take_port(self, node: NodeName, port: int) -> None:
        """Take the `next_port` of this node for a pod that `charge_each` is to charge."""
        self._ports.setdefault(node, PortPool()).take(port)

    def undo_take_port(self, node: NodeName, port: int) -> None:
        """Undo the last `take_port`; several in reverse order."""
        self._ports[node].undo_take(port)

    def release(self, uid: PodUid) -> None:
        """End a pod's charge; nothing happens if it has none."""
        charge = self._charges.pop(uid, None)
        if charge is None:
            return
        allocation = charge.allocation
        if allocation is not None and allocation.port is not None:
            self._ports[charge.node].give_back(allocation.port)
            if self.overdrafts.overdrawn:
                self.overdrafts.touched(charge.node)
        row = self._discharge(uid, charge)
        if row is not None:
            self.improved.add(row)
            if charge.pod is not None and self.placed_pods.is_counting:
                self.improved.add(ANYWHERE)
        if _is_tagged(charge):
            self.columns.tidy()
        self._forget_if_empty(charge.node)
        self._hold(charge, -1)

    def undo_charge(self, uid: PodUid) -> None:
        """Undo the last charge as if it had not been made: no row counts as improved.

        Several charges must be undone in reverse order.
        """
        charge = self._charges.pop(uid)
        if charge.allocation is not None and charge.allocation.port is not None:
            self._ports[charge.node].undo_take(charge.allocation.port)
        if self._discharge(uid, charge) is None:
            self._forget_if_empty(charge.node)
        self._hold(charge, -1)

    def _discharge(self, uid: PodUid, charge: Charge) -> int | None:
        """Remove a charge from its node and row; the row, or None if the node has none."""
        del self._pods_on[charge.node][uid]
        row = self.columns.row_of.get(charge.node)
        if row is not None:
            self._add(charge, row, -1)
        return row

    def linger(self, uid: PodUid) -> bool:
        """Let a deleted pod keep its GPUs until `end_lingering`.

        Its containers may still run. False, and its charge ends, if it has no GPUs or its node is
        not there.
        """
        charge = self._charges[uid]
        keeps, row = kept(charge), self.columns.row_of.get(charge.node)
        if keeps is None or row is None or self.columns.nodes[row] is None:
            self.release(uid)
            return False
        del self._charges[uid], self._pods_on[charge.node][uid]
        self._lingering.put(uid, keeps)
        self._add(Charge(charge.node, freed(charge), None, charge.pod), row, -1)
        self.improved.add(row)
        return True

    def end_lingering(self, uid: PodUid) -> None:
        """End what a lingering pod keeps; nothing happens if it keeps nothing."""
        charge = self._lingering.pop(uid)
        if charge is None:
            return
        self.lingering_ended += 1
        row = self.columns.row_of[charge.node]
        if charge.allocation is not None and charge.allocation.port is not None:
            self._ports[charge.node].give_back(charge.allocation.port)
            self.overdrafts.touched(charge.node)
        self._add(charge, row, -1)
        self.improved.add(row)
        self._hold(charge, -1)

    def hold_cards(self, uid: PodUid, node: NodeName, allocation: Allocation) -> bool:
        """Charge cards that no pod holds until `release_cards`; False if the node is not there."""
        row = self.columns.row_of.get(node)
        if row is None or self.columns.nodes[row] is None:
            return False
        self.end_lingering(uid)
        charge = cards_alone(node, allocation)
        self._lingering.put(uid, charge)
        self._add(charge, row, 1)
        self._hold(charge, 1)
        return True

    def release_cards(self, uid: PodUid) -> None:
        """End a charge of `hold_cards`; nothing happens if there is none."""
        self.end_lingering(uid)

    # --- reservations -----------------------------------------------------------------------------

    def reserve(
        self, uid: PodUid, node: NodeName, resources: Resources, allocation: Allocation | None
    ) -> None:
        """Keep this place for a waiting pod, in place of its reservation before.

        Whatever is free there. If the allocation names a port, one port is kept, not that one. The
        node gets a row if it has none: only the scheduler makes reservations, and only on nodes
        that it saw.
        """
        self.dissolve(uid)
        charge = Charge(node, resources, allocation)
        row = self._row_for(node)
        self._reserved.put(uid, charge)
        self._add_reservation(charge, row, 1)
        if _is_tagged(charge):
            self.improved.add(row)
        self._hold(charge, 1)

    def reserve_each(self, places: Mapping[PodUid, Charge]) -> None:
        """`reserve` these places, in this order."""
        row_of, at_once = self.columns.row_of, len(places) > 1 and not self.claims.disputes
        for uid, one in places.items():
            if uid in self._reserved.of or one.node not in row_of:
                at_once = False
        if not at_once or not self._usage.reserve_each(*self._as_lists(places.values())):
            for uid, one in places.items():
                self.reserve(uid, one.node, one.resources, one.allocation)
            return
        for uid, one in places.items():
            self._reserved.put(uid, Charge(one.node, one.resources, one.allocation))
            for card in one.allocation.cards if one.allocation is not None else ():
                self.claims.held(one.node, card.uuid, 1)
        self._heed_claims()

    def dissolve(self, uid: PodUid) -> None:
        """End a pod's reservation; nothing happens if it has none."""
        charge = self._reserved.of.get(uid)
        if charge is None:
            return
        row = self.columns.row_of[charge.node]
        self._reserved.pop(uid)
        self._add_reservation(charge, row, -1)
        self.improved.add(row)
        self._forget_if_empty(charge.node)
        self._hold(charge, -1)

    def _add_reservation(self, charge: Charge, row: int, sign: int) -> None:
        with self.overdrafts.ignoring():
            if not self._usage.add_reservation(row, charge, sign):
                self._lay_out_cards(row)

    # --- inside --------------------------------------------------------------------------------

    def _claim(self, name: NodeName, *, present: bool, created: str = "") -> None:
        charges = (*self.pods_on(name).values(), *self.reservations_on(name).values())
        held = (card.uuid for one in charges if one.allocation for card in one.allocation.cards)
        self.claims.is_there(name, present, held, created)
        self._heed_claims()

    def _hold(self, charge: Charge, sign: int) -> None:
        """Cards are held (sign 1) or no longer (-1), which may decide where they count.

        Cards that an agent names decide nothing: then its word would count on other nodes.
        """
        if charge.allocation is not None and charge.unpicked is None:
            for card in charge.allocation.cards:
                if index_of(card.uuid) is None:  # of several nodes, cards have the same index
                    self.claims.held(charge.node, card.uuid, sign)
            if self.claims.changed:
                self._heed_claims()

    def _heed_claims(self) -> None:
        """Update the cards whose dispute began, ended or was decided differently."""
        changed = self.claims.changed
        if changed:
            for name in sorted(changed):
                if self.claims.counted(name) != self.inventory.get(name, ()):
                    self._put_counted(name)
                self.overdrafts.suspect(name)
            changed.clear()

    def _look_up(self, name: NodeName, gpus: Sequence[Gpu]) -> None:
        """Put uuids in place of indices that pods of the node still name; the row is laid out
        after that."""
        charges = self.charges_on(name).items()
        waiting = [(uid, charge) for uid, charge in charges if has_indices(charge.allocation)]
        for uid, charge in waiting:
            assert charge.allocation is not None
            was = {card.uuid for card in charge.allocation.cards}
            now = looked_up(charge.allocation, gpus)
            found = Charge(name, charge.resources, now, charge.pod)
            if uid in self._charges:
                self._charges[uid] = self._pods_on[name][uid] = found
            else:
                self._lingering.put(uid, found)
            for card in now.cards:
                if card.uuid not in was:
                    self.claims.held(name, card.uuid, 1)
            self.found.append(uid)

    def _put_counted(self, name: NodeName) -> None:
        gpus = self.claims.counted(name)
        if gpus:
            self.inventory[name] = gpus
        else:
            self.inventory.pop(name, None)
        row = self.columns.row_of.get(name)
        if row is not None:
            self.capacities += 1
            self._lay_out_cards(row)
            self._heed_agent(row)
            self.columns.tidy()
            self.changed.add(row)
            self.improved.add(row)

    def _picked(self, uid: PodUid, charge: Charge, row: int | None) -> Charge:
        """The charge with the cards that the kubelet picked, as far as they are known."""
        node = None if row is None else self.columns.nodes[row]
        cards = picks_of(node, uid)
        return with_picks(charge, cards, self.inventory.get(charge.node, ())) if cards else charge

    def _heed_agent(self, row: int) -> None:
        """Charge pods of a row to the cards that its agent names, or to these no longer."""
        name, node = self._usage.name(row), self.columns.nodes[row]
        if node is not None and (node.agent.picks or node.agent.problem):
            self.overdrafts.suspect(name)
        else:
            self.overdrafts.touched(name)
        for uid, charge in [*self.charges_on(name).items()]:
            now = self._picked(uid, charge.unpicked or charge, row)
            if now.allocation == charge.allocation and now.picked == charge.picked:
                continue
            if uid in self._charges:
                self._charges[uid] = self._pods_on[name][uid] = now
            else:
                self._lingering.put(uid, now)
            # Both: the second one needs to know of the first.
            if not all([self._usage.add(row, charge, -1), self._usage.add(row, now, 1)]):
                self._lay_out_cards(row)
            self.improved.add(row)

    def _withdraw(self, resources: set[str]) -> None:
        """One node fewer offers these resources."""
        self._usage.offered.withdraw(resources)

    def _add(self, charge: Charge, row: int, sign: int) -> None:
        if charge.pod is not None:
            self.placed_pods.add(row, charge.pod, sign)
        if not self._usage.add(row, charge, sign):
            self._lay_out_cards(row)

    def _placed(self) -> Iterator[tuple[int, PlacedPod]]:
        """The placed pods of all rows."""
        for node, charges in self._pods_on.items():
            row = self.columns.row_of.get(node)
            if row is not None:
                for charge in charges.values():
                    if charge.pod is not None:
                        yield row, charge.pod

    def _lay_out_cards(self, row: int) -> None:
        """Rewrite a row's card slots from the inventory, the charges and the reservations."""
        name = self._usage.name(row)
        held = [charge.allocation for charge in self.charges_on(name).values() if charge.allocation]
        reservations = self._reserved.allocations_on(name)
        self._usage.lay_out(row, self.inventory.get(name, ()), held, reservations)

    def _row_for(self, name: NodeName) -> int:
        """The row of a node; a new row starts with the charges that wait for it."""
        row = self.columns.row_of.get(name)
        if row is None:
            row, waiting = self.columns.row_for(name), self.pods_on(name)
            for charge in waiting.values():
                if charge.pod is not None:
                    self.placed_pods.add(row, charge.pod, 1)
                self._usage.add(row, charge, 1)
            if waiting:
                self._lay_out_cards(row)
            if self.shared_ports(name):
                self.overdrafts.suspect(name)
        return row

    def _forget_if_empty(self, name: NodeName) -> None:
        """Drop a node that is not shown once nothing is charged on it."""
        columns, row = self.columns, self.columns.row_of.get(name)
        if row is not None and columns.nodes[row] is not None:
            return
        if self._pods_on.get(name) or self.reservations_on(name) or self.lingering_on(name):
            return
        self._pods_on.pop(name, None)
        self._ports.pop(name, None)
        if row is not None:
            self._usage.lay_out(row, (), (), ())
            columns.free_row(row)


def _is_tagged(charge: Charge) -> bool:
    # They are few, and each pod passes here twice: no generator.
    for card in () if charge.allocation is None else charge.allocation.cards:  # noqa: SIM110
        if card.tags:
            return True
    return False
