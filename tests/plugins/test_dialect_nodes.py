"""DialectNodes: labels of nodes decide which dialects use them."""

import pytest

from kubeshare_plugins.dialect_nodes import DialectNodes
from kubeshare_py.domain.pod import NodeRule
from kubeshare_py.testing import SmallCluster
from tests.making import a_claim, a_gpu, a_shape

ON = NodeRule("gpushare", ("true",))


@pytest.fixture
def cluster() -> SmallCluster:
    found = SmallCluster(DialectNodes())
    found.node("on", a_gpu("a"), labels={"gpushare": "true"})
    found.node("off", a_gpu("b"), labels={"gpushare": "false"})
    found.node("empty", a_gpu("c"), labels={"gpushare": ""})
    found.node("plain", a_gpu("d"))
    return found


def test_a_node_whose_label_has_another_value_takes_no_pod_of_the_dialect(
    cluster: SmallCluster,
) -> None:
    shape = a_shape(a_claim(500), node_rules=(ON,))
    assert cluster.where(shape) == {"on", "plain"}
    assert cluster.why(shape) == {"node(s) had the label gpushare with another value than true": 2}


def test_a_profile_may_require_the_label(cluster: SmallCluster) -> None:
    shape = a_shape(a_claim(500), node_rules=(NodeRule("gpushare", ("true", "on"), True),))
    assert cluster.where(shape) == {"on"}
    assert cluster.why(shape) == {"node(s) didn't have the label gpushare=true or on": 3}


def test_each_rule_counts(cluster: SmallCluster) -> None:
    shape = a_shape(a_claim(500), node_rules=(ON, NodeRule("pool", ("gpu",), True)))
    assert cluster.where(shape) == set()


def test_pods_without_a_rule_go_anywhere(cluster: SmallCluster) -> None:
    assert cluster.where(a_shape(a_claim(500))) == {"on", "off", "empty", "plain"}


def test_the_answer_follows_the_node() -> None:
    cluster = SmallCluster(DialectNodes())
    shape = a_shape(a_claim(500), node_rules=(ON,))
    for value, fits in (("false", set()), ("true", {"n"}), ("off", set())):
        cluster.node("n", a_gpu("a"), labels={"gpushare": value})
        assert cluster.where(shape) == fits


def test_a_rule_needs_a_value() -> None:
    with pytest.raises(ValueError, match="gpushare: no value of it gives a node"):
        NodeRule("gpushare", ())
