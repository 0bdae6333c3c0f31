"""The cluster's state in columns: one row per node, `width` card slots per row.

The card table is flat and sorted by node: the cards of row r are entries r*width … r*width+width-1,
so each card column is also a matrix of shape (rows, width). Empty slots carry ABSENT. All amounts
are int64: cpu and GPU shares in thousandths, memory in bytes.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.cluster_objects import ClusterObjects
from kubeshare_py.cluster.node_images import NodeImages
from kubeshare_py.cluster.numbering import SPARE_VALUES, Numbering
from kubeshare_py.cluster.pods.placed_pods import PlacedPods, PodIndex
from kubeshare_py.cluster.row_devices import RowDevices
from kubeshare_py.cluster.volumes.storage_index import StorageIndex
from kubeshare_py.domain.card_tags import CardTag
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.node import Node, Taint
from kubeshare_py.domain.pod import UNREQUESTED
from kubeshare_py.domain.readiness import ReadinessReport
from kubeshare_py.topology.node_topologies import NodeTopologies

IntArray = NDArray[np.int64]

# Card flags: a card with any of them takes no further pods.
ABSENT = 1  # empty slot, or a card that is not, or no longer, in the inventory
UNHEALTHY = 2
EXCLUSIVE = 4
CROWDED = 8  # has as many tenants as it may have
HELD_BACK = 16  # kept for pods whose cards the kubelet picks
EXCLUDING = 32  # takes only pods of the exclusion tag of those on it
CORDONED = 64  # administrators keep new pods off it
FOREIGN = 128  # no GPU: takes only claims that name its vendor
FLAG_VALUES = 256

# The first resource columns. Columns of extended resources follow (`offered`).
CPU, MEMORY, EPHEMERAL_STORAGE, PODS, PORTS, UNREQUESTED_CPU, UNREQUESTED_MEMORY = range(7)
PORT_RESOURCE = "pod-manager ports"
FIXED_RESOURCES = (
    "cpu",
    "memory",
    "ephemeral-storage",
    "pods",
    PORT_RESOURCE,
    UNREQUESTED["cpu"],
    UNREQUESTED["memory"],
)
#: What every node offers of what only scores count (`Shape.unrequested`): more than pods can hold.
UNBOUNDED = 1 << 60

NODE_COLUMNS = (
    "gpu_count",
    "gpu_capacity_milli",
    "gpu_free_milli",
    "gpu_used_percent",
    "unschedulable",
    "taint_set",
    "feature_set",
    "board",
    "idle_cards",
)
CARD_COLUMNS = (
    "free_milli",
    "free_bytes",
    "headroom",
    "share_headroom",
    "idle",
    "capacity_milli",
    "capacity_bytes",
    "share_bytes",
    "tenants",
    "max_tenants",
    "exclusive",
    "excluding",
    "tag_set",
    "flags",
    "model",
    "readiness",
    "position_bit",
    "break_order",
    "numa",
    "rdma",
    "cell_priority",
    "reserved_milli",
    "reserved_bytes",
    "reservations",
)
#: The columns that follow from charges and reservations, whether they count them or are derived
#: from such counts. All others follow from nodes and their GPUs alone. (A charge on a card without
#: a slot makes one, so that the other cards' columns may move to other slots.)
CHARGED_COLUMNS = (
    "free",
    "gpu_free_milli",
    "gpu_used_percent",
    "idle_cards",
    "free_milli",
    "free_bytes",
    "headroom",
    "share_headroom",
    "idle",
    "tenants",
    "exclusive",
    "excluding",
    "tag_set",
    "flags",
    "break_order",
    "reserved_milli",
    "reserved_bytes",
    "reservations",
)

#: The most label columns that are cached; beyond, all are rebuilt on demand.
LABEL_COLUMNS_KEPT = 512
#: The values of an empty card slot, where they are not 0.
EMPTY_SLOT = {"flags": ABSENT, "headroom": -1, "share_headroom": -1, "numa": -1}


#: The number of pods of each tag on one card, sorted by tag.
TagCounts = tuple[tuple[CardTag, int], ...]


@dataclass(slots=True)
class LabelColumn:
    """One label key over all rows.

    `codes`, (rows,) int64, are numbers of `values`; 0 is for rows without the label.
    """

    codes: IntArray
    values: dict[str | None, int] = field(default_factory=lambda: {None: 0})
    #: `values`, to read only.
    numbers: Mapping[str | None, int] = field(init=False)

    def __post_init__(self) -> None:
        self.numbers = MappingProxyType(self.values)

    def put(self, row: int, value: str | None) -> None:
        """Set the value of one row."""
        self.codes[row] = self.values.setdefault(value, len(self.values))


@dataclass(slots=True)
class Columns:
    """The arrays. Only the ledger writes them; plugins read them through `Rows`.

    Node columns are (rows,), `allocatable` and `free` (rows, resources), card columns (rows,
    width); int64 all. cpu and shares are in milli, memory and ephemeral storage in bytes.

    `names[row]` is None for a free row. `nodes[row]` is None for a row that is kept only because
    pods or reservations are on a node that the API server no longer shows.
    """

    names: list[NodeName | None] = field(default_factory=list)
    nodes: list[Node | None] = field(default_factory=list)
    uuids: list[list[GpuUuid]] = field(default_factory=list)
    #: The rows with a slot for a card, nearly always one; `put_uuids` keeps it.
    rows_with: dict[GpuUuid, tuple[int, ...]] = field(default_factory=dict)
    row_of: dict[NodeName, int] = field(default_factory=dict)
    free_rows: list[int] = field(default_factory=list)
    #: The column of each resource; replaced when one gets a column or loses it.
    resources: Mapping[str, int] = field(
        default_factory=lambda: MappingProxyType(
            {name: column for column, name in enumerate(FIXED_RESOURCES)}
        )
    )
    #: Columns hold numbers for card models, readiness, and sets of taints and of features, which
    #: have few different values. Number 0 is no card, unknown readiness, and an empty set.
    models: Numbering[str] = field(default_factory=lambda: Numbering(""))
    readinesses: Numbering[ReadinessReport] = field(default_factory=lambda: Numbering(()))
    tag_sets: Numbering[TagCounts] = field(default_factory=lambda: Numbering(()))
    taint_sets: Numbering[tuple[Taint, ...]] = field(default_factory=lambda: Numbering(()))
    feature_sets: Numbering[tuple[str, ...]] = field(default_factory=lambda: Numbering(()))
    #: Grows when the tables grow, or when values get other numbers: caches with one entry per row
    #: must then start anew.
    layout: int = 0
    present: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    allocatable: IntArray = field(default_factory=lambda: _table(0, len(FIXED_RESOURCES)))
    free: IntArray = field(default_factory=lambda: _table(0, len(FIXED_RESOURCES)))
    gpu_count: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    #: The sum of the cards' `capacity_milli`.
    gpu_capacity_milli: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    gpu_free_milli: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    gpu_used_percent: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    unschedulable: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    taint_set: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    feature_set: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    labels: dict[str, LabelColumn] = field(default_factory=dict)
    #: Label keys of nodes, and some keys that no node has any more. Pods may ask for any other key:
    #: those share one empty column.
    label_keys: set[str] = field(default_factory=set)
    _most_label_keys: int = SPARE_VALUES
    _unlabelled: LabelColumn = field(
        default_factory=lambda: LabelColumn(np.zeros(0, np.int64)), repr=False
    )
    free_milli: IntArray = field(default_factory=lambda: _table(0, 1))
    free_bytes: IntArray = field(default_factory=lambda: _table(0, 1))
    #: `headroom` is the largest share of one more pod that the card takes, in milli, 1000 at most,
    #: with the memory that goes with a share by default. `share_headroom` is all of its share that
    #: is free, whatever its memory, which may be more. Both are -1 for a card with flags.
    headroom: IntArray = field(default_factory=lambda: _table(0, 1))
    share_headroom: IntArray = field(default_factory=lambda: _table(0, 1))
    #: 1 for a card without flags and without tenants.
    idle: IntArray = field(default_factory=lambda: _table(0, 1))
    #: What pods may hold of a card in all: its share and memory, scaled if the card is.
    capacity_milli: IntArray = field(default_factory=lambda: _table(0, 1))
    capacity_bytes: IntArray = field(default_factory=lambda: _table(0, 1))
    #: The memory that goes with a whole share by default.
    share_bytes: IntArray = field(default_factory=lambda: _table(0, 1))
    tenants: IntArray = field(default_factory=lambda: _table(0, 1))
    max_tenants: IntArray = field(default_factory=lambda: _table(0, 1))
    exclusive: IntArray = field(default_factory=lambda: _table(0, 1))
    #: The number of pods with an exclusion tag, and the tags of all pods as numbers of `tag_sets`.
    excluding: IntArray = field(default_factory=lambda: _table(0, 1))
    tag_set: IntArray = field(default_factory=lambda: _table(0, 1))
    flags: IntArray = field(default_factory=lambda: _table(0, 1))
    model: IntArray = field(default_factory=lambda: _table(0, 1))
    #: Which isolation back-ends are ready: numbers of `readinesses`, 0 where nothing is reported.
    readiness: IntArray = field(default_factory=lambda: _table(0, 1))
    #: How cards are joined. `board` is the number of a row's board. `position_bit` is a card's
    #: position on the board as a bit set of one, 0 for cards on no board. `idle_cards` is the set
    #: of idle positions. `break_order` is an idle card's place in the order in which shares should
    #: break cards: 1 is first, 0 a card in use.
    boards: NodeTopologies = field(default_factory=NodeTopologies)
    board: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    position_bit: IntArray = field(default_factory=lambda: _table(0, 1))
    idle_cards: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    break_order: IntArray = field(default_factory=lambda: _table(0, 1))
    #: The card's NUMA node, -1 if unknown; the priority of the card's cell.
    numa: IntArray = field(default_factory=lambda: _table(0, 1))
    #: How near the card is to an RDMA device of its node: from 5 (at its PCIe switch) to 1, 0 for
    #: none or unknown.
    rdma: IntArray = field(default_factory=lambda: _table(0, 1))
    cell_priority: IntArray = field(default_factory=lambda: _table(0, 1))
    #: The part of a card's taken share, memory and tenants that is reserved for waiting pods.
    reserved_milli: IntArray = field(default_factory=lambda: _table(0, 1))
    reserved_bytes: IntArray = field(default_factory=lambda: _table(0, 1))
    reservations: IntArray = field(default_factory=lambda: _table(0, 1))
    #: Objects besides nodes that placement depends on, and the pods that are placed.
    objects: ClusterObjects = field(default_factory=ClusterObjects)
    pods: PodIndex = field(init=False)
    images: NodeImages = field(default_factory=NodeImages)
    storage: StorageIndex = field(init=False)
    devices: RowDevices = field(init=False)
    #: For each row, the card slot of each position of its board.
    board_slots: list[tuple[int, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.pods = PlacedPods(self.objects)
        self.storage = StorageIndex(self.objects)
        self.devices = RowDevices(self.objects, self.names, self.row_of, self.uuids)

    @property
    def rows(self) -> int:
        """The number of rows in the tables, free ones included."""
        return len(self.present)

    @property
    def width(self) -> int:
        """The number of card slots per row."""
        return int(self.free_milli.shape[1])

    def row_for(self, name: NodeName) -> int:
        """The row of this node; a new one if it has none."""
        row = self.row_of.get(name)
        if row is None:
            if not self.free_rows:
                self._grow_rows()
            row = self.free_rows.pop()
            self.row_of[name] = row
            self.names[row] = name
            self.devices.renamed.add(row)
        return row

    def free_row(self, row: int) -> None:
        """Free the row of a node that is neither shown nor charged; its columns must be empty."""
        name = self.names[row]
        assert name is not None
        del self.row_of[name]
        self.names[row] = None
        self.nodes[row] = None
        self.put_uuids(row, [])
        self.board_slots[row] = ()
        self.present[row] = False
        self.free_rows.append(row)

    @property
    def model_names(self) -> list[str]:
        """Card models by number; replaced by another list when numbers change."""
        return self.models.values

    @property
    def readiness_sets(self) -> list[ReadinessReport]:
        """Readiness of isolation back-ends, by number; another list when numbers change."""
        return self.readinesses.values

    def describe(self, row: int, node: Node) -> None:
        """Write the columns of labels and taints of a row whose node is already set."""
        self.unschedulable[row] = int(node.unschedulable)
        self.taint_set[row] = self.taint_sets.number(node.taints)
        self.feature_set[row] = self.feature_sets.number(node.features)
        self.label_keys.update(node.labels)
        for key, column in self.labels.items():
            column.put(row, node.labels.get(key))
            if len(column.values) > 2 * self.rows + SPARE_VALUES:
                self.labels[key] = self._label_column(key)

    def label(self, key: str) -> LabelColumn:
        """The column of a label, built at the first request and kept up to date from then on."""
        column = self.labels.get(key)
        if column is None and key not in self.label_keys:
            if len(self._unlabelled.codes) != self.rows:
                self._unlabelled = LabelColumn(np.zeros(self.rows, np.int64))
            return self._unlabelled
        if column is None:
            if len(self.labels) >= LABEL_COLUMNS_KEPT:
                self.labels.clear()
            column = self.labels[key] = self._label_column(key)
        return column

    def tidy(self) -> None:
        """Drop values that no row has any more, where there may be many of them."""
        numbered: tuple[tuple[str, Numbering[Any] | NodeTopologies], ...] = (
            ("taint_set", self.taint_sets),
            ("feature_set", self.feature_sets),
            ("model", self.models),
            ("readiness", self.readinesses),
            ("tag_set", self.tag_sets),
            ("board", self.boards),
        )
        for name, numbering in numbered:
            if numbering.is_crowded:
                setattr(self, name, numbering.renumber(getattr(self, name)))
                self.layout += 1
        if len(self.label_keys) > self._most_label_keys:
            nodes = [node for node in self.nodes if node is not None]
            self.label_keys = {key for node in nodes for key in node.labels}
            self._most_label_keys = 2 * len(self.label_keys) + SPARE_VALUES
            self.labels = {key: self.labels[key] for key in self.labels if key in self.label_keys}

    def _label_column(self, key: str) -> LabelColumn:
        column = LabelColumn(np.zeros(self.rows, np.int64))
        for row, node in enumerate(self.nodes):
            if node is not None:
                column.put(row, node.labels.get(key))
        return column

    def named(self, names: Collection[str]) -> NDArray[np.bool_]:
        """Which rows are nodes of these names; shape (rows,), bool."""
        found = (self.row_of.get(NodeName(name)) for name in names)
        flags = np.zeros(self.rows, np.bool_)
        flags[[row for row in found if row is not None]] = True
        return flags

    def put_uuids(self, row: int, uuids: list[GpuUuid]) -> None:
        """Set the cards of a row, by slot."""
        old, new, alone = {*self.uuids[row]}, {*uuids}, (row,)
        self.uuids[row] = uuids
        self.devices.renamed.add(row)
        for uuid in old - new:
            rows = tuple(other for other in self.rows_with[uuid] if other != row)
            if rows:
                self.rows_with[uuid] = rows
            else:
                del self.rows_with[uuid]
        for uuid in new - old:
            others = self.rows_with.get(uuid)
            self.rows_with[uuid] = (*others, row) if others else alone

    def among(self, uuids: Collection[GpuUuid]) -> NDArray[np.bool_]:
        """Which cards are these; (rows, width) bool."""
        rows, width = self.free_milli.shape
        found = np.zeros((rows, width), np.bool_)
        for uuid in uuids:
            for row in self.rows_with.get(uuid, ()):
                slot = self.uuids[row].index(uuid)
                # The tables of an overlay may be smaller until it follows those below.
                if row < rows and slot < width:
                    found[row, slot] = True
        return found

    def widen(self, width: int) -> None:
        """Make room for `width` cards on each node."""
        if width > self.width:
            for column in CARD_COLUMNS:
                filler = EMPTY_SLOT.get(column, 0)
                setattr(self, column, _wider(getattr(self, column), width, filler))
            self.layout += 1

    def _grow_rows(self) -> None:
        old, new = self.rows, max(16, 2 * self.rows)
        for column in ("present", "allocatable", "free", *NODE_COLUMNS, *CARD_COLUMNS):
            array = getattr(self, column)
            filler = EMPTY_SLOT.get(column, 0)
            grown = np.full((new, *array.shape[1:]), filler, array.dtype)
            grown[:old] = array
            setattr(self, column, grown)
        for listed in (self.names, self.nodes):
            listed.extend([None] * (new - old))
        for label in self.labels.values():
            label.codes = np.pad(label.codes, (0, new - old))
        self.uuids.extend([] for _ in range(new - old))
        self.board_slots.extend(() for _ in range(new - old))
        self.free_rows.extend(range(new - 1, old - 1, -1))
        self.layout += 1


def _table(rows: int, width: int) -> IntArray:
    return np.zeros((rows, width), np.int64)


def _wider(table: IntArray, width: int, filler: int) -> IntArray:
    wide = _table(table.shape[0], width)
    # Pages that were never written cost nothing yet: the first card of a large cluster would have
    # to wait for all of them.
    if filler:
        wide.fill(filler)
    wide[:, : table.shape[1]] = table
    return wide
