"""Cards near one NUMA node, for pods that ask for it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_plugins.bin_pack import BinPack
from kubeshare_plugins.gpu_fit import GpuFit
from kubeshare_plugins.gpu_model import GpuModel
from kubeshare_plugins.numa_binding import NumaBinding
from kubeshare_plugins.topology import Topology
from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.testing import SmallCluster
from tests.making import a_claim, a_gpu, a_shape, whole
from tests.scale import examples


def near(count: int, **fields: object) -> GpuClaim:
    return whole(count, one_numa_node=True, **fields)


def a_cluster(*numa_nodes: int | None, models: str = "") -> SmallCluster:
    """Node n1 with a card near each of these, n1-0, n1-1 …; models by letter."""
    cluster = SmallCluster(GpuFit(), GpuModel(), NumaBinding(), BinPack(), Topology())
    letters = models or "a" * len(numa_nodes)
    cards = [
        a_gpu(f"n1-{at}", index=at, numa_node=numa, model=letters[at])
        for at, numa in enumerate(numa_nodes)
    ]
    cluster.node("n1", *cards)
    return cluster


def taken(cluster: SmallCluster, claim: GpuClaim) -> list[str]:
    best = cluster.best(a_shape(claim, cpu=0))
    return [] if best is None else [card.removeprefix("n1-") for card in best[1]]


def test_all_cards_are_near_one_numa_node() -> None:
    cluster = a_cluster(0, 1, 0, 1)
    assert taken(cluster, whole(3)) == ["0", "1", "2"]
    assert taken(cluster, near(2)) == ["0", "2"]
    assert taken(cluster, near(3)) == []


def test_of_those_with_enough_the_one_with_the_fewest_is_used_up() -> None:
    cluster = a_cluster(0, 0, 0, 0, 1, 1, 1, 1)
    cluster.hold("n1", "n1-6")
    assert taken(cluster, near(2)) == ["4", "5"]
    assert taken(cluster, near(4)) == ["0", "1", "2", "3"]


def test_cards_of_which_nobody_says_where_they_are_do_not_count() -> None:
    assert taken(a_cluster(None, None, 0, None, 0), near(2)) == ["2", "4"]
    assert taken(a_cluster(None, None), near(2)) == []


def test_only_cards_of_the_model_count() -> None:
    cluster = a_cluster(0, 0, 1, 1, models="abbb")
    assert taken(cluster, near(2, models=("b",))) == ["2", "3"]


def test_shares_of_several_cards_are_bound_too() -> None:
    cluster = a_cluster(0, 1, 1)
    cluster.hold("n1", "n1-0", 500)
    claim = a_claim(400, count=2)
    assert taken(cluster, claim) == ["0", "1"]
    assert taken(cluster, a_claim(400, count=2, one_numa_node=True)) == ["1", "2"]


def test_why_it_does_not_fit_is_said_only_where_that_is_why() -> None:
    cluster = a_cluster(0, 1)
    assert cluster.why(a_shape(near(2))) == {"too few GPUs of one NUMA node": 1}
    assert cluster.explain(a_shape(near(2))) == [
        Shortfall(
            reason="too few GPUs of one NUMA node", resource="gpu", asked=2, free=1, unit="count"
        )
    ]
    cluster.hold("n1", "n1-0")
    assert cluster.why(a_shape(near(2))) == {"Insufficient GPU": 1}
    assert [one.reason for one in cluster.explain(a_shape(near(2)))] == ["Insufficient GPU"]


def test_other_pods_are_nobody_of_its_business() -> None:
    cluster = a_cluster(0, 1)
    assert cluster.explain(a_shape(whole(2))) == []
    assert cluster.explain(a_shape()) == []


@pytest.mark.parametrize("exclusive", [True, False])
@examples(80)
@given(
    numa=st.lists(st.sampled_from([None, 0, 1, 2]), min_size=1, max_size=8),
    held=st.sets(st.integers(0, 7)),
    count=st.integers(2, 4),
)
def test_a_choice_is_near_one_numa_node_and_missing_only_if_there_is_none(
    numa: list[int | None], held: set[int], count: int, exclusive: bool
) -> None:
    cluster = a_cluster(*numa)
    idle = [at for at in range(len(numa)) if at not in held]
    for at in held & {*range(len(numa))}:
        cluster.hold("n1", f"n1-{at}", 1000)
    claim = GpuClaim(count=count, milli=1000, exclusive=exclusive, one_numa_node=True)
    found = [int(card) for card in taken(cluster, claim)]
    possible = [n for n in (0, 1, 2) if sum(numa[at] == n for at in idle) >= count]
    assert bool(found) == bool(possible)
    assert {*found} <= {*idle}
    assert len({*found}) == (count if possible else 0)
    assert len({numa[at] for at in found}) <= 1
    assert np.count_nonzero(cluster.evaluator.masks(a_shape(claim)) == 0) == bool(possible)
