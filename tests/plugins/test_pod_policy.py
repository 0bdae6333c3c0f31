"""Nodes and cards in the order that the pod wishes, by HAMi's formulas."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random as Dice
from typing import Any

import pytest

from kubeshare_plugins.bin_pack import BinPack
from kubeshare_plugins.gpu_fit import GpuFit
from kubeshare_plugins.kubeshare_guarantee import KubeShareGuarantee
from kubeshare_plugins.kubeshare_opportunistic import KubeShareOpportunistic
from kubeshare_plugins.least_tenants import LeastTenants
from kubeshare_plugins.numa_binding import NumaBinding
from kubeshare_plugins.pod_policy import IN_USE, NO_SHARE_LEFT, PodPolicy
from kubeshare_plugins.random_choice import Random
from kubeshare_plugins.spread import Spread
from kubeshare_plugins.topology import Topology
from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.gpu import Gpu, PeerLink
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.request import Order, PlacementPolicy
from kubeshare_py.domain.values import replace
from kubeshare_py.testing import SmallCluster
from tests.making import a_claim, a_gpu, a_shape, whole
from tests.scale import seeds

MIB = 2**20
BINPACK = (Order.FULLEST, Order.HIGH_NUMA)
SPREAD = (Order.EMPTIEST, Order.HIGH_NUMA)


def a_pod(
    cores: int = 20, mib: int = 1000, *, count: int = 1, numa: bool = False, **policy: Any
) -> Shape:
    """A pod with so many hundredths and MiB of each card, and a policy."""
    claim = a_claim(
        cores * 10, memory_bytes=mib * MIB, count=count, one_numa_node=numa and count > 1
    )
    return a_shape(claim, policy=PlacementPolicy(**policy), needs_port=False)


def card(uuid: str, mib: int = 8000, **fields: Any) -> Gpu:
    return a_gpu(uuid, **{"memory_bytes": mib * MIB, "max_tenants": 10, **fields})


def a_cluster() -> SmallCluster:
    return SmallCluster(GpuFit(), NumaBinding(), PodPolicy())


def use(
    cluster: SmallCluster, uuid: str, pods: int, cores: int, mib: int, node: str = "n1"
) -> None:
    """So many pods hold this of a card together."""
    cluster.hold(node, uuid, cores * 10, memory=mib * MIB)
    for _ in range(pods - 1):
        cluster.hold(node, uuid, 0, memory=0)


def taken(cluster: SmallCluster, shape: Shape) -> list[str]:
    found = cluster.best(shape)
    return [] if found is None else found[1]


@pytest.mark.parametrize(
    ("node", "cards", "wanted"),
    [
        (Order.FULLEST, BINPACK, ("node2", ["device4"])),
        (Order.FULLEST, SPREAD, ("node2", ["device3"])),
        (Order.EMPTIEST, BINPACK, ("node1", ["device1"])),
        (Order.EMPTIEST, SPREAD, ("node1", ["device2"])),
    ],
)
def test_the_policy_of_nodes_and_that_of_cards_are_two(
    node: Order, cards: tuple[Order, ...], wanted: tuple[str, list[str]]
) -> None:
    """The fullest node or the emptiest, and of its cards the fullest or the emptiest."""
    cluster = a_cluster()
    cluster.node("node1", card("device1", index=0), card("device2", index=1))
    cluster.node("node2", card("device3", index=0), card("device4", index=1))
    use(cluster, "device1", 1, 25, 2000, "node1")
    use(cluster, "device4", 1, 75, 6000, "node2")
    assert cluster.best(a_pod(node=node, cards=cards)) == wanted
    best = cluster.scores(a_pod(node=node, cards=cards))
    assert best[wanted[0]] == 100
    assert min(best.values()) == 0


@pytest.mark.parametrize(
    ("weights", "wanted"), [((1, 1, 1), "a"), ((1, 1, 3), "b"), ((1, 3, 1), "a"), ((1, 0, 0), "b")]
)
def test_weights_change_which_card_is_the_fullest(
    weights: tuple[int, int, int], wanted: str
) -> None:
    """One pod, 90 cores and 10 of memory, or seven, 10 and 20: 16 to 15 if all weigh the same."""
    cluster = a_cluster()
    cluster.node("n1", card("a", 100, index=0), card("b", 100, index=1))
    use(cluster, "a", 1, 90, 10)
    use(cluster, "b", 7, 10, 20)
    assert taken(cluster, a_pod(1, 1, cards=BINPACK, weights=weights)) == [wanted]


def test_of_equal_cards_the_last_one_is_taken() -> None:
    """HAMi walks its sorted list of cards from the end."""
    cluster = a_cluster()
    cluster.node("n1", card("dev-0", 128, index=0), card("dev-1", 128, index=1))
    assert taken(cluster, a_pod(50, 64)) == ["dev-1"]


@pytest.mark.parametrize("order", [BINPACK, SPREAD])
@pytest.mark.parametrize(("three_pods", "all_parts"), [(0, 1), (1, 0)])
def test_cards_whose_parts_add_up_to_the_same_are_equal(
    order: tuple[Order, ...], three_pods: int, all_parts: int
) -> None:
    """Three tenths of the pods, or one tenth each of pods, cores and memory: NUMA nodes decide."""
    cluster = a_cluster()
    cluster.node("n1", card("a", numa_node=three_pods), card("b", numa_node=all_parts, index=1))
    use(cluster, "a", 3, 0, 0)
    use(cluster, "b", 1, 10, 800)
    assert taken(cluster, a_pod(cards=order)) == ["b" if all_parts else "a"]


@pytest.mark.parametrize("order", [Order.FULLEST, Order.EMPTIEST])
def test_nodes_whose_parts_add_up_to_the_same_are_equal(order: Order) -> None:
    cluster = a_cluster()
    cluster.node("n1", card("a"))
    cluster.node("n2", card("b"))
    use(cluster, "a", 3, 0, 0)
    use(cluster, "b", 1, 10, 800, "n2")
    assert cluster.scores(a_pod(node=order)) == {"n1": 100, "n2": 100}


@pytest.mark.parametrize(
    ("cards", "wanted"),
    [
        (BINPACK, ["d", "b"]),
        (SPREAD, ["c", "a"]),
        ((Order.HIGH_NUMA, Order.FULLEST), ["d", "c"]),
        ((Order.LOW_NUMA, Order.FULLEST), ["b", "a"]),
        ((Order.HIGH_NUMA,), ["d", "c"]),
    ],
)
def test_numa_nodes_decide_where_the_policy_names_them(
    cards: tuple[Order, ...], wanted: list[str]
) -> None:
    """Of cards that are equal otherwise, the one of the higher NUMA node is taken."""
    cluster = a_cluster()
    cluster.node("n1", *(card(name, index=at, numa_node=at // 2) for at, name in enumerate("abcd")))
    use(cluster, "b", 1, 30, 1000)
    use(cluster, "d", 1, 30, 1000)
    assert taken(cluster, a_pod(count=2, cards=cards)) == wanted


def test_a_card_without_a_numa_node_comes_last() -> None:
    cluster = a_cluster()
    cluster.node("n1", card("a", index=0), card("b", index=1, numa_node=0))
    for order in (Order.HIGH_NUMA, Order.LOW_NUMA):
        assert taken(cluster, a_pod(cards=(order,))) == ["b"]


def test_a_pod_that_wants_idle_cards_gets_no_other_and_may_be_joined_later() -> None:
    """HAMi's policy `mutex` refuses a card that has any pod."""
    cluster = a_cluster()
    cluster.node("n1", card("a"))
    mutex = a_pod(idle=True)
    assert taken(cluster, mutex) == ["a"]
    use(cluster, "a", 1, 20, 1000)
    assert cluster.why(mutex) == {IN_USE: 1}
    assert Shortfall(reason=IN_USE, subject="a") in cluster.explain(mutex)
    assert taken(cluster, a_pod()) == ["a"]


def test_a_share_of_nothing_needs_a_card_with_some_share_left() -> None:
    """A pod without cores fits while one core of 100 is free, and not on a card that has none."""
    cluster = a_cluster()
    cluster.node("n1", card("a"))
    use(cluster, "a", 1, 99, 1000)
    assert taken(cluster, a_pod(0)) == ["a"]
    use(cluster, "a", 1, 1, 1000)
    assert cluster.why(a_pod(0)) == {NO_SHARE_LEFT: 1}
    assert Shortfall(reason=NO_SHARE_LEFT, subject="a") in cluster.explain(a_pod(0))
    assert taken(cluster, a_shape(a_claim(0, memory_bytes=1), needs_port=False)) == ["a"]


def test_a_card_with_too_little_memory_says_how_much_is_asked_for_and_free() -> None:
    """512 MiB do not fit on a card of 128 MiB."""
    cluster = a_cluster()
    cluster.node("n1", card("a", 128))
    assert cluster.why(a_pod(1, 512)) == {"Insufficient GPU memory": 1}
    (found,) = cluster.explain(a_pod(1, 512))
    assert (found.asked, found.free) == (512 * MIB, 128 * MIB)


def test_of_an_unhealthy_card_that_is_the_first_reason() -> None:
    """HAMi counts it for that alone."""
    cluster = a_cluster()
    cluster.node("n1", card("a", 128, healthy=False, max_tenants=1))
    use(cluster, "a", 1, 0, 128)
    reasons = [one.reason for one in cluster.explain(a_pod(1, 512))]
    assert reasons[0] == "unhealthy GPU"
    assert "Too many pods on GPU" in reasons[1:]


def test_a_card_takes_as_many_pods_as_it_was_split_for() -> None:
    """With all places of a card used, its free memory and cores are of no use."""
    cluster = a_cluster()
    cluster.node("n1", card("a", max_tenants=3))
    use(cluster, "a", 3, 0, 0)
    assert cluster.why(a_pod()) == {"Too many pods on GPU": 1}


def test_all_cores_are_for_one_pod_whatever_the_cores_are_scaled_to() -> None:
    """HAMi gives such a card to two pods if cores are scaled."""
    cluster = a_cluster()
    cluster.node("n1", card("a", cores_scaling=2000))
    alone = a_shape(whole(1, memory_bytes=MIB), policy=PlacementPolicy())
    assert taken(cluster, alone) == ["a"]
    use(cluster, "a", 20, 0, 0)
    assert taken(cluster, alone) == []


def test_more_cards_than_the_node_has_never_fit() -> None:
    """One container never gets the same card twice, however many places are free on it."""
    cluster = a_cluster()
    cluster.node("n1", card("a"))
    assert taken(cluster, a_pod(count=2)) == []


def joined_cards(speeds: dict[tuple[int, int], int], count: int, **fields: list[int]) -> list[Gpu]:
    """Cards a, b, c… of which each pair is joined by 1 GB/s, or as `speeds` says."""
    return [
        card(
            "abcdefgh"[at],
            index=at,
            links=tuple(
                PeerLink(peer, "NV1", speeds.get((min(at, peer), max(at, peer)), 1000))
                for peer in range(count)
                if peer != at
            ),
            **{name: values[at] for name, values in fields.items()},
        )
        for at in range(count)
    ]


def test_several_cards_are_those_that_are_joined_best() -> None:
    """The highest sum over all pairs wins: (a, f) and (c, f) are fast, all others slow."""
    cluster = a_cluster()
    cluster.node("n1", *joined_cards({(0, 5): 100_000, (2, 5): 100_000}, 6))
    assert sorted(taken(cluster, a_pod(count=3, joined=True))) == ["a", "c", "f"]
    assert len(taken(cluster, a_pod(count=6, joined=True))) == 6


def test_one_card_is_the_one_that_others_miss_least() -> None:
    """It has the lowest sum of links to the others, and leaves them well joined sets."""
    cluster = a_cluster()
    cluster.node("n1", *joined_cards({(0, 1): 9000, (1, 2): 9000, (0, 2): 9000, (2, 3): 5000}, 4))
    assert taken(cluster, a_pod(joined=True)) == ["d"]
    use(cluster, "d", 10, 0, 0)
    assert taken(cluster, a_pod(joined=True)) == ["c"]


def test_joined_cards_of_one_numa_node_are_searched_on_each_of_them() -> None:
    """HAMi looks at the lowest NUMA node alone, and finds none."""
    cluster = a_cluster()
    cluster.node("n1", *joined_cards({}, 3, numa_node=[0, 1, 1]))
    assert sorted(taken(cluster, a_pod(count=2, numa=True, joined=True))) == ["b", "c"]


def test_where_links_are_unknown_the_first_cards_by_rank_are_taken() -> None:
    """All pairs are alike then, and the first set wins, in the order from the last card."""
    cluster = a_cluster()
    cluster.node("n1", *(card(name, index=at) for at, name in enumerate("abc")))
    assert taken(cluster, a_pod(count=2, joined=True)) == ["c", "b"]
    assert taken(cluster, a_pod(joined=True)) == ["c"]


def test_of_very_many_sets_the_boards_own_search_finds_a_good_one() -> None:
    cluster = a_cluster()
    cluster.node("n1", *(card(f"c{at:02}", index=at) for at in range(40)))
    found = taken(cluster, a_pod(count=20, joined=True))
    assert len({*found}) == 20


def test_profiles_policies_have_no_say_about_such_pods_and_it_has_none_about_others() -> None:
    mine, other = a_pod(), a_shape(a_claim())
    several = a_shape(whole(2), policy=PlacementPolicy())
    policies = (
        BinPack(), Spread(), LeastTenants(), Random(), Topology(),
        KubeShareGuarantee(), KubeShareOpportunistic(),
    )  # fmt: skip
    for policy in policies:
        for shape in (mine, several):
            assert policy.score(shape) is None
            assert policy.card_score(shape) is None
    assert PodPolicy().score(other) is None
    assert PodPolicy().card_score(other) is None


@pytest.mark.parametrize("wrong", [{"node": Order.HIGH_NUMA}, {"weights": (0, 0, 0)},
                                   {"weights": (1, -1, 1)}])  # fmt: skip
def test_a_policy_that_cannot_be_meant_is_refused(wrong: dict[str, Any]) -> None:
    [name] = wrong
    with pytest.raises(ValueError, match=f"^{name}"):
        PlacementPolicy(**wrong)


@dataclass
class HamiCard:
    """A card as HAMi's scheduler counts it, in this test's own books."""

    uuid: str
    mib: int
    numa: int
    used: int = 0
    cores: int = 0
    used_mib: int = 0

    @property
    def score(self) -> Fraction:
        """Uses of slots, cores and memory, weighed equally; HAMi does not add what is asked for.

        The sum is exact. HAMi adds in float32, whose last bits decide between a few equal cards.
        """
        return (
            Fraction(self.used, 10) + Fraction(self.cores, 100) + Fraction(self.used_mib, self.mib)
        )

    def fits(self, cores: int, mib: int) -> bool:
        free_cores, free_mib = 100 - self.cores, self.mib - self.used_mib
        return self.used < 10 and free_mib >= mib and free_cores >= max(cores, 1)


def hami_places(
    cards: Sequence[HamiCard], asked: Sequence[tuple[int, int, int]], order: Order
) -> list[str] | None:
    """The cards of the containers, one after the other; None if one has none.

    Containers ask for a count of cards, cores and MiB of each. Of equal cards the last one is
    taken.
    """
    cards, found = [replace(one) for one in cards], []
    sign = 1 if order is Order.FULLEST else -1
    for count, cores, mib in asked:
        walk = sorted(cards, key=lambda one: (sign * one.score, one.numa))[::-1]
        chosen = [one for one in walk if one.fits(cores, mib)][:count]
        if len(chosen) < count:
            return None
        for one in chosen:
            one.used, one.cores, one.used_mib = one.used + 1, one.cores + cores, one.used_mib + mib
        found += [one.uuid for one in chosen]
    return found


@pytest.mark.parametrize("seed", seeds(400))
def test_containers_of_one_pod_get_the_cards_that_hami_gives_them(seed: int) -> None:
    """Each container after the one before it, whose part counts as taken."""
    random = Dice(seed)
    cards = [
        HamiCard(f"c{at}", random.choice([8000, 16000]), random.choice([0, 0, 1]))
        for at in range(random.randint(1, 5))
    ]
    cluster = a_cluster()
    cluster.node(
        "n1",
        *(card(one.uuid, one.mib, index=at, numa_node=one.numa) for at, one in enumerate(cards)),
    )
    for one in cards:
        if random.random() < 0.5:
            pods, cores, mib = random.randint(1, 4), random.randrange(0, 90, 10), 500
            one.used, one.cores, one.used_mib = pods, cores, mib
            use(cluster, one.uuid, pods, cores, mib)
    asked = [
        (random.choice([1, 1, 1, 2]), random.randrange(0, 60, 10), random.randrange(500, 8500, 500))
        for _ in range(random.randint(2, 4))
    ]
    order = random.choice([Order.FULLEST, Order.EMPTIEST])
    claims = [
        a_claim(cores * 10, memory_bytes=mib * MIB, count=count) for count, cores, mib in asked
    ]
    policy = PlacementPolicy(cards=(order, Order.HIGH_NUMA))
    theirs, ours = (
        hami_places(cards, asked, order),
        taken(cluster, a_shape(*claims, policy=policy, needs_port=False)),
    )
    assert theirs is None or ours == theirs
