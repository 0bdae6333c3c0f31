"""The emptiest card of the emptiest node."""

from kubeshare_plugins.gpu_fit import GpuFit
from kubeshare_plugins.spread import Spread
from kubeshare_py.testing import SmallCluster
from tests.making import GIB, a_claim, a_shape, whole


def a_cluster(**cards: int) -> SmallCluster:
    cluster = SmallCluster(GpuFit(), Spread())
    for name, count in cards.items():
        cluster.cards(name, count)
    return cluster


def test_shares_go_to_idle_cards_while_there_are_some() -> None:
    cluster = a_cluster(n1=2)
    chosen = []
    for _ in range(4):
        best = cluster.best(a_shape(a_claim(300)))
        assert best is not None
        cluster.hold("n1", best[1][0], 300)
        chosen.append(best[1][0])
    assert chosen == ["n1-0", "n1-1", "n1-0", "n1-1"]


def test_of_idle_cards_those_of_the_emptier_node_are_taken() -> None:
    cluster = a_cluster(busy=2, free=2)
    cluster.hold("busy", "busy-0", 500)
    assert cluster.best(a_shape(a_claim(300))) == ("free", ["free-0"])


def test_an_idle_card_of_a_busy_node_beats_a_shared_card_of_an_empty_one() -> None:
    cluster = a_cluster(busy=4, free=4)
    for slot in range(3):
        cluster.hold("busy", f"busy-{slot}", 1000)
    for slot in range(4):
        cluster.hold("free", f"free-{slot}", 400)
    assert cluster.best(a_shape(a_claim(300))) == ("busy", ["busy-3"])


def test_whole_cards_go_to_the_emptiest_node() -> None:
    cluster = a_cluster(busy=4, free=4)
    cluster.hold("busy", "busy-0", 1000)
    assert cluster.best(a_shape(whole(2))) == ("free", ["free-0", "free-1"])


def test_scores_are_80_for_the_card_and_20_for_the_node() -> None:
    cluster = a_cluster(idle=2, half=2, full=1)
    cluster.hold("half", "half-0", 500)
    cluster.hold("half", "half-1", 500)
    cluster.hold("full", "full-0", 1000)
    assert cluster.scores(a_shape(a_claim(0))) == {"idle": 100, "half": 50, "full": 0}
    assert cluster.scores(a_shape(whole(2))) == {"idle": 100, "half": 50, "full": 0}


def test_scores_stay_within_0_and_100_when_a_node_is_overdrawn() -> None:
    cluster = a_cluster(n1=1)
    for _ in range(2):
        cluster.hold("n1", "n1-0", 700, resources=(("cpu", 40_000),))
    assert 0 <= cluster.scores(a_shape(whole(2)))["n1"] <= 100
    assert 0 <= cluster.scores(a_shape())["n1"] <= 100


def test_pods_without_gpus_go_where_cpu_and_memory_are_free() -> None:
    cluster = SmallCluster(Spread())
    for name in ("half", "empty"):
        cluster.node(name, allocatable=(("cpu", 1000), ("memory", GIB), ("pods", 9)))
    cluster.hold("half", resources=(("cpu", 500), ("memory", GIB // 2)))
    assert cluster.scores(a_shape()) == {"half": 50, "empty": 100}
    assert cluster.best(a_shape()) == ("empty", [])
