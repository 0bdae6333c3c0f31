"""Nodes and cards as plain objects, for functions that are asked about one of them at a time."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kubeshare_py.cluster.columns import ABSENT, EXCLUSIVE, UNHEALTHY
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.node import Taint
from kubeshare_py.framework.answer_checks import whole_number, yes_or_no
from kubeshare_py.framework.boundary import PLUGIN_ERRORS, NodeFailed, WrongAnswer, in_words
from kubeshare_py.framework.scores import MAX_SCORE

_OF_CARDS = (
    "model",
    "numa",
    "capacity_milli",
    "capacity_bytes",
    "free_milli",
    "free_bytes",
    "tenants",
    "flags",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CardState:
    """One card as it is now: shares in milli, memory in bytes. Free amounts may be below 0.

    The capacities are what pods may hold in all: more or less than the card has, if it is scaled.

    `numa_node` is None if unknown.
    """

    uuid: GpuUuid
    model: str
    numa_node: int | None
    capacity_bytes: int
    free_milli: int
    free_bytes: int
    tenants: int
    healthy: bool
    exclusive: bool
    capacity_milli: int = WHOLE_MILLI


class NodeBatch:
    """The columns of the asked rows as plain lists, each converted once for all rows."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.names = rows.names
        self.models = rows.models()[1]
        self._columns: dict[str, list[int]] = {}
        self._tables: dict[str, list[list[int]]] = {}
        self._labels: dict[str, list[str | None]] = {}
        self._taints: list[tuple[Taint, ...]] | None = None

    @cached_property
    def uuids(self) -> list[tuple[GpuUuid, ...]]:
        """The uuids of each row's cards, by slot."""
        return self.rows.uuids

    def column(self, name: str) -> list[int]:
        """A node column by name."""
        if name not in self._columns:
            self._columns[name] = getattr(self.rows, name).tolist()
        return self._columns[name]

    def table(self, name: str) -> list[list[int]]:
        """A card column, or one of resources, by name."""
        if name not in self._tables:
            self._tables[name] = getattr(self.rows, name).tolist()
        return self._tables[name]

    def labels(self, key: str) -> list[str | None]:
        """Each row's value of a label; None is not set."""
        if key not in self._labels:
            numbers, values = self.rows.labels(key)
            self._labels[key] = [values[number] for number in numbers.tolist()]
        return self._labels[key]

    def taints(self) -> list[tuple[Taint, ...]]:
        """Each row's taints."""
        if self._taints is None:
            numbers, sets = self.rows.taints()
            self._taints = [sets[number] for number in numbers.tolist()]
        return self._taints


class NodeState:
    """One node as it is now. It is valid during the call only: do not keep it."""

    __slots__ = ("_at", "_batch", "name")

    def __init__(self, batch: NodeBatch, at: int, name: NodeName) -> None:
        self._batch = batch
        self._at = at
        self.name = name

    def label(self, key: str) -> str | None:
        """The value of a label; None if it is not set."""
        return self._batch.labels(key)[self._at]

    @property
    def taints(self) -> tuple[Taint, ...]:
        """The node's taints."""
        return self._batch.taints()[self._at]

    @property
    def unschedulable(self) -> bool:
        """Whether the node is cordoned."""
        return bool(self._batch.column("unschedulable")[self._at])

    def allocatable(self, resource: str) -> int:
        """The node's allocatable amount: cpu in milli, others in their base unit; 0 if none."""
        return self._amount("allocatable", resource)

    def free(self, resource: str) -> int:
        """The free part of `allocatable`; below 0 if pods hold more than there is."""
        return self._amount("free", resource)

    @property
    def cards(self) -> tuple[CardState, ...]:
        """The node's cards, sorted by uuid; cards that left the inventory are not shown."""
        return tuple(self.cards_by_slot().values())

    def cards_by_slot(self) -> dict[int, CardState]:
        """`cards` by their slot in the row."""
        batch, at = self._batch, self._at
        uuids, models = batch.uuids[at], batch.models
        columns = [batch.table(name)[at] for name in _OF_CARDS]
        found = {}
        for slot, (uuid, *amounts) in enumerate(zip(uuids, *columns, strict=False)):
            model, numa, whole, capacity, milli, memory, tenants, flags = amounts
            if not flags & ABSENT:
                found[slot] = CardState(
                    uuid=uuid,
                    model=models[model],
                    numa_node=None if numa < 0 else numa,
                    capacity_milli=whole,
                    capacity_bytes=capacity,
                    free_milli=milli,
                    free_bytes=memory,
                    tenants=tenants,
                    healthy=not flags & UNHEALTHY,
                    exclusive=bool(flags & EXCLUSIVE),
                )
        return found

    def _amount(self, table: str, resource: str) -> int:
        column = self._batch.rows.resources.get(resource)
        return 0 if column is None else self._batch.table(table)[self._at][column]


def each_node(rows: Rows, ask: Callable[[int, NodeState], None]) -> None:
    """Call the function with each row that has a node, and its position among the rows.

    Raises NodeFailed with the node's name if the function raises.
    """
    batch = NodeBatch(rows)
    name: NodeName | None = None
    try:
        for at in np.flatnonzero(rows.present).tolist():
            name = batch.names[at]
            if name is not None:
                ask(at, NodeState(batch, at, name))
    except PLUGIN_ERRORS as error:
        raise NodeFailed(name or "", in_words(error)) from error


def checked_points(points: object) -> int:
    """A function's points, cut to 0…100. Raises WrongAnswer if they are no integer."""
    wrong = whole_number(points)
    if wrong is not None or not isinstance(points, int | np.integer):
        raise WrongAnswer(wrong or "")
    return min(max(int(points), 0), MAX_SCORE)


def checked_fit(fits: object) -> bool:
    """A function's answer whether the shape fits. Raises WrongAnswer if it is no bool."""
    wrong = yes_or_no(fits)
    if wrong is not None:
        raise WrongAnswer(wrong)
    return bool(fits)
