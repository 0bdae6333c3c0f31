"""Filter and score: cpu, memory, ephemeral storage, pods, extended resources, pod-manager ports."""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

import numpy as np

from kubeshare_plugins.kubernetes.allocation_scores import (
    DEFAULT_RESOURCES,
    AskedAmount,
    ScoringStrategy,
    asked_amounts,
    least_allocated,
    levels,
    most_allocated,
    ratio_mean,
    ratio_table,
    weighted_mean,
)
from kubeshare_py.plugin import (
    FIXED_RESOURCES,
    PODS,
    PORT_RESOURCE,
    PORTS,
    ArgumentError,
    BestCards,
    Depends,
    Ground,
    IntArray,
    Normaliser,
    ReasonTable,
    RowFilter,
    RowHeadroom,
    Rows,
    RowScore,
    Shape,
    Shortfall,
    checked,
)

# Below any free amount: a resource that is not asked for is never short, not even an overdrawn one.
_NOT_ASKED = -(1 << 62)
_TRUE = b"\x01"
_UNITS = {"cpu": "milli", "pods": "count", PORT_RESOURCE: "count"}


def _amounts(shape: Shape) -> Iterator[tuple[str, int]]:
    yield from ((name, amount) for name, amount in shape.resources if amount > 0)
    yield FIXED_RESOURCES[PODS], 1
    if shape.needs_port:
        yield FIXED_RESOURCES[PORTS], 1


def _text(resource: str) -> str:
    return "Too many pods" if resource == "pods" else f"Insufficient {resource}"


def _is_ignored(names: AbstractSet[str], groups: AbstractSet[str], resource: str) -> bool:
    """Whether it is an extended resource of these names, or with one of these domains."""
    domain, slash, _ = resource.partition("/")
    if not slash or "kubernetes.io/" in resource:
        return False
    return resource in names or domain in groups


class NodeResourcesFit:
    """The node must have free what the pod asks for; a score by how much nodes have left.

    The score is kube-scheduler's `scoringStrategy`: 0 to 100, and by default more where more of cpu
    and memory is left.

    Evictions help where the node could give it if it were empty. "Too many pods" always counts as
    such, as in kube-scheduler (pkg/scheduler/framework/plugins/noderesources/fit.go).
    """

    name = "NodeResourcesFit"
    guards = Ground.NODE
    depends = Depends.ROW
    normaliser: Normaliser | None = None

    def __init__(
        self,
        scoringStrategy: Any = None,
        ignoredResources: Any = (),
        ignoredResourceGroups: Any = (),
    ) -> None:
        """Raises ArgumentError for a bad entry."""
        names = checked(ignoredResources, frozenset[str], "ignoredResources")
        groups = checked(ignoredResourceGroups, frozenset[str], "ignoredResourceGroups")
        for group in sorted(groups):
            if "/" in group:
                raise ArgumentError(f"ignoredResourceGroups: {group} must not contain /")
        #: Which extended resources need not be free; None if all must. The framework takes them
        #: out of the shapes that this plugin and the ledger are asked about.
        self.ignores_resource = partial(_is_ignored, names, groups) if names or groups else None
        strategy = ScoringStrategy("LeastAllocated")
        if scoringStrategy is not None:
            strategy = checked(scoringStrategy, ScoringStrategy, "scoringStrategy")
        self._resources = strategy.resources or DEFAULT_RESOURCES
        self._type, ratio = strategy.type, strategy.requested_to_capacity_ratio
        path = "scoringStrategy.requestedToCapacityRatio"
        if (ratio is not None) != (self._type == "RequestedToCapacityRatio"):
            raise ArgumentError(f"{path}: must be there exactly with type RequestedToCapacityRatio")
        self._table = None if ratio is None else ratio_table(ratio.shape, f"{path}.shape")

    def score(self, shape: Shape) -> RowScore | None:
        """The strategy's points; containers that ask for nothing count a little."""
        asked = asked_amounts(shape, self._resources, unrequested=True)
        return self._by_ratio(asked) if self._table is not None else self._by_allocation(asked)

    def _by_allocation(self, asked: list[AskedAmount]) -> RowScore:
        score = most_allocated if self._type == "MostAllocated" else least_allocated

        def ask(rows: Rows, cards: BestCards | None) -> IntArray:
            found = levels(rows, asked, unrequested=True)
            return weighted_mean(found, score, len(rows.free))

        return ask

    def _by_ratio(self, asked: list[AskedAmount]) -> RowScore:
        table = self._table
        assert table is not None

        def ask(rows: Rows, cards: BestCards | None) -> IntArray:
            return ratio_mean(levels(rows, asked, unrequested=True), table, len(rows.free))

        return ask

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        """One comparison of each row's free amounts with the requested ones."""
        asked = dict(_amounts(shape))
        masks, hopeless = self._masks(asked, reasons)
        # Once the reason table is full, several resources share a bit, and masks cannot be added.
        distinct = reasons.distinct
        needed = bits = hopeless_bits = np.zeros(0, np.int64)
        known: Mapping[str, int] = {}
        unoffered = 0

        def ask(rows: Rows) -> IntArray | None:
            nonlocal needed, bits, hopeless_bits, known, unoffered
            free, columns = rows.free, rows.resources
            if columns is not known:
                known, unoffered = columns, 0
                needed = np.full(free.shape[1], _NOT_ASKED, np.int64)
                bits = np.zeros(free.shape[1], np.int64)
                hopeless_bits = bits.copy()
                for name, amount in asked.items():
                    if name not in columns:  # no node offers it
                        unoffered |= hopeless[name]
                        continue
                    needed[columns[name]] = amount
                    bits[columns[name]] = masks[name]
                    hopeless_bits[columns[name]] = hopeless[name]
            short = free < needed
            # Usually nothing is short, and searching the bytes is cheaper than any().
            if not unoffered and _TRUE not in short.tobytes():
                return None
            masked = short * np.where(rows.allocatable < needed, hopeless_bits, bits)
            mask: IntArray = (
                masked.sum(axis=1) if distinct else np.bitwise_or.reduce(masked, axis=1)
            )
            return mask | unoffered if unoffered else mask

        return ask

    def _masks(
        self, asked: Iterable[str], reasons: ReasonTable
    ) -> tuple[dict[str, int], dict[str, int]]:
        """The masks of resources that are short, and of those that the node could never give."""
        masks, hopeless = {}, {}
        for name in asked:
            masks[name] = hopeless[name] = reasons.register(self.name, _text(name))
            if name not in FIXED_RESOURCES[PODS:]:
                hopeless[name] = reasons.register(self.name, _text(name), resolvable=False)
        return masks, hopeless

    def queueing_hint(self, shape: Shape, row: Rows) -> bool:
        """Compare the pod's resources with the row's free amounts, in plain integers."""
        free, columns = row.free[0].tolist(), row.resources
        return all(
            name in columns and free[columns[name]] >= amount
            for name, amount in shape.resources
            if amount > 0
        )

    def capacity_bound(self, shape: Shape) -> RowHeadroom | None:
        """How many such requests each row's free amounts hold."""
        asked = dict(_amounts(shape))

        def room(rows: Rows) -> IntArray:
            free, columns = rows.free, rows.resources
            known = [(columns[name], amount) for name, amount in asked.items() if name in columns]
            counts = [free[:, column] // amount for column, amount in known]
            least: IntArray = np.minimum.reduce(counts)  # never empty: every pod takes a place
            return least

        return room

    def explain(self, shape: Shape, row: Rows) -> Iterator[Shortfall]:
        """Each resource of which too little is free."""
        for name, amount in _amounts(shape):
            column = row.resources.get(name)
            free = row.free.item(0, column) if column is not None else 0
            if free < amount:
                yield Shortfall(
                    reason=_text(name),
                    resource=name,
                    asked=amount,
                    free=free,
                    unit=_UNITS.get(
                        name, "bytes" if "memory" in name or "storage" in name else "count"
                    ),
                )
