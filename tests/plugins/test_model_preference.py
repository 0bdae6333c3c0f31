"""Cards of the models that a pod would rather have."""

from hypothesis import given
from hypothesis import strategies as st

from kubeshare_plugins import IN_TREE
from kubeshare_plugins.bin_pack import BinPack
from kubeshare_plugins.gpu_fit import GpuFit
from kubeshare_plugins.gpu_model import GpuModel
from kubeshare_plugins.model_preference import ModelPreference
from kubeshare_plugins.topology import Topology
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.domain.gpu import PreferredModels
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.testing import SmallCluster
from tests.making import a_claim, a_gpu, a_shape, whole
from tests.scale import examples


def order(*tiers: str, denied: tuple[str, ...] = ()) -> PreferredModels:
    return PreferredModels(tiers=tuple(tuple(tier.split(",")) for tier in tiers), denied=denied)


def a_cluster(**models: str) -> SmallCluster:
    """Nodes with cards <node>-0, <node>-1 … of models by letter, under the default profile."""
    cluster = SmallCluster()
    (profile,) = profiles(read(None), IN_TREE)
    cluster.evaluator = Evaluator(profile, cluster.ledger)
    for node, letters in models.items():
        cards = [a_gpu(f"{node}-{at}", index=at, model=letter) for at, letter in enumerate(letters)]
        cluster.node(node, *cards)
    return cluster


def taken(cluster: SmallCluster, claim: GpuClaim) -> list[str]:
    best = cluster.best(a_shape(claim, cpu=0))
    return [] if best is None else best[1]


def share(wish: PreferredModels, milli: int = 400) -> GpuClaim:
    return a_claim(milli, preferred=wish)


def test_the_first_choice_is_taken_before_a_fuller_card() -> None:
    cluster = a_cluster(n1="a", n2="b", n3="c")
    cluster.hold("n1", "n1-0", 500)
    assert taken(cluster, share(order("c", "b", "a"))) == ["n3-0"]
    assert taken(cluster, share(order("b", "*"))) == ["n2-0"]
    assert taken(cluster, share(order("c", "b", "a", denied=("c",)))) == ["n2-0"]
    assert taken(cluster, a_claim(400)) == ["n1-0"]


def test_when_the_first_choice_is_full_the_next_one_is_taken() -> None:
    cluster = a_cluster(n1="a", n2="b", n3="c")
    cluster.hold("n3", "n3-0", 700)
    wish = order("c", "b", "a")
    assert taken(cluster, share(wish)) == ["n2-0"]
    cluster.hold("n2", "n2-0", 700)
    assert taken(cluster, share(wish)) == ["n1-0"]
    assert taken(cluster, share(order("c", "b"))) == []


def test_among_equally_good_ones_the_fuller_is_taken() -> None:
    cluster = a_cluster(n1="ca", n2="bb")
    cluster.hold("n2", "n2-1", 300)
    assert taken(cluster, share(order("a,b", "c"))) == ["n2-1"]


def test_within_a_node_the_better_card_is_taken_even_if_it_is_idle() -> None:
    cluster = a_cluster(n1="aab")
    cluster.hold("n1", "n1-1", 500)
    assert taken(cluster, share(order("b", "a"))) == ["n1-2"]
    assert taken(cluster, share(order("a", "b"))) == ["n1-1"]


def test_several_cards_go_where_the_worst_of_them_is_best() -> None:
    cluster = a_cluster(n1="abbb", n2="bb", n3="cc")
    assert taken(cluster, whole(2, preferred=order("a", "c", "b"))) == ["n3-0", "n3-1"]
    assert taken(cluster, whole(2, preferred=order("a", "b", "c")))[0] in ("n1-1", "n2-0")


def test_several_cards_are_of_one_model_where_there_are_enough_of_it() -> None:
    assert taken(a_cluster(n1="abab"), whole(2)) == ["n1-0", "n1-2"]
    assert taken(a_cluster(n1="aabbb"), whole(3)) == ["n1-2", "n1-3", "n1-4"]
    assert len(taken(a_cluster(n1="aabb"), whole(3))) == 3


def test_of_mixed_models_the_better_ones_are_among_those_taken() -> None:
    cluster = a_cluster(n1="abcab")
    assert taken(cluster, whole(3, preferred=order("b", "a", "c"))) == ["n1-0", "n1-1", "n1-4"]


def test_cards_of_one_model_are_left_to_their_links() -> None:
    cluster = SmallCluster(GpuFit(), GpuModel(), ModelPreference(), BinPack(), Topology())
    letters = "abab"
    cluster.node("n1", *(a_gpu(f"n1-{at}", index=at, model=m) for at, m in enumerate(letters)))
    assert taken(cluster, whole(2, preferred=order("b", "a"))) == ["n1-1", "n1-3"]


def test_who_prefers_nothing_is_not_asked() -> None:
    plugin = ModelPreference()
    for shape in (a_shape(), a_shape(a_claim()), a_shape(a_claim(preferred=order("a,b")))):
        assert plugin.score(shape) is None
        assert plugin.card_score(shape) is None


def test_a_model_that_is_seen_later_counts() -> None:
    cluster = a_cluster(n1="b")
    wish = order("a", "b")
    assert taken(cluster, share(wish)) == ["n1-0"]
    cluster.node("n2", a_gpu("n2-0", model="a"))
    assert taken(cluster, share(wish)) == ["n2-0"]


CARDS = st.lists(st.sampled_from("abcd"), min_size=1, max_size=6).map("".join)


def tier_of(model: str, tiers: list[str], denied: str) -> int | None:
    """The plain way."""
    if model == denied:
        return None
    return next((n for n, tier in enumerate(tiers) if model in tier.split(",")), None)


@examples(200)
@given(
    nodes=st.lists(CARDS, min_size=1, max_size=4),
    held=st.sets(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=8),
    tiers=st.permutations("abcd").flatmap(
        lambda letters: st.sampled_from(
            [[*letters], [*letters[:2]], [f"{letters[0]},{letters[1]}", letters[2]], [letters[0]]]
        )
    ),
    denied=st.sampled_from("abcdx"),
    count=st.integers(1, 3),
)
def test_the_choice_is_never_refused_by_the_pod_and_none_is_better(
    nodes: list[str],
    held: set[tuple[int, int]],
    tiers: list[str],
    denied: str,
    count: int,
) -> None:
    cluster = a_cluster(**{f"n{number}": letters for number, letters in enumerate(nodes)})
    free: dict[str, list[tuple[str, str]]] = {}
    for number, letters in enumerate(nodes):
        for at, letter in enumerate(letters):
            if (number, at) in held:
                cluster.hold(f"n{number}", f"n{number}-{at}", 1000)
            else:
                free.setdefault(f"n{number}", []).append((f"n{number}-{at}", letter))
    model_of = {card: letter for cards in free.values() for card, letter in cards}
    wish = order(*tiers, denied=(denied,))
    claim = whole(count, preferred=wish) if count > 1 else share(wish)
    chosen = taken(cluster, claim)
    worst = [
        sorted(tier for _, letter in cards if (tier := tier_of(letter, tiers, denied)) is not None)
        for cards in free.values()
    ]
    possible = [found[count - 1] for found in worst if len(found) >= count]
    assert bool(chosen) == bool(possible)
    if chosen:
        got = [tier_of(model_of[card], tiers, denied) for card in chosen]
        assert len({*chosen}) == count
        assert None not in got
        assert max(tier for tier in got if tier is not None) == min(possible)


def score_of(shape: Shape, **models: str) -> dict[str, int]:
    cluster = SmallCluster(ModelPreference())
    for node, letters in models.items():
        cards = (a_gpu(f"{node}-{at}", index=at, model=m) for at, m in enumerate(letters))
        cluster.node(node, *cards)
    return cluster.scores(shape)


def test_scores_are_absolute() -> None:
    shape = a_shape(share(order("a", "b", "c")))
    assert score_of(shape, n1="a", n2="b", n3="c", n4="d", n5="cb") == {
        "n1": 100,
        "n2": 50,
        "n3": 0,
        "n4": 0,
        "n5": 50,
    }
    two = a_shape(whole(2, preferred=order("a", "b", "c")))
    scores = score_of(two, n1="ab", n2="aacc", n3="acc", n4="a")
    assert scores == {"n1": 50, "n2": 100, "n3": 0, "n4": 0}
    alike = a_shape(whole(2, preferred=order("a", "b", "c"), one_model=True))
    assert score_of(alike, n1="abcc", n2="abb") == {"n1": 0, "n2": 50}
