from few_pods import FewPods

from kubeshare_py.testing import (
    SmallCluster,
    a_claim,
    a_shape,
    expect_best,
    expect_contract,
    expect_score,
)


def test_the_node_with_fewer_pods_on_its_cards_is_best() -> None:
    cluster = SmallCluster(FewPods())
    cluster.cards("n1", 2)
    cluster.cards("n2", 1)
    cluster.hold("n1", "n1-0", 100)
    cluster.hold("n1", "n1-1", 100)
    shape = a_shape(a_claim(300))
    expect_score(cluster, shape, {"n1": 98, "n2": 100})
    expect_best(cluster, shape, "n2", ["n2-0"])
    expect_contract(cluster, shape)
