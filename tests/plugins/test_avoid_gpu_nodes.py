"""Pods that need no GPU go elsewhere."""

from kubeshare_plugins.avoid_gpu_nodes import AvoidGpuNodes
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.testing import SmallCluster
from tests.making import a_claim, a_shape, some_gpus


def test_a_pod_without_gpus_goes_to_a_node_without_gpus() -> None:
    cluster = SmallCluster(AvoidGpuNodes())
    cluster.cards("gpu", 1)
    cluster.node("plain")
    assert cluster.scores(a_shape()) == {"gpu": 0, "plain": 100}
    assert cluster.best(a_shape()) == ("plain", [])


def test_it_goes_to_a_gpu_node_when_there_is_no_other() -> None:
    cluster = SmallCluster(AvoidGpuNodes())
    cluster.cards("gpu", 1)
    assert cluster.best(a_shape()) == ("gpu", [])


def test_cards_that_appear_count_at_once() -> None:
    cluster = SmallCluster(AvoidGpuNodes())
    cluster.node("first")
    cluster.node("second")
    assert cluster.best(a_shape()) == ("first", [])
    cluster.ledger.put_cards(NodeName("first"), some_gpus("first", 1))
    assert cluster.best(a_shape()) == ("second", [])
    cluster.ledger.put_cards(NodeName("first"), ())
    assert cluster.best(a_shape()) == ("first", [])


def test_it_says_nothing_about_pods_with_gpus() -> None:
    assert AvoidGpuNodes().score(a_shape(a_claim())) is None
