"""How nodes are rated by what is asked for, held and offered of some resources.

Formulas and arguments are kube-scheduler's (pkg/scheduler/framework/plugins/noderesources of
github.com/kubernetes/kubernetes), in the same integers. Arrays are (k,) int64.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from kubeshare_py.domain.pod import UNREQUESTED
from kubeshare_py.plugin import MAX_SCORE, ArgumentError, IntArray, Rows, Shape

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
