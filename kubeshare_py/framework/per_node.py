"""Filters and scores from one plain function of one node.

A column plugin answers for all rows with a few array operations; these call Python for each row.
The first question about a shape is one call per node: at 5,000 nodes more than an iteration of the
scheduler should take (docs/plugins.md has numbers). After that it is one call per row that changed.
This is fine for hundreds of nodes and for trying an idea; a plugin that proves itself is better
written in columns (see `points`).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kubeshare_py.cluster.columns import ABSENT, EXCLUSIVE, UNHEALTHY, IntArray
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.node import Taint
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.answer_checks import whole_number, yes_or_no
from kubeshare_py.framework.boundary import NodeFailed, WrongAnswer, in_words
from kubeshare_py.framework.points import BestCards, Depends, Normaliser, RowFilter, RowScore
from kubeshare_py.framework.reasons import ReasonTable
from kubeshare_py.framework.scores import MAX_SCORE


@dataclass(frozen=True, slots=True, kw_only=True)
class CardState:
    """One card as it is now: shares in milli, memory in bytes. Free amounts may be below 0."""

    model: str
    capacity_bytes: int
    free_milli: int
    free_bytes: int
    tenants: int
    healthy: bool
    exclusive: bool


class _Batch:
    """The columns of the asked rows as plain lists, each converted once for all rows."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.names = rows.names
        self._columns: dict[str, list[int]] = {}
        self._tables: dict[str, list[list[int]]] = {}
        self._labels: dict[str, list[str | None]] = {}
        self._taints: list[tuple[Taint, ...]] | None = None

    def column(self, name: str) -> list[int]:
        if name not in self._columns:
            self._columns[name] = getattr(self.rows, name).tolist()
        return self._columns[name]

    def table(self, name: str) -> list[list[int]]:
        if name not in self._tables:
            self._tables[name] = getattr(self.rows, name).tolist()
        return self._tables[name]

    def labels(self, key: str) -> list[str | None]:
        if key not in self._labels:
            numbers, values = self.rows.labels(key)
            self._labels[key] = [values[number] for number in numbers.tolist()]
        return self._labels[key]

    def taints(self) -> list[tuple[Taint, ...]]:
        if self._taints is None:
            numbers, sets = self.rows.taints()
            self._taints = [sets[number] for number in numbers.tolist()]
        return self._taints


class NodeState:
    """One node as it is now. It is valid during the call only: do not keep it."""

    __slots__ = ("_at", "_batch", "name")

    def __init__(self, batch: _Batch, at: int, name: NodeName) -> None:
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
        batch, at = self._batch, self._at
        numbers, models = batch.rows.models()
        fields = ("capacity_bytes", "free_milli", "free_bytes", "tenants", "flags")
        columns = [batch.table(field)[at] for field in fields]
        return tuple(
            CardState(
                model=models[number],
                capacity_bytes=capacity,
                free_milli=milli,
                free_bytes=memory,
                tenants=tenants,
                healthy=not flags & UNHEALTHY,
                exclusive=bool(flags & EXCLUSIVE),
            )
            for number, capacity, milli, memory, tenants, flags in zip(
                numbers[at].tolist(), *columns, strict=True
            )
            if not flags & ABSENT
        )

    def _amount(self, table: str, resource: str) -> int:
        column = self._batch.rows.resources.get(resource)
        return 0 if column is None else self._batch.table(table)[self._at][column]


class PerNodeFilter:
    """A filter from a function that says whether a shape fits a node.

    `reason` is what people read where it does not ("node(s) had no fast disk"); `resolvable` says
    whether evicting pods from the node could help. The function must be pure.
    """

    depends = Depends.ROW

    def __init__(
        self,
        name: str,
        fits: Callable[[Shape, NodeState], bool],
        *,
        reason: str,
        resolvable: bool = False,
    ) -> None:
        self.name = name
        self._fits = fits
        self._reason = reason
        self._resolvable = resolvable

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        """Put the function to each row."""
        mask = reasons.register(self.name, self._reason, resolvable=self._resolvable)

        def ask(rows: Rows) -> IntArray:
            return _each(rows, lambda node: 0 if _checked(self._fits(shape, node)) else mask)

        return ask


class PerNodeScore:
    """A score from a function that says how good a node is for a shape, 0…100.

    Answers outside of that range are cut. The function must be pure.
    """

    normaliser: Normaliser | None = None

    def __init__(self, name: str, points: Callable[[Shape, NodeState], int]) -> None:
        self.name = name
        self._points = points

    def score(self, shape: Shape) -> RowScore | None:
        """Put the function to each row."""

        def ask(rows: Rows, cards: BestCards | None) -> IntArray:
            return _each(rows, lambda node: _cut(self._points(shape, node)))

        return ask


def _each(rows: Rows, answer: Callable[[NodeState], int]) -> IntArray:
    """The answer for every row with a node, 0 for the others; raises NodeFailed."""
    batch = _Batch(rows)
    answers = np.zeros(len(batch.names), np.int64)
    name: NodeName | None = None
    try:
        for at in np.flatnonzero(rows.present).tolist():
            name = batch.names[at]
            if name is not None:
                answers[at] = answer(NodeState(batch, at, name))
    except Exception as error:
        raise NodeFailed(name or "", in_words(error)) from error
    return answers


def _cut(points: int) -> int:
    wrong = whole_number(points)
    if wrong is not None:
        raise WrongAnswer(wrong)
    return min(max(points, 0), MAX_SCORE)


def _checked(fits: bool) -> bool:
    wrong = yes_or_no(fits)
    if wrong is not None:
        raise WrongAnswer(wrong)
    return fits
