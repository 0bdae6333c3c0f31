"""Several cards of one model, for pods that ask for it."""

from hypothesis import given
from hypothesis import strategies as st

from kubeshare_plugins.bin_pack import BinPack
from kubeshare_plugins.gpu_fit import GpuFit
from kubeshare_plugins.gpu_model import GpuModel
from kubeshare_plugins.numa_binding import NumaBinding
from kubeshare_plugins.one_model import OneModel
from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.gpu import PreferredModels
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.testing import SmallCluster
from tests.making import a_claim, a_gpu, a_shape, whole
from tests.scale import examples


def alike(count: int, **fields: object) -> GpuClaim:
    return whole(count, one_model=True, **fields)


def a_cluster(models: str, numa: str = "") -> SmallCluster:
    """Node n1 with cards n1-0, n1-1 … of models by letter, near NUMA nodes by digit."""
    cluster = SmallCluster(GpuFit(), GpuModel(), OneModel(), NumaBinding(), BinPack())
    near: list[int | None] = [int(digit) for digit in numa] or [None] * len(models)
    cards = [
        a_gpu(f"n1-{at}", index=at, model=model.strip(), numa_node=near[at])
        for at, model in enumerate(models)
    ]
    cluster.node("n1", *cards)
    return cluster


def taken(cluster: SmallCluster, claim: GpuClaim) -> list[str]:
    best = cluster.best(a_shape(claim, cpu=0))
    return [] if best is None else [card.removeprefix("n1-") for card in best[1]]


def test_all_cards_are_of_one_model() -> None:
    cluster = a_cluster("abab")
    assert taken(cluster, whole(3)) == ["0", "1", "2"]
    assert taken(cluster, alike(2)) == ["0", "2"]
    assert taken(cluster, alike(3)) == []


def test_of_models_with_enough_the_one_with_the_fewest_is_used_up() -> None:
    assert taken(a_cluster("aaaabb"), alike(2)) == ["4", "5"]


def test_the_model_that_the_pod_prefers_comes_first() -> None:
    cluster = a_cluster("aaaabbb")
    wish = PreferredModels(tiers=(("a",), ("b",)))
    assert taken(cluster, alike(2, preferred=wish)) == ["0", "1"]
    assert taken(cluster, alike(5, preferred=wish)) == []
    cluster.hold_all("n1", ["n1-0", "n1-1", "n1-2"], 1000, exclusive=True)
    assert taken(cluster, alike(2, preferred=wish)) == ["4", "5"]


def test_only_cards_that_the_pod_takes_count() -> None:
    cluster = a_cluster("aabbbb")
    assert taken(cluster, alike(2, preferred=PreferredModels(denied=("a",)))) == ["2", "3"]
    assert taken(cluster, alike(2, models=("b",))) == ["2", "3"]


def test_cards_whose_model_nobody_knows_are_not_of_one_model() -> None:
    assert taken(a_cluster("   "), alike(2)) == []


def test_shares_of_several_cards_are_of_one_model_too() -> None:
    cluster = a_cluster("abb")
    cluster.hold("n1", "n1-0", 500)
    assert taken(cluster, a_claim(400, count=2, one_model=True)) == ["1", "2"]


def test_a_numa_node_can_be_asked_for_as_well() -> None:
    assert taken(a_cluster("abab" * 2, "00001111"), alike(2, one_numa_node=True)) == ["0", "2"]
    assert taken(a_cluster("aabb", "0101"), alike(2, one_numa_node=True)) == []
    # Near 0 there are fewer cards that fit, near 1 fewer of a model with enough.
    cluster = a_cluster("aaa" + "aabbb", "000" + "11111")
    assert taken(cluster, alike(2, one_numa_node=True)) == ["3", "4"]


def test_why_it_does_not_fit_is_said_only_where_that_is_why() -> None:
    cluster = a_cluster("ab")
    assert cluster.why(a_shape(alike(2))) == {"too few GPUs of one model": 1}
    assert cluster.explain(a_shape(alike(2))) == [
        Shortfall(reason="too few GPUs of one model", resource="gpu", asked=2, free=1, unit="count")
    ]
    cluster.hold("n1", "n1-0")
    assert cluster.why(a_shape(alike(2))) == {"Insufficient GPU": 1}
    assert cluster.explain(a_shape(whole(2)))[0].reason == "Insufficient GPU"


def test_a_single_card_is_of_one_model_anyway() -> None:
    cluster = a_cluster("ab")
    cluster.hold("n1", "n1-0", 900)
    assert taken(cluster, a_claim(500, one_model=True)) == ["1"]


@examples(150)
@given(
    cards=st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from([0, 1])), min_size=1, max_size=8
    ),
    held=st.sets(st.integers(0, 7)),
    count=st.integers(2, 4),
    order=st.permutations("abc"),
    near=st.booleans(),
)
def test_the_best_model_with_enough_is_taken_and_missing_only_if_there_is_none(
    cards: list[tuple[str, int]], held: set[int], count: int, order: list[str], near: bool
) -> None:
    cluster = a_cluster("".join(model for model, _ in cards), "".join(str(n) for _, n in cards))
    for at in held & {*range(len(cards))}:
        cluster.hold("n1", f"n1-{at}", 1000)
    wish = PreferredModels(tiers=tuple((model,) for model in order))
    found = [int(card) for card in taken(cluster, alike(count, preferred=wish, one_numa_node=near))]
    idle = [cards[at] for at in range(len(cards)) if at not in held]
    groups = [
        [card for card in idle if card[0] == model and (not near or card[1] == numa)]
        for model in order
        for numa in ((0, 1) if near else (0,))
    ]
    enough = [group[0] for group in groups if len(group) >= count]
    assert bool(found) == bool(enough)
    if enough:
        assert {cards[at][0] for at in found} == {enough[0][0]}
        assert not {*found} & held
        assert not near or len({cards[at][1] for at in found}) == 1
