"""Nodes that the pod balances, against kube-scheduler's formula in plain Python."""

import math

import pytest
from hypothesis import given

from kubeshare_plugins.kubernetes.node_resources_fit import NodeResourcesBalancedAllocation
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

ALL = [{"name": name} for name in KINDS]


def in_order(numbers: list[float]) -> float:
    """Their sum, rounded after each; `sum` compensates for that in later Pythons."""
    total = 0.0
    for number in numbers:
        total += number
    return total


def balance(parts: list[tuple[int, int]]) -> int:
    fractions = [min(used / offered, 1.0) for offered, used in parts]
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        mean = in_order(fractions) / len(fractions)
        squares = [(fraction - mean) * (fraction - mean) for fraction in fractions]
        deviation = math.sqrt(in_order(squares) / len(fractions))
    return int((1 - deviation) * 100)


def points(node: OneNode, pod: Held) -> int:
    before, after = [], []
    for name in KINDS:
        asked, offered = pod.asked.get(name, 0), node.offered.get(name, 0)
        if not offered or (not asked and name not in KINDS[:3]):
            continue
        held = sum(one.asked.get(name, 0) for one in node.pods)
        before.append((offered, held))
        after.append((offered, held + asked))
    return 50 + (50 + balance(after) - balance(before)) // 2


@given(NODES, HELD)
def test_points_are_those_of_the_formula(nodes: list[OneNode], pod: Held) -> None:
    cluster = cluster_of(nodes, NodeResourcesBalancedAllocation(resources=ALL))
    shape = shape_of(pod)
    if any(pod.asked.values()):
        wanted = {f"n{at}": points(node, pod) for at, node in enumerate(nodes)}
        assert cluster.scores(shape) == wanted
    else:
        assert not cluster.evaluator.results.prepared(shape).absolute


def test_a_pod_that_evens_out_what_is_used_scores_high() -> None:
    nodes = [
        OneNode({"cpu": 100, "memory": 100}, [Held({"cpu": 60})]),
        OneNode({"cpu": 100, "memory": 100}, [Held({"memory": 60})]),
        OneNode({"cpu": 100, "memory": 100}, []),
    ]
    cluster = cluster_of(nodes, NodeResourcesBalancedAllocation())
    shape = shape_of(Held({"memory": 40}))
    expect_score(cluster, shape, {"n0": 85, "n1": 65, "n2": 65})
    expect_contract(cluster, shape)


def test_requests_count_as_they_are() -> None:
    cluster = cluster_of([OneNode({"cpu": 1000, "memory": 1000}, [])], _of_default())
    assert not cluster.evaluator.results.prepared(shape_of(Held({}, {"cpu": 100}))).absolute


def _of_default() -> NodeResourcesBalancedAllocation:
    return NodeResourcesBalancedAllocation(resources=[])


@pytest.mark.parametrize(
    ("resources", "problem"),
    [
        ([{"name": "cpu"}, {"name": "cpu"}], "resources[1].name: cpu is there twice"),
        ([{"name": "cpu", "weight": 2}], "resources[0].weight: must be 1"),
        ([{"name": "cpu", "wight": 2}], "resources[0].wight: "),
        ([{}], "resources[0]: "),
    ],
)
def test_a_mistake_in_the_arguments_is_named(resources: list[object], problem: str) -> None:
    with pytest.raises(ArgumentError) as error:
        NodeResourcesBalancedAllocation(resources=resources)
    assert str(error.value).startswith(problem)
