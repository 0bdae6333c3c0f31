"""Nodes that have the pod's images, against kube-scheduler's formula in plain Python."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_plugins.kubernetes.image_locality import ImageLocality
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.pod import NodeImage, PodImages, Shape, with_images
from kubeshare_py.testing import SmallCluster, expect_contract
from tests.making import Driver, a_machine, a_pod, a_shape

MIB = 1 << 20
SIZES = {"a:1": 20 * MIB, "b:1": 300 * MIB, "c:1": 2500 * MIB, "d:1": 24 * MIB}
HELD = st.lists(st.sets(st.sampled_from([*SIZES])), min_size=1, max_size=5)
WANTED = st.lists(st.sampled_from([*SIZES, "e:1"]), max_size=4)


def image(name: str) -> NodeImage:
    return NodeImage((f"registry.example/{name}", name), SIZES[name])


def using(*names: str, containers: int = 0) -> Shape:
    return with_images(a_shape(), PodImages(tuple(sorted(names)), containers or len(names)))


def points(wanted: list[str], held: set[str], spread: Counter[str], nodes: int) -> int:
    total = sum(int(SIZES[name] * (spread[name] / nodes)) for name in wanted if name in held)
    most = 1000 * MIB * len(wanted)
    return 100 * (min(max(total, 23 * MIB), most) - 23 * MIB) // (most - 23 * MIB)


@given(HELD, WANTED)
def test_points_are_those_of_the_formula(held: list[set[str]], wanted: list[str]) -> None:
    cluster = SmallCluster(ImageLocality())
    for at, names in enumerate(held):
        cluster.node(f"n{at}", images=tuple(image(name) for name in sorted(names)))
    shape = using(*wanted)
    if not wanted:
        assert ImageLocality().score(shape) is None
        return
    spread = Counter(name for names in held for name in names)
    assert cluster.scores(shape) == {
        f"n{at}": points(wanted, names, spread, len(held)) for at, names in enumerate(held)
    }
    expect_contract(cluster, shape)


def test_images_that_come_and_go_count_at_once() -> None:
    cluster = SmallCluster(ImageLocality())
    for name in ("n0", "n1"):
        cluster.node(name)
    shape = using("c:1")
    best = []
    for n0, n1 in [((), ()), ((), ("c:1",)), (("c:1",), ()), (("c:1",), ("c:1", "b:1"))]:
        cluster.node("n0", images=tuple(map(image, n0)))
        cluster.node("n1", images=tuple(map(image, n1)))
        best.append(cluster.best(shape))
    assert best == [("n0", []), ("n1", []), ("n0", []), ("n0", [])]
    cluster.ledger.drop_node(cluster.node("n0", images=(image("c:1"),)).name)
    cluster.node("n1", images=(image("c:1"),))
    assert cluster.best(shape) == ("n1", [])


def node(name: str, *images: str) -> Node:
    return Node(
        name=SmallCluster().node(name).name,
        allocatable=(("cpu", 1000), ("pods", 110)),
        images=tuple(map(image, images)),
    )


@pytest.mark.parametrize("is_enabled", [True, False])
def test_shapes_have_images_only_where_they_count(is_enabled: bool) -> None:
    enabled = [{"name": "ImageLocality", "weight": 9}] if is_enabled else []
    plugins = {"score": {"disabled": [{"name": "*"}], "enabled": enabled}}
    machine = a_machine({"profiles": [{"plugins": plugins}]})
    driver = Driver({}, machine=machine)
    machine.ledger.put_node(node("n0"))
    machine.ledger.put_node(node("n1", "c:1"))
    pods = [a_pod(name, images=PodImages((f"{name}:1",), 1)) for name in "abc"]
    placed = {pod.key.name: driver.seen(pod) for pod in pods}
    shapes = {machine.records[pod.uid].shape for pod in pods}
    assert len(shapes) == (3 if is_enabled else 1)
    assert [bind.node for bind in placed["c"]] == ["n1" if is_enabled else "n0"]
