"""Any node and card that fits."""

from itertools import pairwise

import numpy as np

from kubeshare_plugins.gpu_fit import GpuFit
from kubeshare_plugins.random_choice import Random
from kubeshare_py.testing import SmallCluster
from tests.making import a_claim, a_shape


def choices(seed: int, count: int = 40) -> list[str]:
    cluster = SmallCluster(GpuFit(), Random(seed))
    for name in ("n1", "n2", "n3"):
        cluster.cards(name, 4)
    chosen = []
    for _ in range(count):
        best = cluster.best(a_shape(a_claim(300)))
        if best is None:
            break
        cluster.hold(best[0], best[1][0], 300)
        chosen.append(best[1][0])
    return chosen


def test_the_same_seed_gives_the_same_choices() -> None:
    assert choices(7) == choices(7)


def test_another_seed_gives_others() -> None:
    assert choices(7) != choices(8)


def test_only_cards_that_fit_are_chosen_until_none_does() -> None:
    chosen = choices(1)
    assert {chosen.count(card) for card in chosen} == {3}
    assert len({*chosen}) == 12


def test_choices_are_spread_over_nodes_and_cards() -> None:
    assert len({*choices(3, 12)}) > 4


def test_pods_without_gpus_are_scattered_too() -> None:
    cluster = SmallCluster(Random(5))
    for name in ("n1", "n2", "n3"):
        cluster.node(name)
    places = []
    for _ in range(60):
        best = cluster.best(a_shape())
        assert best is not None
        cluster.hold(best[0])
        places.append(best[0])
    assert min(places.count(name) for name in ("n1", "n2", "n3")) > 10


def test_a_node_that_was_chosen_is_as_likely_as_the_others_the_next_time() -> None:
    chosen = choices(11, 36)
    again = [one[:2] == next_one[:2] for one, next_one in pairwise(chosen)]
    assert sum(again) < len(again) // 2


def test_nothing_is_drawn_where_nothing_fits() -> None:
    assert Random().normaliser(np.zeros(0, np.int64)).tolist() == []
