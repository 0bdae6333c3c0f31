from cheap_nodes import CheapNodes

from kubeshare_py.testing import SmallCluster, a_shape, expect_best, expect_contract, expect_score


def test_the_cheapest_node_is_best() -> None:
    cluster = SmallCluster(CheapNodes())
    cluster.node("dear", labels={"example.com/price": "70"})
    cluster.node("fair", labels={"example.com/price": "20"})
    cluster.node("odd", labels={"example.com/price": "cheap"})
    expect_score(cluster, a_shape(), {"dear": 30, "fair": 80, "odd": 0})
    expect_best(cluster, a_shape(), "fair")
    expect_contract(cluster, a_shape())
