"""Plugins from one plain function of one node or card.

The function gets nodes and cards as plain objects, not as columns.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import ABSENT, EXCLUSIVE, UNHEALTHY, IntArray
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.node import Taint
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.answer_checks import whole_number, yes_or_no
from kubeshare_py.framework.boundary import PLUGIN_ERRORS, NodeFailed, WrongAnswer, in_words
from kubeshare_py.framework.points import (
    BestCards,
    CardPredicate,
    CardRank,
    Depends,
    Normaliser,
    RowFilter,
    RowScore,
)
from kubeshare_py.framework.reasons import ReasonTable
from kubeshare_py.framework.scores import MAX_SCORE

# Nodes and cards as plain objects, for functions that are asked about one of them at a time.


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


# Card filters and card scores from one plain function of one card.
#
# Python is called for each card: the first question about a shape is one call per card of the
# cluster, later ones are one per card of each row that changed (docs/plugins.md has numbers). A
# plugin that proves itself is better written in columns (see `points`).


class PerCardFilter:
    """A card filter from a function that says whether a card may hold one share of the claim.

    `reason` is what people read where it may not ("GPU is too hot"); `resolvable` says whether
    evicting pods could help. The function must be pure. It is asked about every card in the
    inventory, also about those that other filters refuse.
    """

    def __init__(
        self,
        name: str,
        fits: Callable[[Shape, NodeState, CardState], bool],
        *,
        reason: str,
        resolvable: bool = False,
    ) -> None:
        self.name = name
        self._fits = fits
        self._reason = reason
        self._resolvable = resolvable

    def card_filter(self, shape: Shape, reasons: ReasonTable) -> CardPredicate | None:
        """Put the function to each card."""
        mask = reasons.register(self.name, self._reason, resolvable=self._resolvable)

        def masks(rows: Rows) -> IntArray:
            def missed(node: NodeState, card: CardState) -> int:
                return 0 if checked_fit(self._fits(shape, node, card)) else mask

            # An empty slot must not be a nearer miss than a card. On a node without cards, other
            # filters have the nearer reason.
            return _each_card(rows, missed, empty=mask)

        def fits(rows: Rows) -> NDArray[np.bool_]:
            fitting: NDArray[np.bool_] = masks(rows) == 0
            return fitting

        return CardPredicate(fits, masks)


class PerCardScore:
    """A card score from a function that says how good a card is for a shape, 0…100.

    Answers outside of that range are cut. The function must be pure. It is asked about every card
    in the inventory, also about those on which the shape does not fit.
    """

    def __init__(self, name: str, points: Callable[[Shape, NodeState, CardState], int]) -> None:
        self.name = name
        self._points = points

    def card_score(self, shape: Shape) -> CardRank | None:
        """Put the function to each card."""

        def points(node: NodeState, card: CardState) -> int:
            return checked_points(self._points(shape, node, card))

        return lambda rows: _each_card(rows, points, empty=0)


def _each_card(rows: Rows, answer: Callable[[NodeState, CardState], int], empty: int) -> IntArray:
    """The answer for every card, (k, width); `empty` for other slots of nodes that have cards."""
    answers = np.zeros(rows.flags.shape, np.int64)

    def ask(at: int, node: NodeState) -> None:
        cards = node.cards_by_slot()
        if cards:
            answers[at] = empty
        for slot, card in cards.items():
            try:
                answers[at, slot] = answer(node, card)
            except PLUGIN_ERRORS as error:
                raise WrongAnswer(f"card {card.uuid}: {in_words(error)}") from error

    each_node(rows, ask)
    return answers


# Filters and scores from one plain function of one node.
#
# A column plugin answers for all rows with a few array operations; these call Python for each row.
# The first question about a shape is one call per node: at 5,000 nodes more than an iteration of
# the scheduler should take (docs/plugins.md has numbers). After that it is one call per row that
# changed. This is fine for hundreds of nodes and for trying an idea; a plugin that proves itself is
# better written in columns (see `points`).


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
            return _each_node(
                rows, lambda node: 0 if checked_fit(self._fits(shape, node)) else mask
            )

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
            return _each_node(rows, lambda node: checked_points(self._points(shape, node)))

        return ask


def _each_node(rows: Rows, answer: Callable[[NodeState], int]) -> IntArray:
    """The answer for every row with a node, 0 for the others; raises NodeFailed."""
    answers = np.zeros(len(rows.present), np.int64)

    def ask(at: int, node: NodeState) -> None:
        answers[at] = answer(node)

    each_node(rows, ask)
    return answers
