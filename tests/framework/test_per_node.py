"""Filters and scores from one plain function of one node."""

import pytest

from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.node import Taint
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.adapters import CardState, NodeState, PerNodeFilter, PerNodeScore
from kubeshare_py.framework.points import Filter, Score
from kubeshare_py.testing import SmallCluster
from tests.making import GIB, a_gpu, a_shape


def fast_disk(shape: Shape, node: NodeState) -> bool:
    return node.label("disk") == "fast"


def test_a_filter_is_one_function() -> None:
    cluster = SmallCluster(PerNodeFilter("FastDisk", fast_disk, reason="node(s) had no fast disk"))
    cluster.node("slow", labels={"disk": "slow"})
    cluster.node("bare")
    assert cluster.best(a_shape()) is None
    assert cluster.why(a_shape()) == {"node(s) had no fast disk": 2}
    cluster.node("fast", labels={"disk": "fast"})
    assert cluster.where(a_shape()) == {"fast"}
    cluster.node("slow", labels={"disk": "fast"})
    assert cluster.where(a_shape()) == {"fast", "slow"}


def test_a_score_is_one_function() -> None:
    cluster = SmallCluster(PerNodeScore("Pods", lambda shape, node: node.free("pods")))
    cluster.node("few", pods=10)
    cluster.node("many", pods=30)
    assert cluster.best(a_shape()) == ("many", [])
    for _ in range(25):
        cluster.hold("many")
    assert cluster.best(a_shape()) == ("few", [])
    assert cluster.scores(a_shape()) == {"few": 10, "many": 5}


@pytest.mark.parametrize(("answer", "score"), [(-3, 0), (101, 100), (42, 42)])
def test_scores_are_cut_to_0_and_100(answer: int, score: int) -> None:
    cluster = SmallCluster(PerNodeScore("Wild", lambda shape, node: answer))
    cluster.node("n1")
    assert cluster.scores(a_shape()) == {"n1": score}


def test_the_shape_is_given_too() -> None:
    def small_only(shape: Shape, node: NodeState) -> bool:
        return node.name != "small" or dict(shape.resources)["cpu"] < 500

    cluster = SmallCluster(PerNodeFilter("Small", small_only, reason="node(s) are small"))
    cluster.node("small")
    cluster.node("large")
    assert cluster.where(a_shape(cpu=100)) == {"small", "large"}
    assert cluster.where(a_shape(cpu=500)) == {"large"}


def test_only_nodes_are_asked_about_and_only_when_they_changed() -> None:
    asked: list[str] = []

    def listen(shape: Shape, node: NodeState) -> int:
        asked.append(node.name)
        return 1

    cluster = SmallCluster(PerNodeScore("Listen", listen))
    for name in ("a", "b", "c", "d"):
        cluster.node(name)
    cluster.hold("d")
    for name in ("b", "d"):
        cluster.ledger.drop_node(NodeName(name))
    cluster.best(a_shape())
    assert asked == ["a", "c"]
    cluster.hold("c")
    cluster.best(a_shape())
    assert asked == ["a", "c", "c"]


def test_what_a_function_can_read() -> None:
    seen: list[NodeState] = []
    read: list[object] = []

    def look(shape: Shape, node: NodeState) -> int:
        seen.append(node)
        read.extend(
            (
                node.name,
                node.label("zone"),
                node.label("other"),
                node.taints,
                node.unschedulable,
                node.allocatable("cpu"),
                node.free("cpu"),
                node.free("example.com/unheard-of"),
                node.cards,
            )
        )
        return 0

    cluster = SmallCluster(PerNodeScore("Look", look))
    cluster.node(
        "n1",
        a_gpu("a", model="T4", numa_node=1),
        a_gpu("b", index=1, model="A100", healthy=False),
        cpu=1000,
        labels={"zone": "east"},
        taints=(Taint("k"),),
        unschedulable=True,
    )
    cluster.node("n2", *(a_gpu(f"w{slot}", index=slot) for slot in range(4)))
    cluster.hold("n1", "a", 300, memory=GIB, exclusive=True, resources=(("cpu", 400),))
    cluster.hold("n1", "left", 300)
    cluster.best(a_shape())
    assert [node.name for node in seen] == ["n1", "n2"]
    first = CardState(
        uuid=GpuUuid("a"),
        model="T4",
        numa_node=1,
        capacity_bytes=40 * GIB,
        free_milli=700,
        free_bytes=39 * GIB,
        tenants=1,
        healthy=True,
        exclusive=True,
    )
    second = CardState(
        uuid=GpuUuid("b"),
        model="A100",
        numa_node=None,
        capacity_bytes=40 * GIB,
        free_milli=1000,
        free_bytes=40 * GIB,
        tenants=0,
        healthy=False,
        exclusive=False,
    )
    assert read[:9] == [
        "n1",
        "east",
        None,
        (Taint("k"),),
        True,
        1000,
        600,
        0,
        (first, second),
    ]


def test_they_are_plugins_of_their_points() -> None:
    assert isinstance(PerNodeFilter("F", fast_disk, reason="r"), Filter)
    assert isinstance(PerNodeScore("S", lambda shape, node: 1), Score)
