"""The card with the fewest pods."""

from kubeshare_plugins.gpu_fit import GpuFit
from kubeshare_plugins.least_tenants import LeastTenants
from kubeshare_py.testing import SmallCluster
from tests.making import a_claim, a_gpu, a_shape, whole


def test_pods_count_and_not_what_they_hold() -> None:
    cluster = SmallCluster(GpuFit(), LeastTenants())
    cluster.cards("n1", 2)
    cluster.hold("n1", "n1-0", 700)
    cluster.hold("n1", "n1-1", 10)
    cluster.hold("n1", "n1-1", 10)
    assert cluster.best(a_shape(a_claim(200))) == ("n1", ["n1-0"])
    assert cluster.best(a_shape(a_claim(400))) == ("n1", ["n1-1"])


def test_the_node_is_chosen_by_its_best_card() -> None:
    cluster = SmallCluster(GpuFit(), LeastTenants())
    cluster.cards("crowded", 1)
    cluster.cards("quiet", 2)
    cluster.hold("crowded", "crowded-0", 10)
    cluster.hold("quiet", "quiet-0", 10)
    cluster.hold("quiet", "quiet-0", 10)
    assert cluster.scores(a_shape(a_claim())) == {"crowded": 99, "quiet": 100}
    assert cluster.best(a_shape(a_claim())) == ("quiet", ["quiet-1"])


def test_more_than_a_hundred_tenants_score_0() -> None:
    cluster = SmallCluster(GpuFit(), LeastTenants())
    cluster.node("n1", a_gpu("n1-0"), pods=200)
    for _ in range(120):
        cluster.hold("n1", "n1-0", 0)
    assert cluster.scores(a_shape(a_claim(0))) == {"n1": 0}
    assert cluster.best(a_shape(a_claim(0))) == ("n1", ["n1-0"])


def test_it_says_nothing_about_whole_cards_and_pods_without_gpus() -> None:
    assert LeastTenants().score(a_shape()) is None
    assert LeastTenants().score(a_shape(whole(2))) is None
