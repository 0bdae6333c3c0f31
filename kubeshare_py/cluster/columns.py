"""The cluster's state in columns: one row per node, `width` card slots per row.

The card table is flat and sorted by node: the cards of row r are entries r*width … r*width+width-1,
so each card column is also a matrix of shape (rows, width). Empty slots carry ABSENT. All amounts
are int64: cpu and GPU shares in thousandths, memory in bytes.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.cluster_objects import ClusterObjects
from kubeshare_py.cluster.placed_pods import PlacedPods, PodIndex
from kubeshare_py.cluster.row_devices import RowDevices
from kubeshare_py.cluster.storage_index import StorageIndex
from kubeshare_py.domain.card_reading import ReadinessReport
from kubeshare_py.domain.gpu import CardTag
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.node import Node, Taint
from kubeshare_py.domain.pod import UNREQUESTED, NodeImage
from kubeshare_py.topology.card_sets import NodeTopologies

# Numbers for the values of a column that has few different ones.


T = TypeVar("T", bound=Hashable)
V = TypeVar("V")
N = TypeVar("N", bound=np.generic)

#: The most values beyond those in use that are kept before numbers are given anew.
SPARE_VALUES = 1024


class ListView(Sequence[V]):
    """A list to read only; it shows what is added to the list later."""

    __slots__ = ("_values",)

    def __init__(self, values: list[V]) -> None:
        self._values = values

    @overload
    def __getitem__(self, index: int) -> V: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[V]: ...
    def __getitem__(self, index: Any) -> Any:
        return self._values[index]

    def __len__(self) -> int:
        return len(self._values)


class Numbering(Generic[T]):
    """A value's number is its index in `values`; number 0 is `first` and stays.

    Values that no row has any more are kept until there are many of them: nodes' owners may choose
    new values every second. `values` only grows until then, and is replaced by another list. So is
    `shown`, which is `values` to read only.
    """

    __slots__ = ("_most", "_numbers", "shown", "values")

    def __init__(self, first: T) -> None:
        self.values: list[T] = [first]
        self.shown: Sequence[T] = ListView(self.values)
        self._numbers: dict[T, int] = {first: 0}
        self._most = SPARE_VALUES

    def copy(self) -> "Numbering[T]":
        """The same numbers, to be continued apart from these."""
        twin = Numbering(self.values[0])
        twin.values = [*self.values]
        twin.shown = ListView(twin.values)
        twin._numbers, twin._most = dict(self._numbers), self._most
        return twin

    def number(self, value: T) -> int:
        """The number of a value; a new one if it has none."""
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self.values)
            self.values.append(value)
        return found

    @property
    def is_crowded(self) -> bool:
        """Whether most of the values may be out of use."""
        return len(self.values) > self._most

    def renumber(self, column: NDArray[np.int64]) -> NDArray[np.int64]:
        """Drop the values that are not in `column`; the column with the new numbers.

        Both are int64, of any shape: (rows,) or (rows, width).
        """
        used = np.union1d(column, [0])
        self.values = [self.values[number] for number in used.tolist()]
        self.shown = ListView(self.values)
        self._numbers = {value: number for number, value in enumerate(self.values)}
        self._most = 2 * len(self.values) + SPARE_VALUES
        renumbered: NDArray[np.int64] = np.searchsorted(used, column)
        return renumbered


# Which nodes have which container images.


_NO_ROWS: Mapping[int, int] = {}


class NodeImages:
    """Rows by image, built at the first question and kept up to date from then on."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: dict[str, dict[int, int]] | None = None

    def nodes_with(self, name: str, nodes: Sequence[Node | None]) -> Mapping[int, int]:
        """The image's size (bytes) on each row whose node has it. `nodes` are those of all rows."""
        if self._rows is None:
            self._rows = {}
            for row, node in enumerate(nodes):
                if node is not None:
                    self._add(row, node.images)
        return self._rows.get(name, _NO_ROWS)

    def change(self, row: int, old: Node | None, new: Node | None) -> None:
        """The node of a row is another than before, None if there is none."""
        before, after = (() if node is None else node.images for node in (old, new))
        if self._rows is None or before == after:
            return
        for name in _names(before):
            rows = self._rows.get(name, {})
            rows.pop(row, None)
            if not rows:
                self._rows.pop(name, None)
        self._add(row, after)

    def _add(self, row: int, images: Iterable[NodeImage]) -> None:
        assert self._rows is not None
        for image in images:
            for name in image.names:
                self._rows.setdefault(name, {})[row] = image.size


def _names(images: Iterable[NodeImage]) -> Iterable[str]:
    return (name for image in images for name in image.names)


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

# The first resource columns. Columns of extended resources follow (`usage_accounting`).
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


class Per(Enum):
    """What a column has an entry for."""

    NODE = auto()  # (rows,)
    RESOURCE = auto()  # (rows, resources)
    CARD = auto()  # (rows, width)


class Follows(Enum):
    """What the entries of a column follow from."""

    #: From the node and its GPUs alone. (A charge on a card without a slot makes one, so that the
    #: other cards' columns may move to other slots.)
    NODE = auto()
    #: From charges and reservations, which are added to it or subtracted from it.
    CHARGES = auto()
    #: From other columns, at least one of which follows from charges (`derived`).
    COLUMNS = auto()


class Column(Generic[N]):
    """One column, declared once: of `Columns` an array, of `Rows` the entries of the asked rows.

    `Columns` allocates, enlarges and empties its arrays by these declarations, overlays copy them,
    and tests compare them. Only what its entries *mean* is written elsewhere, where they are set.
    """

    __slots__ = ("_table", "amount", "dtype", "empty", "follows", "name", "numbers", "per", "whole")

    def __init__(
        self,
        per: Per,
        dtype: type[N],
        *,
        empty: int = 0,
        follows: Follows = Follows.NODE,
        whole: str = "",
        amount: str = "",
        numbers: str = "",
    ) -> None:
        """`empty` is the entry of a row without a node, or of a slot without a card.

        `whole` names the column from which charges are subtracted; without it they are added to 0.
        `amount` names the field of `Amounts` that has what pods hold of it. `numbers` names the
        numbering in `Columns` of which the entries are numbers.
        """
        self.name, self._table = "", attrgetter("name")
        self.per, self.dtype, self.empty, self.follows = per, dtype, empty, follows
        self.whole, self.amount, self.numbers = whole, amount, numbers

    def __set_name__(self, owner: type, name: str) -> None:
        self.name, self._table = name, attrgetter(name)

    def __get__(self, rows: Any, owner: type) -> NDArray[N]:
        """The entries for `rows`: taken when they are first read, and kept with the rows."""
        # A decision reads some ten columns, so every call counts. By keyword, setflags costs twice
        # as much; numpy's types allow nothing else, hence Any.
        name, index = self.name, rows._index
        taken: Any = (
            rows._take(name) if index is None else self._table(rows._columns).take(index, 0)
        )
        taken.setflags(False)
        rows.__dict__[name] = taken
        found: NDArray[N] = taken
        return found

    def enlarged(self, table: NDArray[N], shape: tuple[int, ...]) -> NDArray[N]:
        """`table` with `shape`, such as (rows, width): its entries, and empty ones beyond them."""
        # Pages that were never written cost nothing yet: the first card of a large cluster would
        # have to wait for all of them.
        larger = np.zeros(shape, self.dtype)
        if self.empty:
            larger.fill(self.empty)
        larger[tuple(slice(length) for length in table.shape)] = table
        return larger


class RowColumns:
    """The columns that plugins read, for k asked rows; shapes and units are beside each."""

    __slots__ = ()

    # --- of each node --------------------------------------------------------------------------

    #: Whether the API server shows the node, (k,) bool.
    present = Column(Per.NODE, np.bool_)
    #: 1 for a cordoned node, else 0, (k,).
    unschedulable = Column(Per.NODE, np.int64)
    #: Allocatable amounts by resource, (k, resources); `resources` names the columns. cpu in milli,
    #: memory and ephemeral storage in bytes.
    allocatable = Column(Per.RESOURCE, np.int64)
    #: The free part of them, (k, resources); below 0 if pods hold more than there is.
    free = Column(
        Per.RESOURCE, np.int64, follows=Follows.CHARGES, whole="allocatable", amount="free"
    )
    #: The number of the node's cards in the inventory, (k,).
    gpu_count = Column(Per.NODE, np.int64)
    #: What pods may hold of their share in all, and the free part of it, in milli, (k,).
    gpu_capacity_milli = Column(Per.NODE, np.int64)
    gpu_free_milli = Column(Per.NODE, np.int64, follows=Follows.COLUMNS)
    #: The taken part of their share, 0 to 100 percent, (k,); 0 without cards.
    gpu_used_percent = Column(Per.NODE, np.int64, follows=Follows.COLUMNS)
    #: The number of the node's set of taints, (k,); see `taints`.
    taint_set = Column(Per.NODE, np.int64, numbers="taint_sets")
    #: The number of the node's set of declared features, (k,); see `features`.
    feature_set = Column(Per.NODE, np.int64, numbers="feature_sets")
    #: The number of the node's board, (k,); see `boards`.
    board = Column(Per.NODE, np.int64, numbers="boards")
    #: The positions of idle cards on the board, as a set of bits, (k,).
    idle_cards = Column(Per.NODE, np.int64, follows=Follows.COLUMNS)

    # --- of each card --------------------------------------------------------------------------

    #: The share of a card that no pod holds, in milli, (k, width); may be below 0.
    free_milli = Column(
        Per.CARD, np.int64, follows=Follows.CHARGES, whole="capacity_milli", amount="milli"
    )
    #: The memory of a card that no pod holds, in bytes, (k, width); may be below 0.
    free_bytes = Column(
        Per.CARD, np.int64, follows=Follows.CHARGES, whole="capacity_bytes", amount="memory"
    )
    #: The largest share of one more pod that the card takes, with the memory that goes with a share
    #: by default, in milli, (k, width); 1000 at most, -1 for a card with flags. Ranks and scores
    #: for a claim that takes cards with flags, such as EXCLUDING, see these cards' room and no such
    #: flag.
    headroom = Column(Per.CARD, np.int64, empty=-1, follows=Follows.COLUMNS)
    #: `free_milli` of a card without flags, whatever its memory, else -1, (k, width).
    share_headroom = Column(Per.CARD, np.int64, empty=-1, follows=Follows.COLUMNS)
    #: 1 for a card without flags and without pods, else 0, (k, width).
    idle = Column(Per.CARD, np.int64, follows=Follows.COLUMNS)
    #: What pods may hold of a card in all, in milli and bytes, (k, width): more or less than it
    #: has, if it is scaled.
    capacity_milli = Column(Per.CARD, np.int64)
    capacity_bytes = Column(Per.CARD, np.int64)
    #: The memory that goes with a whole share by default, in bytes, (k, width).
    share_bytes = Column(Per.CARD, np.int64)
    #: The number of pods on a card, and the most that it takes (0: no limit), (k, width).
    tenants = Column(Per.CARD, np.int64, follows=Follows.CHARGES, amount="tenants")
    max_tenants = Column(Per.CARD, np.int64)
    #: The number of pods that hold the card exclusively, (k, width).
    exclusive = Column(Per.CARD, np.int64, follows=Follows.CHARGES, amount="exclusive")
    #: The number of pods that have an exclusion tag, (k, width).
    excluding = Column(Per.CARD, np.int64, follows=Follows.CHARGES, amount="excluding")
    #: The number of the count of tags of a card's pods, (k, width); see `tag_counts`.
    tag_set = Column(Per.CARD, np.int64, follows=Follows.CHARGES, numbers="tag_sets")
    #: Why a card takes no further pods: bits (ABSENT, UNHEALTHY … in `columns`), (k, width).
    flags = Column(Per.CARD, np.int64, empty=ABSENT, follows=Follows.COLUMNS)
    #: The number of the card's model, 0 for no card, (k, width); see `models`.
    model = Column(Per.CARD, np.int64, numbers="models")
    #: The card's position on the board, as a set of one bit, 0 for cards on no board, (k, width).
    position_bit = Column(Per.CARD, np.int64)
    #: An idle card's place in the order in which shares should break cards, from 1; 0 for a card
    #: in use, (k, width).
    break_order = Column(Per.CARD, np.int64, follows=Follows.COLUMNS)
    #: The card's NUMA node, -1 if unknown, (k, width).
    numa = Column(Per.CARD, np.int64, empty=-1)
    #: How near the card is to an RDMA device of its node, (k, width): 5 for PIX, PXB, PHB, NODE, 1
    #: for SYS, as `nvidia-smi topo -m` has it; 0 for none or unknown.
    rdma = Column(Per.CARD, np.int64)
    #: The priority of the card's cell, (k, width).
    cell_priority = Column(Per.CARD, np.int64)
    #: The part of a card's taken share (milli), memory (bytes) and pods that is reserved for pods
    #: that wait, (k, width).
    reserved_milli = Column(Per.CARD, np.int64, follows=Follows.CHARGES)
    reserved_bytes = Column(Per.CARD, np.int64, follows=Follows.CHARGES)
    reservations = Column(Per.CARD, np.int64, follows=Follows.CHARGES)


class TableColumns(RowColumns):
    """All columns of the tables: plugins read `readiness` by a method of that name."""

    __slots__ = ()

    #: Which isolation back-ends are ready for the card, (k, width): numbers of `readinesses`, 0
    #: where nothing is reported.
    readiness = Column(Per.CARD, np.int64, numbers="readinesses")


#: Every column by its name.
COLUMNS: Mapping[str, Column[Any]] = {
    name: column
    for owner in (RowColumns, TableColumns)
    for name, column in vars(owner).items()
    if isinstance(column, Column)
}
NODE_COLUMNS = tuple(name for name, column in COLUMNS.items() if column.per is Per.NODE)
CARD_COLUMNS = tuple(name for name, column in COLUMNS.items() if column.per is Per.CARD)
#: The columns that follow from charges and reservations, whether they count them or are derived
#: from such counts.
CHARGED_COLUMNS = tuple(
    name for name, column in COLUMNS.items() if column.follows is not Follows.NODE
)
_RESOURCE_COLUMNS = tuple(name for name, column in COLUMNS.items() if column.per is Per.RESOURCE)
_NUMBERED = tuple((name, column.numbers) for name, column in COLUMNS.items() if column.numbers)

#: The most label columns that are cached; beyond, all are rebuilt on demand.
LABEL_COLUMNS_KEPT = 512


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


class Columns(TableColumns):
    """The arrays. Only the ledger writes them; plugins read them through `Rows`.

    Their shapes have all rows in place of k: (rows,), (rows, resources) or (rows, width).
    """

    # Slots of the columns' names hide the declarations, so that reading an array is as fast as
    # reading any other slot.
    __slots__ = (
        *COLUMNS,
        "_most_label_keys",
        "_unlabelled",
        "board_slots",
        "boards",
        "devices",
        "feature_sets",
        "free_rows",
        "images",
        "label_keys",
        "labels",
        "layout",
        "models",
        "names",
        "nodes",
        "objects",
        "pods",
        "readinesses",
        "resources",
        "row_of",
        "rows_with",
        "storage",
        "tag_sets",
        "taint_sets",
        "uuids",
    )

    def __init__(self) -> None:
        #: By row; a name is None for a free row. A node is None for a row that is kept only because
        #: pods or reservations are on a node that the API server no longer shows.
        self.names: list[NodeName | None] = []
        self.nodes: list[Node | None] = []
        #: The cards of each row, by slot.
        self.uuids: list[list[GpuUuid]] = []
        #: The rows with a slot for a card, nearly always one; `put_uuids` keeps it.
        self.rows_with: dict[GpuUuid, tuple[int, ...]] = {}
        self.row_of: dict[NodeName, int] = {}
        self.free_rows: list[int] = []
        #: The column of each resource; replaced when one gets a column or loses it.
        self.resources: Mapping[str, int] = MappingProxyType(
            {name: column for column, name in enumerate(FIXED_RESOURCES)}
        )
        #: Columns hold numbers for card models, readiness, and sets of taints and of features,
        #: which have few different values. Number 0 is no card, unknown readiness, and an empty
        #: set.
        self.models: Numbering[str] = Numbering("")
        self.readinesses: Numbering[ReadinessReport] = Numbering(())
        self.tag_sets: Numbering[TagCounts] = Numbering(())
        self.taint_sets: Numbering[tuple[Taint, ...]] = Numbering(())
        self.feature_sets: Numbering[tuple[str, ...]] = Numbering(())
        #: How the cards of a row are joined, by number.
        self.boards = NodeTopologies()
        #: For each row, the card slot of each position of its board.
        self.board_slots: list[tuple[int, ...]] = []
        #: Grows when the tables grow, or when values get other numbers: caches with one entry per
        #: row must then start anew.
        self.layout = 0
        #: Label columns by key.
        self.labels: dict[str, LabelColumn] = {}
        #: Label keys of nodes, and some keys that no node has any more. Pods may ask for any other
        #: key: those share one empty column.
        self.label_keys: set[str] = set()
        self._most_label_keys = SPARE_VALUES
        self._unlabelled = LabelColumn(np.zeros(0, np.int64))
        #: Objects besides nodes that placement depends on, and the pods that are placed.
        self.objects = ClusterObjects()
        self.pods: PodIndex = PlacedPods(self.objects)
        self.images = NodeImages()
        self.storage = StorageIndex(self.objects)
        self.devices = RowDevices(self.objects, self.names, self.row_of, self.uuids)
        widths = {Per.NODE: (), Per.RESOURCE: (len(FIXED_RESOURCES),), Per.CARD: (1,)}
        for name, column in COLUMNS.items():
            setattr(self, name, np.zeros((0, *widths[column.per]), column.dtype))

    @property
    def rows(self) -> int:
        """The number of rows in the tables, free ones included."""
        return self.present.size

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
        for name, values in _NUMBERED:
            numbering: Numbering[Any] | NodeTopologies = getattr(self, values)
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
            self._enlarge(CARD_COLUMNS, 1, width)
            self.layout += 1

    def widen_resources(self, count: int) -> None:
        """Make room for `count` resources; those that are new have no name yet."""
        self._enlarge(_RESOURCE_COLUMNS, 1, count)

    def clear_cards(self, row: int) -> None:
        """Empty all card slots of a row."""
        for name in CARD_COLUMNS:
            getattr(self, name)[row] = COLUMNS[name].empty

    def _enlarge(self, names: Iterable[str], axis: int, length: int) -> None:
        """Make these columns so long in this axis: 0 is rows, 1 is resources or slots."""
        for name in names:
            table = getattr(self, name)
            shape = (*table.shape[:axis], length, *table.shape[axis + 1 :])
            setattr(self, name, COLUMNS[name].enlarged(table, shape))

    def _grow_rows(self) -> None:
        old, new = self.rows, max(16, 2 * self.rows)
        self._enlarge(COLUMNS, 0, new)
        for listed in (self.names, self.nodes):
            listed.extend([None] * (new - old))
        for label in self.labels.values():
            label.codes = np.pad(label.codes, (0, new - old))
        self.uuids.extend([] for _ in range(new - old))
        self.board_slots.extend(() for _ in range(new - old))
        self.free_rows.extend(range(new - 1, old - 1, -1))
        self.layout += 1
