"""Counts charges in the columns: adds them to rows and subtracts them, card by card.

It knows rows and charges, but not which pods they belong to; the ledger does. A charge on a card
without a slot in its row cannot be counted: the row is then laid out anew, from all its charges.
Cards that the node does not have get only a few slots. Beyond them a charge is kept by the ledger
alone, and counts from the moment the card appears.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from kubeshare_py.cluster.changes import ChangeLog
from kubeshare_py.cluster.charge import (
    NONE,
    Charge,
    NativeGpus,
    Resources,
    is_intruded,
    is_overdrawn,
    native_of,
    to_hold_back,
)
from kubeshare_py.cluster.columns import (
    ABSENT,
    CORDONED,
    EXCLUSIVE,
    FIXED_RESOURCES,
    FOREIGN,
    PODS,
    PORTS,
    UNHEALTHY,
    Columns,
    IntArray,
)
from kubeshare_py.cluster.derived import (
    count_tags,
    flags_of,
    held_back,
    room,
    used_percent,
)
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.card_reading import PATHS
from kubeshare_py.domain.gpu import WHOLE_MILLI, CardTags, Gpu, exclusions
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.pod import PlacedPod
from kubeshare_py.domain.values import replace
from kubeshare_py.topology.card_sets import PositionSet
from kubeshare_py.topology.node_topology import in_order

# Which resources have a column: the fixed ones, and those that a node offers now.
#
# Pods may ask for any name, and nodes may offer other names every second. So a column ends with the
# last node that offers its resource, and another resource gets its place. What pods hold of a
# resource without a column is kept by row, and counted as soon as there is a column.


#: How many columns are added at once.
_SPARE = 4


class Offered:
    """Opens and closes the resource columns of `columns`.

    `columns.resources` is replaced, never changed: a reader that keeps it sees by its identity that
    columns came or went.
    """

    __slots__ = ("_columns", "_nodes", "_vacant", "unoffered")

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._nodes: Counter[str] = Counter()
        self._vacant: list[int] = []
        #: Amounts held of resources without a column, by resource and row; never 0.
        self.unoffered: dict[str, dict[int, int]] = {}

    def offer(self, names: Iterable[str]) -> None:
        """One more node offers these resources."""
        names = sorted({*names}.difference(FIXED_RESOURCES))
        self._nodes.update(names)
        fresh = [name for name in names if name not in self._columns.resources]
        if fresh:
            self._open(fresh)

    def withdraw(self, names: Iterable[str]) -> None:
        """One node fewer offers these resources; `allocatable` of its row is 0 already."""
        names = sorted({*names}.difference(FIXED_RESOURCES))
        self._nodes.subtract(names)
        gone = [name for name in names if not self._nodes[name]]
        for name in gone:
            del self._nodes[name]
        if gone:
            self._close(gone)

    def hold(self, row: int, resources: Resources, sign: int) -> None:
        """Pods hold these amounts of resources without a column on a row (1), or no longer (-1)."""
        for name, amount in resources:
            rows = self.unoffered.setdefault(name, {})
            rows[row] = rows.get(row, 0) + sign * amount
            if not rows[row]:
                del rows[row]
            if not rows:
                del self.unoffered[name]

    def _open(self, names: list[str]) -> None:
        columns = self._columns
        resources = dict(columns.resources)
        for name in names:
            if not self._vacant:
                self._widen()
            column = resources[name] = self._vacant.pop()
            for row, amount in self.unoffered.pop(name, {}).items():
                columns.free[row, column] = -amount
        columns.resources = MappingProxyType(resources)

    def _close(self, names: list[str]) -> None:
        columns = self._columns
        resources = dict(columns.resources)
        for name in names:
            column = resources.pop(name)
            free = columns.free[:, column]
            rows = np.flatnonzero(free)
            if len(rows):
                held = zip(rows.tolist(), (-free[rows]).tolist(), strict=True)
                self.unoffered[name] = dict(held)
            free.fill(0)
            self._vacant.append(column)
        columns.resources = MappingProxyType(resources)

    def _widen(self) -> None:
        columns = self._columns
        old = columns.free.shape[1]
        columns.widen_resources(old + _SPARE)
        self._vacant.extend(range(old + _SPARE - 1, old - 1, -1))


# Nodes on which pods may hold more than there is, or another pod's cards; for the reports of that.
#
# Nearly always there are none, so looking must then cost nothing. The ledger names a node when it
# is overdrawn, and again whenever one of its cards changes, until `is_covered` is called.


class Overdrafts:
    """The nodes to be checked; false while there are none."""

    __slots__ = ("_ignores", "overdrawn", "unchecked")

    def __init__(self) -> None:
        #: The nodes that are overdrawn; to be read.
        self.overdrawn: set[NodeName] = set()
        #: The nodes to be checked; to be read.
        self.unchecked: set[NodeName] = set()
        self._ignores = False

    def __bool__(self) -> bool:
        return bool(self.unchecked)

    def suspect(self, node: NodeName) -> None:
        """Have this node checked."""
        if not self._ignores:
            self.overdrawn.add(node)
            self.unchecked.add(node)

    def touched(self, node: NodeName) -> None:
        """Cards of this node changed: have it checked again if it was overdrawn."""
        if node in self.overdrawn and not self._ignores:
            self.unchecked.add(node)

    @contextmanager
    def ignoring(self) -> Iterator[None]:
        """Ignore changes within: they concern reservations only."""
        self._ignores = True
        try:
            yield
        finally:
            self._ignores = False

    def is_covered(self, node: NodeName) -> None:
        """Nothing of this node is overdrawn any more."""
        self.overdrawn.discard(node)

    def take(self, most: int) -> list[NodeName]:
        """At most `most` of the nodes to be checked, by name; they are then no longer listed."""
        nodes = sorted(self.unchecked)[:most]
        self.unchecked.difference_update(nodes)
        return nodes


#: What a pod takes of a node besides cards: its resources, and whether it takes a port.
RowRequest = tuple[Resources, bool]
#: The most requests whose vectors are cached, and the most resources in one of them.
VECTORS_KEPT = 4096
LONGEST_KEPT = 32
#: The most slots, in order of uuid, for charged cards that a node does not have. Each slot costs
#: one on every node.
MAX_STRAYS = 16
#: The room of every card with flags.
_NO_ROOM = room(ABSENT, 0, 0, 0, 1, min)


@dataclass(frozen=True, slots=True)
class Amounts:
    """Amounts that pods hold of rows, one line each; int64.

    Node resources are (k, resources), card amounts (k, width), and GPUs that the kubelet gives out
    (k, 3), as `NativeGpus`. `milli` are shares in milli, `memory` is in bytes,
    `tenants`, `exclusive` and `excluding` count pods. `tags` are those of each pod of a line that
    has any, with the slot of its card. `pods` are what other pods' placement depends on besides, by
    line.
    """

    free: IntArray
    milli: IntArray
    memory: IntArray
    tenants: IntArray
    exclusive: IntArray
    excluding: IntArray
    native: IntArray
    tags: dict[int, list[tuple[int, CardTags]]]
    pods: dict[int, list[PlacedPod]] = field(default_factory=dict)

    @staticmethod
    def none(lines: int, resources: int, width: int) -> "Amounts":
        """k lines of zeros: `free` (k, resources), card amounts (k, width), `native` (k, 3)."""
        milli, memory, tenants, exclusive, excluding = np.zeros((5, lines, width), np.int64)
        free, native = np.zeros((lines, resources), np.int64), np.zeros((lines, 3), np.int64)
        return Amounts(free, milli, memory, tenants, exclusive, excluding, native, {})

    def joined(self, others: "Amounts") -> "Amounts":
        """These lines, and behind them those of others."""
        count, join = len(self.free), np.concatenate
        return Amounts(
            join((self.free, others.free)),
            join((self.milli, others.milli)),
            join((self.memory, others.memory)),
            join((self.tenants, others.tenants)),
            join((self.exclusive, others.exclusive)),
            join((self.excluding, others.excluding)),
            join((self.native, others.native)),
            self.tags | {count + line: found for line, found in others.tags.items()},
            self.pods | {count + line: found for line, found in others.pods.items()},
        )

    def put_cards(self, cards: Sequence[tuple[int, int, CardCharge]]) -> None:
        """Add parts of cards: the line, the slot, and what is charged."""
        if not cards:
            return
        at = np.array([line for line, _, _ in cards]), np.array([slot for _, slot, _ in cards])
        np.add.at(self.milli, at, [card.milli for _, _, card in cards])
        np.add.at(self.memory, at, [card.memory_bytes for _, _, card in cards])
        np.add.at(self.tenants, at, 1)
        np.add.at(self.exclusive, at, [int(card.exclusive) for _, _, card in cards])
        for line, slot, card in cards:
            if card.tags:
                self.excluding[line, slot] += bool(exclusions(card.tags))
                self.tags.setdefault(line, []).append((slot, card.tags))


class Accounting:
    """The charged columns of some tables, kept up to date by each charge.

    Of row r let `charges` be all that is charged on it, reservations and what lingering pods keep
    included, and of slot s let `parts` be the parts of their allocations on the card there. A card
    without a slot counts nowhere. [...] is 1 where it holds, else 0. At any time, for all r and s:

    - What is counted (`Follows.CHARGES`):
      free[r] = allocatable[r] - sum of vector(charge) over charges
      free_milli[r, s] = capacity_milli[r, s] - sum of part.milli over parts
      free_bytes[r, s] = capacity_bytes[r, s] - sum of part.memory_bytes over parts
      tenants[r, s] = number of parts
      exclusive[r, s] = sum of [part.exclusive] over parts
      excluding[r, s] = sum of [part has an exclusion tag] over parts
      tag_set[r, s] = number of the count of each tag over parts
      reserved_milli, reserved_bytes, reservations[r, s] = the sums of milli and memory_bytes and
      the number of those parts that are of reservations
    - What follows from that (`Follows.COLUMNS`), by the rules in `derived`:
      flags[r, s] = what node and GPU say, with EXCLUSIVE, EXCLUDING and CROWDED by `flags_of`, and
      HELD_BACK by `held_back`, for as many cards as native pods need
      headroom, share_headroom, idle[r, s] = room(flags, tenants, free_milli, free_bytes)[r, s]
      idle_cards[r] = sum of position_bit[r, s] over s with idle[r, s]
      break_order[r, s] = place of s, from 1, in the board's order of its idle whole cards, else 0
      gpu_free_milli[r] = sum of free_milli[r, s] over s without ABSENT
      gpu_used_percent[r] = used_percent(gpu_capacity_milli[r], gpu_free_milli[r])

    Sums are changed by what comes and goes, never added up anew: all are of integers, so that no
    error grows. tests/cluster/test_invariant.py adds them up anew after any history.
    """

    def __init__(self, columns: Columns) -> None:
        self.columns = columns

    def count_cards(
        self, row: int, slots: Sequence[int], allocation: Allocation, sign: int, native: int
    ) -> bool:
        """Add (sign 1) or subtract (-1) an allocation, and update the derived columns.

        `slots` are those of its cards. False if fewer cards are idle than native pods hold there.
        """
        columns = self.columns
        free_milli, free_bytes = columns.free_milli, columns.free_bytes
        tenants, idle, flags = columns.tenants, columns.idle, columns.flags
        taken, flipped = 0, False
        for slot, card in zip(slots, allocation.cards, strict=True):
            milli = free_milli[row, slot] = free_milli.item(row, slot) - sign * card.milli
            memory = free_bytes.item(row, slot) - sign * card.memory_bytes
            free_bytes[row, slot] = memory
            pods = tenants[row, slot] = tenants.item(row, slot) + sign
            if card.exclusive:
                columns.exclusive[row, slot] = columns.exclusive.item(row, slot) + sign
            if card.tags:
                count_tags(columns, row, slot, card.tags, sign)
            was_idle = idle.item(row, slot)
            flipped |= was_idle != self._derive_room(row, slot, pods, milli, memory)
            if not flags.item(row, slot) & ABSENT:
                taken += card.milli
        columns.gpu_free_milli[row] -= sign * taken
        enough = True
        if native:
            enough = self.hold_back_cards(row, native)
        elif flipped:
            self._derive_order(row)
        self._derive_node(row)
        return enough

    def count_many(self, rows: IntArray, slots: IntArray, cards: Sequence[CardCharge]) -> None:
        """Add many cards as `count_cards` does, (n,), on rows without native pods.

        `rows` and `slots`, (n,) int64 each, say where the `cards` are, which have no tags. A card
        may be there several times, once for each pod.
        """
        columns, at = self.columns, (rows, slots)
        milli = np.array([card.milli for card in cards], np.int64)
        # `ufunc.at`: -= with indices counts a card that is there twice only once.
        np.subtract.at(columns.free_milli, at, milli)
        np.subtract.at(columns.free_bytes, at, [card.memory_bytes for card in cards])
        np.add.at(columns.tenants, at, 1)
        if any(card.exclusive for card in cards):
            np.add.at(columns.exclusive, at, [int(card.exclusive) for card in cards])
        there = columns.flags[at] & ABSENT == 0
        np.subtract.at(columns.gpu_free_milli, rows, milli * there)
        was_idle = columns.idle[at]
        self._derive_cards(at)
        flipped = rows[was_idle != columns.idle[at]]
        if len(flipped):
            self._derive_orders(np.unique(flipped))
        whole, free = columns.gpu_capacity_milli[rows], columns.gpu_free_milli[rows]
        columns.gpu_used_percent[rows] = used_percent(whole, free, np.minimum)

    def count_reservation(
        self, row: int, slots: Sequence[int], allocation: Allocation, sign: int
    ) -> None:
        """Add (sign 1) or remove (-1) a reservation in the columns of reservations only."""
        columns = self.columns
        for slot, card in zip(slots, allocation.cards, strict=True):
            columns.reserved_milli[row, slot] += sign * card.milli
            columns.reserved_bytes[row, slot] += sign * card.memory_bytes
            columns.reservations[row, slot] += sign

    def hold_back_cards(self, row: int, native: int) -> bool:
        """Derive a row's cards and their order, where native pods hold so many of its GPUs.

        False if fewer are idle: then all cards are held back.
        """
        columns = self.columns
        slots = range(len(columns.uuids[row]))
        for slot in slots:
            self._derive_card(row, slot)
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
        self._derive_order(row)
        return native <= idle_all

    def _derive_card(self, row: int, slot: int) -> int:
        """As `_derive_room`, with what the columns have."""
        columns = self.columns
        milli, memory = columns.free_milli.item(row, slot), columns.free_bytes.item(row, slot)
        return self._derive_room(row, slot, columns.tenants.item(row, slot), milli, memory)

    def _derive_room(self, row: int, slot: int, tenants: int, milli: int, memory: int) -> int:
        """Write the flags that follow from a card's tenants, and its room for one more pod.

        `milli` and `memory` (bytes) are free. Returns 1 if the card is idle, or 0.
        """
        columns = self.columns
        before = columns.flags.item(row, slot)
        most, exclusive = columns.max_tenants.item(row, slot), columns.exclusive.item(row, slot)
        flags = flags_of(before, tenants, most, exclusive, columns.excluding.item(row, slot))
        if flags != before:
            columns.flags[row, slot] = flags
        if flags:
            values = _NO_ROOM
        else:
            with_share = columns.share_bytes.item(row, slot)
            values = room(flags, tenants, milli, memory, with_share, min)
        headroom, share_headroom, idle = values
        columns.headroom[row, slot], columns.share_headroom[row, slot] = headroom, share_headroom
        columns.idle[row, slot] = idle
        return idle

    def _derive_cards(self, at: tuple[IntArray, IntArray]) -> None:
        """`_derive_card` for many cards, by their rows and slots, (n,) each."""
        columns = self.columns
        tenants, before = columns.tenants[at], columns.flags[at]
        exclusive, excluding = columns.exclusive[at], columns.excluding[at]
        flags = flags_of(before, tenants, columns.max_tenants[at], exclusive, excluding)
        with_share = np.maximum(columns.share_bytes[at], 1)
        free_milli, free_bytes = columns.free_milli[at], columns.free_bytes[at]
        headroom, share_headroom, idle = room(
            flags, tenants, free_milli, free_bytes, with_share, np.minimum
        )
        columns.flags[at], columns.idle[at] = flags, idle
        columns.headroom[at], columns.share_headroom[at] = headroom, share_headroom

    def _derive_node(self, row: int) -> None:
        """Write how full the node's cards are, in percent."""
        columns = self.columns
        whole, free = columns.gpu_capacity_milli.item(row), columns.gpu_free_milli.item(row)
        columns.gpu_used_percent[row] = used_percent(whole, free, min)

    def _derive_order(self, row: int) -> None:
        """Write which cards are idle, and the order in which shares should break them.

        Cards scaled to less than one GPU have no place in it: some shares do not fit them, idle or
        not.
        """
        columns = self.columns
        idle: list[int] = columns.idle[row].tolist()
        bits: list[int] = columns.position_bit[row].tolist()
        capacity: list[int] = columns.capacity_milli[row].tolist()
        slots = columns.board_slots[row]
        cards = small = 0
        for slot in slots:
            if idle[slot]:
                cards |= bits[slot]
                if capacity[slot] < WHOLE_MILLI:
                    small |= bits[slot]
        columns.idle_cards[row] = cards
        keep = columns.break_order[row]
        keep.fill(0)
        order = columns.boards.sets[columns.board.item(row)].order(PositionSet(cards & ~small))
        for place, position in enumerate(order, 1):
            keep[slots[position]] = place

    def _derive_orders(self, rows: IntArray) -> None:
        """`_derive_order` for many different rows, (k,)."""
        columns = self.columns
        # (k, width), then (k,): each bit is there once, so that their sum is their union.
        bits = columns.idle[rows] * columns.position_bit[rows]
        whole = (bits * (columns.capacity_milli[rows] >= WHOLE_MILLI)).sum(1).tolist()
        columns.idle_cards[rows] = bits.sum(1)
        keep = np.zeros_like(bits)
        sets, boards = columns.boards.sets, columns.board[rows].tolist()
        for line, (row, board, cards) in enumerate(zip(rows.tolist(), boards, whole, strict=True)):
            slots = columns.board_slots[row]
            for place, position in enumerate(sets[board].order(PositionSet(cards)), 1):
                keep[line, slots[position]] = place
        columns.break_order[rows] = keep

    def _put_on_board(self, row: int, known: Mapping[GpuUuid, Gpu]) -> None:
        """Write the row's board and each card's position on it. Cards must have slots already."""
        columns = self.columns
        cards = in_order(tuple(known.values()))
        number = columns.boards.number(cards)
        columns.board[row] = number
        count = columns.boards.sets[number].board.count
        slots = tuple(columns.uuids[row].index(card.uuid) for card in cards[:count])
        columns.board_slots[row] = slots
        for position, slot in enumerate(slots):
            columns.position_bit[row, slot] = 1 << position


def with_slots(columns: Columns, row: int, allocation: Allocation) -> tuple[list[int], Allocation]:
    """The slots of the cards that have one in this row, and the allocation of only these."""
    uuids = columns.uuids[row]
    cards = tuple(card for card in allocation.cards if card.uuid in uuids)
    if len(cards) < len(allocation.cards):
        allocation = replace(allocation, cards=cards)
    return [uuids.index(card.uuid) for card in cards], allocation


class UsageAccounting(Accounting):
    """The ledger's columns and their upkeep. `changed` logs rows whose amounts changed."""

    def __init__(self) -> None:
        super().__init__(Columns())
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

    def amounts(self, lines: Sequence[Sequence[Charge]]) -> Amounts:
        """What these charges hold; each line sums up some of one node."""
        columns = self.columns
        found = Amounts.none(len(lines), columns.free.shape[1], columns.width)
        parts = [(line, charge) for line, charges in enumerate(lines) for charge in charges]
        # Few requests are different: their vectors by number, and the number for each part.
        vectors: list[IntArray] = []
        numbers: dict[RowRequest, int] = {}
        numbered: list[int] = []
        cards: list[tuple[int, int, CardCharge]] = []
        for line, charge in parts:
            held = charge.allocation
            if charge.pod is not None:
                found.pods.setdefault(line, []).append(charge.pod)
            request = charge.resources, held is not None and held.port is not None
            if request not in numbers:
                numbers[request] = len(vectors)
                vectors.append(self.vector(*request))
            numbered.append(numbers[request])
            if held is None or not held.cards or charge.unpicked is not None:
                found.native[line] += charge.native
            if held is None or not held.cards:
                continue
            uuids = columns.uuids[columns.row_of[charge.node]]
            cards += [
                (line, uuids.index(card.uuid), card) for card in held.cards if card.uuid in uuids
            ]
        if parts:
            np.add.at(found.free, [line for line, _ in parts], np.array(vectors).take(numbered, 0))
        found.put_cards(cards)
        return found

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
        is_native = False
        if allocation is None or not allocation.cards or charge.unpicked is not None:
            is_native = self._count_native(row, charge.native, sign)
        if allocation is not None and allocation.cards:
            slots = self._slots(row, allocation)
            if slots is None or row in self._rows_with_strays:
                return False  # the slot of a card that left may be free now
            self._count(row, slots, allocation, sign)
        if is_native:
            self.hold_back(row)
        return True

    def has_room_for(
        self,
        columns: Columns,
        rows: IntArray,
        requests: Sequence[RowRequest],
        cards: Sequence[Sequence[CardCharge]],
    ) -> bool:
        """Whether all of these pods fit together, by what is free in `columns`.

        `rows`, (n,) int64, are those of the pods. False also where that can be said only of one pod
        after the other: where cards have tags, or come from the kubelet. True only if `refusal`
        says None of each pod after those before it.
        """
        if self.native or self._rows_with_strays:
            return False
        needs = np.zeros((len(rows), columns.free.shape[1]), np.int64)
        for line, (request, of_pod) in enumerate(zip(requests, cards, strict=True)):
            vector, unoffered = self._request(*request)
            if unoffered or native_of(request[0]) != NONE:
                return False
            if of_pod[1:] and len({card.uuid for card in of_pod}) < len(of_pod):
                return False  # a plugin chose a card twice for one pod
            needs[line] = vector
        there, line_of = np.unique(rows, return_inverse=True)
        # (different rows, resources): of what is not asked for, more may be held than there is.
        sums = np.zeros((len(there), needs.shape[1]), np.int64)
        np.add.at(sums, line_of, needs)
        if ((sums > columns.free[there]) & (sums > 0)).any():
            return False
        held = [card for of_pod in cards for card in of_pod]
        if any(card.tags for card in held):
            return False
        return not held or self._are_free(columns, self._places_of(rows, cards), held)

    def _are_free(
        self, columns: Columns, at: tuple[IntArray, IntArray], cards: Sequence[CardCharge]
    ) -> bool:
        """Whether these parts of cards without tags are free, all together; `at`: (m,) each."""
        amounts = [(one.milli, one.memory_bytes, 1, one.exclusive) for one in cards]
        numbers, line_of = np.unique(at[0] * columns.width + at[1], return_inverse=True)
        # (different cards,) each: what is asked of a card, by how many pods, and how many alone.
        milli, memory, pods, alone = sums = np.zeros((4, len(numbers)), np.int64)
        np.add.at(sums.T, line_of, np.array(amounts, np.int64))
        where = numbers // columns.width, numbers % columns.width
        tenants, most = columns.tenants[where] + pods, columns.max_tenants[where]
        is_free = columns.flags[where] & ~FOREIGN == 0
        is_free &= (milli <= columns.free_milli[where]) & (memory <= columns.free_bytes[where])
        is_free &= ((most == 0) | (tenants <= most)) & ((alone == 0) | (tenants == 1))
        return bool(is_free.all())

    def _places_of(
        self, rows: IntArray, cards: Sequence[Sequence[CardCharge]]
    ) -> tuple[IntArray, IntArray]:
        """The row and the slot of each card, (m,) each; all have slots."""
        uuids, lines = self.columns.uuids, rows.tolist()
        slots = [
            uuids[row].index(card.uuid)
            for row, of_pod in zip(lines, cards, strict=True)
            for card in of_pod
        ]
        return rows.repeat([len(of_pod) for of_pod in cards]), np.array(slots, np.int64)

    def add_each(
        self,
        rows: IntArray,
        requests: Sequence[RowRequest],
        cards: Sequence[Sequence[CardCharge]],
    ) -> None:
        """`add` many charges at once, of these rows, (n,), for which `has_room_for` says yes."""
        columns, at = self.columns, self._add_all(rows, requests, cards)
        # (m,): reservations may leave less than nothing free, which is no over-commitment.
        free = np.minimum(columns.free_milli[at], columns.free_bytes[at])
        several = (columns.flags[at] & EXCLUSIVE > 0) & (columns.tenants[at] > 1)
        for line in np.flatnonzero((free < 0) | several).tolist():
            row, slot = at[0].item(line), at[1].item(line)
            if is_overdrawn(columns, row, slot) or is_intruded(columns, row, slot):
                self.overdrafts.suspect(self.name(row))
        if self.overdrafts.overdrawn:
            for row in np.unique(rows).tolist():
                self.overdrafts.touched(self.name(row))

    def reserve_each(
        self,
        rows: IntArray,
        requests: Sequence[RowRequest],
        cards: Sequence[Sequence[CardCharge]],
    ) -> bool:
        """`add_reservation` of many at once, of these rows, (n,); False if that is not possible.

        Nothing is added then. It is not possible where cards have tags or no slots, or come from
        the kubelet.
        """
        held = [card for of_pod in cards for card in of_pod]
        if self.native or self._rows_with_strays or any(card.tags for card in held):
            return False
        for row, request, of_pod in zip(rows.tolist(), requests, cards, strict=True):
            uuids, unoffered = self.columns.uuids[row], self._request(*request)[1]
            if unoffered or (not of_pod and native_of(request[0]) != NONE):
                return False
            if not all(card.uuid in uuids for card in of_pod):
                return False
        at, columns = self._add_all(rows, requests, cards), self.columns
        np.add.at(columns.reserved_milli, at, [card.milli for card in held])
        np.add.at(columns.reserved_bytes, at, [card.memory_bytes for card in held])
        np.add.at(columns.reservations, at, 1)
        return True

    def _add_all(
        self,
        rows: IntArray,
        requests: Sequence[RowRequest],
        cards: Sequence[Sequence[CardCharge]],
    ) -> tuple[IntArray, IntArray]:
        """Count what many pods take; the rows and slots of their cards, (m,) each."""
        needs = np.array([self.vector(*request) for request in requests])
        np.subtract.at(self.columns.free, rows, needs)
        self.changed.add_all(rows)
        at, held = self._places_of(rows, cards), [card for of_pod in cards for card in of_pod]
        if held:
            self.count_many(*at, held)
        return at

    def add_reservation(self, row: int, charge: Charge, sign: int) -> bool:
        """Add (sign 1) or subtract (-1) a reservation, as `add` does."""
        allocation = charge.allocation
        slots = None if allocation is None else self._slots(row, allocation)
        if allocation is not None and slots is not None:
            self.count_reservation(row, slots, allocation, sign)
        return self.add(row, charge, sign)

    def _slots(self, row: int, allocation: Allocation) -> list[int] | None:
        """The slots of an allocation's cards in the row; None if a card has none."""
        uuids = self.columns.uuids[row]
        slots: list[int] = []
        for card in allocation.cards:
            if card.uuid not in uuids:
                return None
            slots += (uuids.index(card.uuid),)
        return slots

    def _count(self, row: int, slots: list[int], allocation: Allocation, sign: int) -> None:
        """Add or subtract an allocation, and update the derived columns."""
        columns = self.columns
        native = self.held_back(row) if self.native else 0
        if not self.count_cards(row, slots, allocation, sign, native):
            self.overdrafts.suspect(self.name(row))
        if sign > 0:
            for slot in slots:
                flags = columns.flags.item(row, slot)
                if flags & ABSENT:
                    continue
                free = columns.free_milli.item(row, slot), columns.free_bytes.item(row, slot)
                if (min(free) < 0 and is_overdrawn(columns, row, slot)) or (
                    flags & EXCLUSIVE and is_intruded(columns, row, slot)
                ):
                    self.overdrafts.suspect(self.name(row))
        if self.overdrafts.overdrawn:
            self.overdrafts.touched(self.name(row))

    def held_back(self, row: int) -> int:
        """How many idle cards of a row are held back for native pods."""
        native = self.native.get(row)
        return 0 if native is None else to_hold_back(self.columns, row, native)

    def hold_back(self, row: int) -> None:
        """Hold back as many idle cards as native pods need now."""
        if not self.hold_back_cards(row, self.held_back(row)):
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
        columns.clear_cards(row)
        columns.put_uuids(row, uuids)
        self._put_cards(row, known)
        for number, whole in enumerate((*held, *reservations)):
            slots, allocation = with_slots(columns, row, whole)
            if number >= len(held):
                self.count_reservation(row, slots, allocation, 1)
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
        self._put_on_board(row, known)
        self._derive_order(row)
        self._derive_node(row)

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
        self._derive_card(row, slot)
