"""Filter and score: cpu, memory, ephemeral storage, pods, extended resources, pod-manager ports."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from kubeshare_py.domain.pod import UNREQUESTED
from kubeshare_py.plugin import (
    FIXED_RESOURCES,
    MAX_SCORE,
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

# How nodes are rated by what is asked for, held and offered of some resources.
#
# Formulas and arguments are kube-scheduler's (pkg/scheduler/framework/plugins/noderesources of
# github.com/kubernetes/kubernetes), in the same integers. Arrays are (k,) int64.


#: Resources that count for every pod; others only for pods that ask for them.
_OF_EVERY_POD = ("cpu", "memory", "ephemeral-storage")
#: The highest score of a point of a `shape`.
_MOST = 10
#: kube-scheduler's name of a point's percentage.
_PERCENT = "utilization"


class ResourceWeight(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A resource that counts, and how much; 0 means 1."""

    name: str
    weight: Annotated[int, Meta(ge=0, le=100)] = 1


class RatioPoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The score, 0 to 10, where so many percent of what a node offers are requested."""

    percent: Annotated[int, Meta(ge=0, le=100)] = msgspec.field(default=0, name=_PERCENT)
    score: Annotated[int, Meta(ge=0, le=_MOST)] = 0


class RatioArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Points in ascending order of percent; in between scores are linear."""

    shape: tuple[RatioPoint, ...]


class ScoringStrategy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The argument `scoringStrategy` of NodeResourcesFit."""

    type: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]
    resources: tuple[ResourceWeight, ...] = ()
    requested_to_capacity_ratio: RatioArgs | None = None


DEFAULT_RESOURCES = (ResourceWeight("cpu"), ResourceWeight("memory"))


class AskedAmount(NamedTuple):
    """How much a pod asks for of a resource, what it counts in scores, and its weight."""

    resource: str
    amount: int
    weight: int


class Level(NamedTuple):
    """What nodes offer of a resource, what pods hold of it, and what they would with the pod.

    All three are 0 on nodes that do not offer it.
    """

    offered: IntArray
    held: IntArray
    requested: IntArray
    weight: int


#: 0 to 100 for nodes of a level.
LevelScore = Callable[[Level], IntArray]


def asked_amounts(
    shape: Shape, resources: Sequence[ResourceWeight], *, unrequested: bool
) -> list[AskedAmount]:
    """What counts for pods of the shape.

    With `unrequested`, containers that ask for no cpu or memory count as if they asked for some.
    """
    amounts = dict(shape.resources + shape.ignored)
    if unrequested:
        more = dict(shape.unrequested)
        for name, unasked in UNREQUESTED.items():
            amounts[name] = amounts.get(name, 0) + more.get(unasked, 0)
    return [
        AskedAmount(one.name, amounts.get(one.name, 0), one.weight or 1)
        for one in resources
        if one.name in _OF_EVERY_POD or amounts.get(one.name)
    ]


def levels(rows: Rows, asked: Sequence[AskedAmount], *, unrequested: bool) -> Iterator[Level]:
    """The levels of these resources, without those that no node offers."""
    columns, allocatable, free = rows.resources, rows.allocatable, rows.free
    for name, amount, weight in asked:
        column = columns.get(name)
        if column is None:
            continue
        offered = allocatable[:, column]
        held = offered - free[:, column]
        if unrequested and name in UNREQUESTED:
            more = columns[UNREQUESTED[name]]
            held += allocatable[:, more] - free[:, more]
        there = offered != 0
        yield Level(offered, held * there, (held + amount) * there, weight)


def weighted_mean(found: Iterator[Level], score: LevelScore, nodes: int) -> IntArray:
    """The mean of the scores of what each of so many nodes offers, rounded down, (nodes,)."""
    total, weights = np.zeros((2, nodes), np.int64)
    for level in found:
        there = level.offered != 0
        total += there * score(level) * level.weight
        weights += there * level.weight
    mean: IntArray = total // np.maximum(weights, 1)
    return mean


def ratio_mean(found: Iterator[Level], table: IntArray, nodes: int) -> IntArray:
    """The mean of the scores above 0, rounded to the nearest, (nodes,).

    `table` has one for each percent, (101,).
    """
    total, weights = np.zeros((2, nodes), np.int64)
    for level in found:
        points = table[most_allocated(level)] * (level.offered != 0)
        total += points * level.weight
        weights += (points > 0) * level.weight
    divisor = np.maximum(weights, 1)
    mean: IntArray = (2 * total + divisor) // (2 * divisor)
    return mean


def least_allocated(level: Level) -> IntArray:
    """The free part of what is offered, in percent, (k,); 0 if that is below 0."""
    offered = np.maximum(level.offered, 1)
    left: IntArray = np.maximum(level.offered - level.requested, 0) * MAX_SCORE // offered
    return left


def most_allocated(level: Level) -> IntArray:
    """The requested part of what is offered, in percent, (k,); 100 if more is requested."""
    offered = np.maximum(level.offered, 1)
    percent: IntArray = np.minimum(level.requested, level.offered) * MAX_SCORE // offered
    return percent


def ratio_table(shape: Sequence[RatioPoint], path: str) -> IntArray:
    """The score of each percentage from 0 to 100, (101,).

    Raises ArgumentError, beginning with `path`, unless the points are in ascending order.
    """
    if not shape:
        raise ArgumentError(f"{path}: must have a point")
    for at, (before, point) in enumerate(pairwise(shape), 1):
        if before.percent >= point.percent:
            rule = "must be above that of the point before"
            raise ArgumentError(f"{path}[{at}].{_PERCENT}: {rule}")
    return np.array([_on_line(shape, percent) for percent in range(MAX_SCORE + 1)], np.int64)


def _on_line(shape: Sequence[RatioPoint], percent: int) -> int:
    """The score of a percentage, in integers that are cut towards 0 as Go does."""
    scale = MAX_SCORE // _MOST
    if percent <= shape[0].percent:
        return scale * shape[0].score
    for before, point in pairwise(shape):
        if percent <= point.percent:
            rise = scale * (point.score - before.score) * (percent - before.percent)
            step = abs(rise) // (point.percent - before.percent)
            return scale * before.score + (step if rise >= 0 else -step)
    return scale * shape[-1].score


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


# Score: nodes on which the pod brings the used parts of resources closer to each other.


_Fractions = NDArray[np.float64]
#: The deviation of so many has a formula of its own, which rounds differently.
_PAIR = 2


class NodeResourcesBalancedAllocation:
    """50 to 100 points: 75 if the pod changes nothing, more if the node is better balanced with it.

    The balance is 100 minus the standard deviation, in percent, of the used parts of `resources`.
    Requests count as they are. Pods that ask for none of the resources have no say.
    """

    name = "NodeResourcesBalancedAllocation"
    normaliser: Normaliser | None = None

    def __init__(self, resources: Any = DEFAULT_RESOURCES) -> None:
        """Raises ArgumentError for a bad entry."""
        entries = checked(resources, tuple[ResourceWeight, ...], "resources")
        self._resources = entries or DEFAULT_RESOURCES
        seen = set()
        for at, one in enumerate(self._resources):
            if one.name in seen:
                raise ArgumentError(f"resources[{at}].name: {one.name} is there twice")
            if one.weight > 1:
                raise ArgumentError(f"resources[{at}].weight: must be 1")
            seen.add(one.name)

    def score(self, shape: Shape) -> RowScore | None:
        """The difference that the pod makes."""
        asked = asked_amounts(shape, self._resources, unrequested=False)
        if not any(one.amount for one in asked):
            return None

        def ask(rows: Rows, cards: BestCards | None) -> IntArray:
            found = [*levels(rows, asked, unrequested=False)]
            nodes = len(rows.free)
            after = _balance(((one.offered, one.requested) for one in found), nodes)
            before = _balance(((one.offered, one.held) for one in found), nodes)
            better: IntArray = MAX_SCORE // 2 + (MAX_SCORE // 2 + after - before) // 2
            return better

        return ask


def _balance(parts: Iterator[tuple[IntArray, IntArray]], nodes: int) -> IntArray:
    """100 minus the standard deviation of the used parts in percent, rounded down, (k,).

    In float64 and in kube-scheduler's order, so that results are the same to the last bit.
    """
    fractions: list[tuple[_Fractions, NDArray[np.bool_]]] = []
    for offered, used in parts:
        there = offered != 0
        fraction = np.minimum(used / np.maximum(offered, 1), 1.0) * there
        fractions.append((fraction, there))
    count, total, apart = np.zeros((3, nodes))
    for fraction, there in fractions:
        apart = np.where(there & (count == 1), apart - fraction, np.where(there, fraction, apart))
        total += fraction
        count += there
    mean = total / np.maximum(count, 1)
    squares = np.zeros(nodes)
    for fraction, there in fractions:
        squares += there * (fraction - mean) * (fraction - mean)
    deviation = np.sqrt(squares / np.maximum(count, 1))
    deviation = np.where(count == _PAIR, np.abs(apart / 2), deviation)
    return ((1 - deviation) * MAX_SCORE).astype(np.int64)
