"""The cluster as plugins see it: columns of the rows that they are asked about, to read only.

A row is a node. Arrays are (k,) for k asked rows, or (k, width) for the card slots of these rows,
and int64 unless said otherwise. Shares and cpu are in thousandths (milli), memory and storage in
bytes. Rows of the tables that are not in use have no name and are not `present`. A card slot
without a card has the flag ABSENT (`columns` has the flags) and otherwise zeros, and -1 in
`headroom`, `share_headroom` and `numa`.

Arrays cannot be written: numpy raises ValueError. Values by number (`models` and others) and
mappings cannot be changed either. All of it is valid during the call only.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import Columns, IntArray, ListView, RowColumns, TagCounts
from kubeshare_py.cluster.pod_kinds import SelectingTerm
from kubeshare_py.cluster.row_devices import NumberedDevices, TermFlags
from kubeshare_py.cluster.volume_places import RowVolumes
from kubeshare_py.devices.device_pools import DevicePools, DeviceTable
from kubeshare_py.domain.card_reading import ReadinessReport
from kubeshare_py.domain.cluster_objects import Labels, ObjectKey, ObjectT
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.node import Taint
from kubeshare_py.domain.pod import DeviceClaims, HostPort, PodSelector
from kubeshare_py.topology.card_sets import CardSets

N = TypeVar("N", bound=np.generic)


class Rows(RowColumns, ABC):
    """The asked rows, as the module describes, with the columns that `RowColumns` declares.

    An unknown column is an AttributeError.
    """

    __slots__ = ("__dict__", "_columns", "_index")
    _columns: Columns
    #: The rows to copy out of the tables, (k,); None if `_take` makes something else of them.
    _index: IntArray | None

    def __init__(self, columns: Columns, index: IntArray | None) -> None:
        """`index` are the rows to copy, (k,); None if `_take` and `_pick` make something else."""
        _put_columns(self, columns)
        _put_index(self, index)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"rows are read-only: {name} cannot be set")

    @property
    @abstractmethod
    def index(self) -> IntArray:
        """The numbers of the rows in the tables, (k,)."""

    @abstractmethod
    def _pick(self, column: NDArray[Any]) -> NDArray[Any]:
        """The asked rows of an array that has one line for each row of the tables."""

    def _take(self, name: str) -> NDArray[Any]:
        """A column's values; a new array or view each time."""
        return self._pick(getattr(self._columns, name))

    def labels(self, key: str) -> tuple[IntArray, list[str | None]]:
        """A label: the number of each row's value, (k,), and the values; None is "not set"."""
        label = self._columns.label(key)
        return self._pick(label.codes), list(label.values)

    def label_numbers(self, key: str) -> tuple[IntArray, Mapping[str | None, int]]:
        """A label: the number of each row's value, (k,), and the number of each value.

        The mapping stays the same object and gets new values; it is replaced when the first node
        gets the label.
        """
        label = self._columns.label(key)
        return self._pick(label.codes), label.numbers

    def named(self, names: Collection[str]) -> NDArray[np.bool_]:
        """Which of the asked rows are nodes of these names; (k,) bool."""
        return self._pick(self._columns.named(names))

    def among(self, uuids: Collection[GpuUuid]) -> NDArray[np.bool_]:
        """Which of the asked cards are these; (k, width) bool."""
        return self._pick(self._columns.among(uuids))

    def taints(self) -> tuple[IntArray, Sequence[tuple[Taint, ...]]]:
        """Taints: the number of each row's set, (k,), and the sets.

        The sequence stays the same object and gets new sets; it is replaced when numbers change. So
        with features, models and readiness.
        """
        return self.taint_set, self._columns.taint_sets.shown

    def features(self) -> tuple[IntArray, Sequence[tuple[str, ...]]]:
        """Declared features: the number of each row's set, (k,), and the sets."""
        return self.feature_set, self._columns.feature_sets.shown

    def models(self) -> tuple[IntArray, Sequence[str]]:
        """Card models: the number of each card's model, (k, width), and the names.

        "" is no card.
        """
        return self.model, self._columns.models.shown

    def tag_counts(self) -> tuple[IntArray, Sequence[TagCounts]]:
        """Tags: a number for each card, (k, width), and by number how many pods have each tag."""
        return self.tag_set, self._columns.tag_sets.shown

    def readiness(self) -> tuple[IntArray, Sequence[ReadinessReport]]:
        """The number of each card's readiness, (k, width), and the values of readiness."""
        return self._pick(self._columns.readiness), self._columns.readinesses.shown

    @property
    def names(self) -> list[NodeName | None]:
        """Node names; None for rows that are not in use."""
        names = self._columns.names
        return [names[row] for row in self.index.tolist()]

    def name(self, position: int) -> NodeName | None:
        """The node's name of the asked row at this position."""
        return self._columns.names[self.index.item(position)]

    def card_uuids(self, position: int) -> Sequence[GpuUuid]:
        """The uuids of this row's cards, as in `uuids`."""
        return tuple(self._columns.uuids[self.index.item(position)])

    @property
    def uuids(self) -> list[tuple[GpuUuid, ...]]:
        """The uuids of each row's cards, by slot; shorter than width where slots are empty."""
        uuids = self._columns.uuids
        return [tuple(uuids[row]) for row in self.index.tolist()]

    # --- the whole cluster: for plugins that depend on it ----------------------------------------

    @property
    def everywhere(self) -> "Rows":
        """All rows of the tables of which these are some."""
        return AllRows(self._columns)

    def pod_counts(self, *selectors: PodSelector, terminating: bool = True) -> IntArray:
        """How many placed pods all these selectors select, on each row of the tables, (rows,).

        Without `terminating`, pods that are being deleted do not count.
        """
        columns = self._columns
        return columns.pods.counts(selectors, columns.rows, terminating=terminating)

    def terms_selecting(self, namespace: str, labels: Labels) -> list[SelectingTerm]:
        """The terms of placed pods that select a pod of this namespace with these labels."""
        columns = self._columns
        return [
            SelectingTerm(held, columns.pods.holders(held, columns.rows))
            for held in columns.pods.selecting(namespace, labels)
        ]

    def host_ports(self) -> list[Collection[HostPort]]:
        """The ports of the host that pods of each asked row have."""
        pods = self._columns.pods
        return [pods.host_ports(row).keys() for row in self.index.tolist()]

    def nodes_with_image(self, name: str) -> Mapping[int, int]:
        """The size (bytes) of an image on each row of the tables whose node has it."""
        return self._columns.images.nodes_with(name, self._columns.nodes)

    @property
    def volumes(self) -> RowVolumes:
        """Where volumes can be mounted, among the asked rows."""
        columns = self._columns
        return RowVolumes(self, columns.storage, columns.pods.volumes)

    def device_claims(self) -> Collection[tuple[int, DeviceClaims]]:
        """The placed pods with ResourceClaims that are not allocated, with their rows."""
        return self._columns.pods.device_claims().keys()

    @property
    def device_pools(self) -> DevicePools:
        """The devices of all ResourceSlices."""
        return self._columns.objects.device_pools

    @property
    def device_table(self) -> DeviceTable:
        """The same devices by number, and which of them ResourceClaims hold. Only to read."""
        return self._columns.objects.device_table

    def devices(self, terms: TermFlags) -> NumberedDevices:
        """The devices of the asked rows; `terms` has what `device_pools.selectors` has."""
        return self._columns.devices.of(self.index, terms)

    def objects(self, kind: type[ObjectT]) -> Mapping[ObjectKey, ObjectT]:
        """All objects of a kind that placement depends on, such as namespaces."""
        return self._columns.objects.of(kind)

    @property
    def resources(self) -> Mapping[str, int]:
        """The column of each resource in `free` and `allocatable`.

        Resources that no node offers have no column. The mapping is replaced when a resource gets a
        column or loses it.
        """
        return self._columns.resources

    @property
    def boards(self) -> Sequence[CardSets]:
        """The choices on each board, indexed by the column `board`."""
        return ListView(self._columns.boards.sets)


class SomeRows(Rows):
    """A few rows, copied out of the tables."""

    __slots__ = ()
    _index: IntArray

    def __init__(self, columns: Columns, index: IntArray) -> None:
        """`index` are their numbers in the tables, (k,) int64."""
        _put_columns(self, columns)
        _put_index(self, index)

    @property
    def index(self) -> IntArray:
        """The numbers of the rows in the tables, (k,)."""
        return read_only(self._index)

    def _pick(self, column: NDArray[Any]) -> NDArray[Any]:
        return column.take(self._index, 0)


class AllRows(Rows):
    """Every row, as views of the tables."""

    __slots__ = ()

    def __init__(self, columns: Columns) -> None:
        super().__init__(columns, None)

    @property
    def index(self) -> IntArray:
        """The numbers of the rows in the tables, (k,)."""
        return np.arange(self._columns.rows)

    def _pick(self, column: NDArray[Any]) -> NDArray[Any]:
        return read_only(column)


class OneRow(Rows):
    """One row, as views of the tables: k is 1."""

    __slots__ = ("_row",)
    _row: int

    def __init__(self, columns: Columns, row: int) -> None:
        super().__init__(columns, None)
        _put_row(self, row)

    @property
    def index(self) -> IntArray:
        """The numbers of the rows in the tables, (k,)."""
        return np.array([self._row])

    @property
    def uuids(self) -> list[tuple[GpuUuid, ...]]:
        """The uuids of the row's cards, by slot; shorter than width where slots are empty."""
        return [tuple(self._columns.uuids[self._row])]

    def host_ports(self) -> list[Collection[HostPort]]:
        """The ports of the host that pods of the row have."""
        return [self._columns.pods.host_ports(self._row).keys()]

    def _pick(self, column: NDArray[Any]) -> NDArray[Any]:
        return read_only(column[self._row : self._row + 1])

    def _take(self, name: str) -> NDArray[Any]:
        column: NDArray[Any] = getattr(self._columns, name)
        return column[self._row : self._row + 1]


# Rows refuse assignments; their own constructors set what is theirs, and this is the fastest way.
_put_columns = vars(Rows)["_columns"].__set__
_put_index = vars(Rows)["_index"].__set__
_put_row = vars(OneRow)["_row"].__set__


def read_only(array: NDArray[N]) -> NDArray[N]:
    """A view of an array, (k,) or (k, width), that cannot be written."""
    view = array.view()
    view.setflags(write=False)
    return view
