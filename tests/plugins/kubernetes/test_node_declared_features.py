"""Features that nodes declare and pods need."""

from itertools import chain, combinations

from kubeshare_plugins.kubernetes.node_declared_features import NodeDeclaredFeatures
from kubeshare_py.testing import SmallCluster, expect_contract
from tests.making import a_shape

FEATURES = ("RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport")
SETS = [*chain.from_iterable(combinations(FEATURES, count) for count in range(3))]
UNMATCHED = "node(s) didn't match Pod's required features"


def test_a_node_must_declare_all_that_the_pod_needs() -> None:
    cluster = SmallCluster(NodeDeclaredFeatures())
    declared = {f"n{at}": found for at, found in enumerate(SETS)}
    for name, found in declared.items():
        cluster.node(name, features=found)
    for needed in SETS:
        shape = a_shape(features=needed)
        fits = {name for name, found in declared.items() if {*needed} <= {*found}}
        assert cluster.where(shape) == fits
        refused = len(declared) - len(fits)
        assert cluster.why(shape) == ({UNMATCHED: refused} if refused else {})
        expect_contract(cluster, shape)


def test_evictions_do_not_help() -> None:
    cluster = SmallCluster(NodeDeclaredFeatures())
    cluster.node("n1")
    assert cluster.evaluator.evictable_rows(a_shape(features=FEATURES)).tolist() == []


def test_a_feature_that_comes_or_goes_counts_at_once() -> None:
    cluster = SmallCluster(NodeDeclaredFeatures())
    cluster.node("n1")
    shape = a_shape(features=FEATURES[:1])
    assert cluster.where(shape) == set()
    cluster.node("n1", features=FEATURES)
    assert cluster.where(shape) == {"n1"}
    cluster.node("n1", features=FEATURES[1:])
    assert cluster.where(shape) == set()
