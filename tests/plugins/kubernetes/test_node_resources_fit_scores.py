"""Strategies of NodeResourcesFit, against kube-scheduler's formulas in plain Python."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_plugins.kubernetes.node_resources_fit import NodeResourcesFit
from kubeshare_py.plugin import ArgumentError
from kubeshare_py.testing import expect_contract, expect_score
from tests.plugins.kubernetes.node_amounts import (
    HELD,
    KINDS,
    NODES,
    Held,
    OneNode,
    cluster_of,
    shape_of,
)

WEIGHTS = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(1, 100)),
    min_size=1,
    max_size=4,
    unique_by=lambda pair: pair[0],
)
#: (utilization, score) in ascending order.
Points = list[tuple[int, int]]
SHAPES: st.SearchStrategy[Points] = st.lists(
    st.tuples(st.integers(0, 100), st.integers(0, 10)),
    min_size=1,
    max_size=5,
    unique_by=lambda point: point[0],
).map(sorted)


def strategy(kind: str, weights: list[tuple[str, int]], shape: Points | None = None) -> Any:
    given: dict[str, Any] = {
        "type": kind,
        "resources": [{"name": name, "weight": weight} for name, weight in weights],
    }
    if shape is not None:
        points = [{"utilization": used, "score": score} for used, score in shape]
        given["requestedToCapacityRatio"] = {"shape": points}
    return given


def of_each(
    node: OneNode, pod: Held, weights: list[tuple[str, int]], score: Callable[[int, int], int]
) -> list[tuple[int, int]]:
    """The score and weight of each resource that counts."""
    found = []
    for name, weight in weights:
        offered, asked = node.offered.get(name, 0), pod.scored(name)
        if offered and (asked or name in KINDS[:3]):
            held = sum(one.scored(name) for one in node.pods)
            found.append((score(held + asked, offered), weight))
    return found


def mean(found: list[tuple[int, int]]) -> int:
    weights = sum(weight for _, weight in found)
    return sum(score * weight for score, weight in found) // weights if weights else 0


def least(requested: int, offered: int) -> int:
    return 0 if requested > offered else (offered - requested) * 100 // offered


def most(requested: int, offered: int) -> int:
    return min(requested, offered) * 100 // offered


def on_line(shape: Points, percent: int) -> int:
    """A broken line through the points, with scores ten times as high, cut towards 0."""
    for at, (used, score) in enumerate(shape):
        if percent <= used:
            if at == 0:
                return score * 10
            before, low = shape[at - 1]
            rise = (score - low) * 10 * (percent - before)
            return low * 10 + math.trunc(rise / (used - before))
    return shape[-1][1] * 10


@given(NODES, HELD, WEIGHTS)
def test_least_allocated(nodes: list[OneNode], pod: Held, weights: list[tuple[str, int]]) -> None:
    cluster = cluster_of(nodes, NodeResourcesFit(strategy("LeastAllocated", weights)))
    wanted = {f"n{at}": mean(of_each(node, pod, weights, least)) for at, node in enumerate(nodes)}
    assert cluster.scores(shape_of(pod)) == wanted


@given(NODES, HELD, WEIGHTS)
def test_most_allocated(nodes: list[OneNode], pod: Held, weights: list[tuple[str, int]]) -> None:
    cluster = cluster_of(nodes, NodeResourcesFit(strategy("MostAllocated", weights)))
    wanted = {f"n{at}": mean(of_each(node, pod, weights, most)) for at, node in enumerate(nodes)}
    assert cluster.scores(shape_of(pod)) == wanted


@given(NODES, HELD, WEIGHTS, SHAPES)
def test_requested_to_capacity_ratio(
    nodes: list[OneNode], pod: Held, weights: list[tuple[str, int]], shape: Points
) -> None:
    def score(requested: int, offered: int) -> int:
        return on_line(shape, 100 if requested > offered else requested * 100 // offered)

    def points(node: OneNode) -> int:
        counted = [one for one in of_each(node, pod, weights, score) if one[0] > 0]
        weight = sum(weight for _, weight in counted)
        total = sum(score * weight for score, weight in counted)
        return math.floor(total / weight + 0.5) if weight else 0

    kind = "RequestedToCapacityRatio"
    cluster = cluster_of(nodes, NodeResourcesFit(strategy(kind, weights, shape)))
    wanted = {f"n{at}": points(node) for at, node in enumerate(nodes)}
    assert cluster.scores(shape_of(pod)) == wanted


def test_without_arguments_nodes_with_more_left_are_better() -> None:
    nodes = [
        OneNode({"cpu": 1000, "memory": 1000}, []),
        OneNode({"cpu": 1000, "memory": 1000}, [Held({"cpu": 500})]),
        OneNode({"cpu": 1000, "memory": 1000}, [Held({}, {"cpu": 100, "memory": 300})]),
    ]
    cluster = cluster_of(nodes, NodeResourcesFit())
    expect_score(cluster, shape_of(Held({"cpu": 100})), {"n0": 95, "n1": 70, "n2": 75})
    expect_score(cluster, shape_of(Held({}, {"cpu": 100})), {"n0": 95, "n1": 70, "n2": 75})
    expect_contract(cluster, shape_of(Held({"cpu": 100})))


def test_a_weight_of_0_means_1() -> None:
    nodes = [OneNode({"cpu": 100, "memory": 100}, [Held({"cpu": 50})])]
    weights = [("cpu", 0), ("memory", 1)]
    cluster = cluster_of(nodes, NodeResourcesFit(strategy("LeastAllocated", weights)))
    expect_score(cluster, shape_of(Held({})), {"n0": 75})


RATIO = "scoringStrategy.requestedToCapacityRatio"
RISING = [(0, 0), (100, 10)]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "scoringStrategy: Object missing required field `type`"),
        ({"type": "Best"}, "scoringStrategy.type: "),
        (strategy("MostAllocated", [("cpu", 101)]), "scoringStrategy.resources[0].weight: "),
        (strategy("MostAllocated", [("cpu", -1)]), "scoringStrategy.resources[0].weight: "),
        ({"type": "LeastAllocated", "kind": 1}, "scoringStrategy.kind: "),
        (strategy("RequestedToCapacityRatio", []), f"{RATIO}: must be there"),
        (strategy("LeastAllocated", [], RISING), f"{RATIO}: must be there"),
        (strategy("RequestedToCapacityRatio", [], []), f"{RATIO}.shape: must have a point"),
        (
            strategy("RequestedToCapacityRatio", [], [(5, 1), (5, 2)]),
            f"{RATIO}.shape[1].utilization: must be above",
        ),
        (strategy("RequestedToCapacityRatio", [], [(0, 11)]), f"{RATIO}.shape[0].score: "),
        (strategy("RequestedToCapacityRatio", [], [(101, 1)]), f"{RATIO}.shape[0].utilization: "),
    ],
)
def test_a_mistake_in_the_arguments_is_named(given: Any, problem: str) -> None:
    with pytest.raises(ArgumentError) as error:
        NodeResourcesFit(scoringStrategy=given)
    assert str(error.value).startswith(problem)
