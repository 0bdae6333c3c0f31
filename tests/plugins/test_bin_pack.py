"""Fill what is in use already."""

import pytest

from kubeshare_plugins.bin_pack import BinPack
from kubeshare_plugins.gpu_fit import GpuFit
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.plugin import ArgumentError
from kubeshare_py.testing import SmallCluster
from tests.each import each
from tests.making import a_claim, a_gpu, a_shape, whole


def a_cluster(**cards: int) -> SmallCluster:
    cluster = SmallCluster(GpuFit(), BinPack())
    for name, count in cards.items():
        cluster.cards(name, count)
    return cluster


def test_the_fullest_card_that_fits_is_taken_first() -> None:
    cluster = a_cluster(n1=3, n2=1)
    cluster.hold("n1", "n1-1", 300)
    cluster.hold("n2", "n2-0", 600)
    cluster.hold("n1", "n1-2", 800)
    assert cluster.best(a_shape(a_claim(200))) == ("n1", ["n1-2"])
    assert cluster.best(a_shape(a_claim(400))) == ("n2", ["n2-0"])
    assert cluster.best(a_shape(a_claim(700))) == ("n1", ["n1-1"])
    assert cluster.best(a_shape(a_claim(701))) == ("n1", ["n1-0"])


def test_it_may_be_for_pods_with_gpus_only() -> None:
    shape = a_shape(cpu=100)
    assert BinPack().score(shape) is not None
    assert BinPack(pods="WithGpus").score(shape) is None
    assert BinPack(pods="WithGpus").score(a_shape(a_claim(500))) is not None
    with pytest.raises(ArgumentError, match="pods: must be All or WithGpus, not 'Some'"):
        BinPack(pods="Some")


def test_a_shared_card_of_an_empty_node_comes_before_an_idle_card_of_a_full_one() -> None:
    cluster = a_cluster(full=2, empty=8)
    cluster.hold("full", "full-0", 1000)
    cluster.hold("empty", "empty-5", 10)
    assert cluster.best(a_shape(a_claim(500))) == ("empty", ["empty-5"])


def test_idle_cards_are_taken_by_uuid_on_the_fullest_node() -> None:
    cluster = a_cluster(empty=2, half=2)
    assert cluster.best(a_shape(a_claim(500))) == ("empty", ["empty-0"])
    cluster.hold("half", "half-0", 1000)
    assert cluster.best(a_shape(a_claim(500))) == ("half", ["half-1"])


def test_uuids_decide_and_not_the_order_of_the_inventory() -> None:
    cluster = SmallCluster(GpuFit(), BinPack())
    cluster.node("n1", a_gpu("b"), a_gpu("a", index=1), a_gpu("c", index=2))
    assert cluster.best(a_shape(a_claim())) == ("n1", ["a"])
    assert cluster.best(a_shape(whole(2))) == ("n1", ["a", "b"])


def test_whole_cards_go_to_the_fullest_node_with_enough_idle_ones() -> None:
    cluster = a_cluster(empty=4, half=4, full=4)
    cluster.hold("half", "half-1", 1000)
    for slot in range(3):
        cluster.hold("full", f"full-{slot}", 1000)
    assert cluster.best(a_shape(whole(2))) == ("half", ["half-0", "half-2"])
    assert cluster.best(a_shape(whole(1))) == ("full", ["full-3"])
    assert cluster.best(a_shape(whole(4))) == ("empty", [f"empty-{slot}" for slot in range(4)])


def test_scores_of_shares_are_those_of_the_docstring() -> None:
    cluster = a_cluster(idle=2, other=2, shared=2, full=1)
    cluster.hold("other", "other-0", 1000, exclusive=True)
    cluster.hold("shared", "shared-1", 500)
    cluster.hold("full", "full-0", 1000)
    assert cluster.scores(a_shape(a_claim(0))) == {
        "idle": 0,
        "other": 25,
        "shared": 75,
        "full": 100,
    }
    assert cluster.scores(a_shape(whole(2))) == {"idle": 0, "other": 50, "shared": 25, "full": 100}


@pytest.mark.parametrize("claim", [None, whole(2)])
def test_scores_stay_within_0_and_100_when_a_node_is_overdrawn(claim: GpuClaim | None) -> None:
    cluster = a_cluster(n1=2, n2=1)
    for _ in range(3):
        cluster.hold("n1", "n1-0", 700, resources=(("cpu", 40_000),))
    assert all(0 <= score <= 100 for score in each(cluster.scores(a_shape(claim)).values()))


def test_pods_without_gpus_go_where_cpu_and_memory_are_used() -> None:
    cluster = SmallCluster(BinPack())
    for name in ("empty", "half", "quarter"):
        cluster.node(name, allocatable=(("cpu", 1000), ("memory", 1000), ("pods", 9)))
    cluster.hold("half", resources=(("cpu", 400), ("memory", 600)))
    cluster.hold("quarter", resources=(("cpu", 500),))
    assert cluster.scores(a_shape()) == {"empty": 0, "half": 50, "quarter": 25}
    assert cluster.best(a_shape()) == ("half", [])


def test_a_node_that_offers_nothing_can_be_scored() -> None:
    cluster = SmallCluster(BinPack())
    cluster.node("bare", allocatable=())
    assert cluster.scores(a_shape()) == {"bare": 0}
