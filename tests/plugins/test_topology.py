"""Which node and which of its cards, by how they are joined."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_plugins.bin_pack import BinPack
from kubeshare_plugins.gpu_fit import GpuFit
from kubeshare_plugins.gpu_model import GpuModel
from kubeshare_plugins.least_tenants import LeastTenants
from kubeshare_plugins.spread import Spread
from kubeshare_plugins.topology import Topology
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, PodUid
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.domain.values import replace
from kubeshare_py.testing import SmallCluster
from tests.making import MODEL, a_claim, a_gpu, a_shape, whole
from tests.scale import examples
from tests.topology import plain
from tests.topology.boards import BOARDS, board, described


def named(node: str, cards: tuple[Gpu, ...], seed: int = 0) -> tuple[Gpu, ...]:
    """The cards with uuids whose order says nothing of where they are: <node>-<letter><index>."""
    letters = [chr(ord("a") + at) for at in range(len(cards))]
    Random(seed).shuffle(letters)
    return tuple(
        replace(card, uuid=GpuUuid(f"{node}-{letter}{card.index}"))
        for letter, card in zip(letters, cards, strict=True)
    )


def indexes(uuids: list[str]) -> tuple[int, ...]:
    return tuple(int(uuid.rpartition("-")[2][1:]) for uuid in uuids)


class Cluster(SmallCluster):
    """Nodes with boards, whose cards are known by index."""

    def board(self, node: str, name: str, seed: int = 0) -> None:
        self.boarded(node, named(node, BOARDS[name], seed))

    def boarded(self, node: str, cards: tuple[Gpu, ...]) -> None:
        self.node(node, *cards)
        self.uuids = {**getattr(self, "uuids", {}), **{(node, c.index): c.uuid for c in cards}}

    def use(self, node: str, *cards: int, milli: int = 500) -> list[PodUid]:
        return [self.hold(node, self.uuids[node, index], milli, memory=0) for index in cards]

    def chosen(self, claim: GpuClaim) -> tuple[str, tuple[int, ...]] | None:
        best = self.best(a_shape(claim, cpu=0))
        return None if best is None else (best[0], indexes(best[1]))


def a_cluster(**boards: str) -> Cluster:
    # The weight that it has in the default profile.
    cluster = Cluster(GpuFit(), GpuModel(), BinPack(), Topology(), weights={"Topology": 10})
    for seed, (node, name) in enumerate(boards.items()):
        cluster.board(node, name, seed)
    return cluster


def test_four_cards_are_a_quad() -> None:
    cluster = a_cluster(n="dgx-1v")
    assert cluster.chosen(whole(4)) == ("n", (0, 1, 2, 3))
    cluster.use("n", 2)
    assert cluster.chosen(whole(4)) == ("n", (4, 5, 6, 7))


def test_cards_are_named_in_the_order_of_the_board() -> None:
    for seed in range(9):
        cluster = Cluster(GpuFit(), Topology())
        cluster.board("n", "dgx-1v", seed)
        assert cluster.chosen(whole(3)) == ("n", (0, 2, 3))


def test_shares_fill_cards_in_use_before_they_break_an_idle_one() -> None:
    cluster = a_cluster(n="dgx-1v")
    cluster.use("n", 6, milli=10)
    cluster.use("n", 1, milli=600)
    assert cluster.chosen(a_claim(300)) == ("n", (1,))
    assert cluster.chosen(a_claim(500)) == ("n", (6,))
    # Both quads are broken; of their pairs so are 1-2 and 5-6, and 2 has fewer idle friends.
    idle = plain.first_for_shares(board("dgx-1v").bandwidth, [0, 2, 3, 4, 5, 7])
    assert cluster.chosen(a_claim(1000)) == ("n", (idle[0],))
    assert idle[0] in (2, 5)


def test_a_card_whose_pods_hold_nothing_of_it_is_in_use() -> None:
    cluster = a_cluster(n="pcie")
    cluster.use("n", 5, milli=0)
    assert cluster.chosen(a_claim(1000)) == ("n", (5,))


def test_among_cards_in_use_another_policy_decides() -> None:
    cluster = Cluster(GpuFit(), Spread(), Topology())
    cluster.board("n", "pcie")
    cluster.use("n", *range(7), milli=900)
    cluster.use("n", 7, milli=100)
    assert cluster.chosen(a_claim(50)) == ("n", (7,))


def test_shares_of_several_cards_break_islands_in_order_too() -> None:
    cluster = a_cluster(n="pcie")
    cluster.use("n", 2, 5, milli=1000)
    assert cluster.chosen(a_claim(500, count=2)) == ("n", (3, 4))


def test_a_single_card_for_one_pod_alone_is_one_of_a_broken_island() -> None:
    cluster = a_cluster(n="bridges")
    cluster.use("n", 3, milli=1000)
    assert cluster.chosen(whole(1)) == ("n", (2,))


def test_the_node_where_cards_are_well_joined_is_preferred_to_a_fuller_one() -> None:
    cluster = a_cluster(fuller="dgx-1v", emptier="dgx-1v")
    cluster.use("fuller", 0, 1, 6, milli=1000)
    # 2, 3, 4, 5, 7 are left of the fuller one, with no ring of four on NVLink.
    assert cluster.chosen(whole(4)) == ("emptier", (0, 1, 2, 3))
    assert cluster.chosen(whole(2)) == ("fuller", (2, 3))


def test_of_equally_fast_nodes_the_one_with_a_broken_island_is_preferred() -> None:
    cluster = Cluster(GpuFit(), Topology())
    cluster.board("whole", "hgx-h100")
    cluster.board("broken", "hgx-h100")
    cluster.use("broken", 4)
    assert cluster.chosen(whole(2)) == ("broken", (0, 1))
    assert cluster.chosen(whole(8)) == ("whole", tuple(range(8)))


def test_an_island_counts_more_than_how_full_nodes_are() -> None:
    cluster = a_cluster(fuller="dgx-1v", emptier="dgx-1v")
    cluster.use("fuller", 4, 5, 6, 7, milli=1000)
    cluster.use("emptier", 0, milli=1000)
    # Two or three of 1, 2, 3 are as fast as those of the other node's whole quad.
    assert cluster.chosen(whole(2)) == ("emptier", (1, 2))
    assert cluster.chosen(whole(3)) == ("emptier", (1, 2, 3))


@pytest.mark.parametrize(("policy", "milli"), [(Spread(), 1), (LeastTenants(), 500)])
def test_its_order_changes_no_other_policy_by_a_single_point(policy: object, milli: int) -> None:
    for seed in range(9):
        cluster = Cluster(GpuFit(), policy, Topology())
        cluster.board("n", "dgx-1v", seed)
        cluster.use("n", 6, milli=milli)
        # An idle card of the island that is broken.
        assert cluster.chosen(a_claim(100)) == ("n", (5,))


def test_points_are_for_speed_and_islands() -> None:
    cluster = Cluster(GpuFit(), Topology())
    for node, name in (
        ("nvlink", "hgx-h100"),
        ("pcie", "pcie"),
        ("one", "single"),
        ("x", "untold"),
    ):
        cluster.board(node, name)
    cluster.node("none")
    scores = cluster.scores(a_shape(whole(2)))
    # 60 if as fast as its board can be, 2 for each doubling of GB/s, 20 if no island is broken.
    assert scores == {
        "nvlink": 60 + 20 + 2,
        "pcie": 60 + 12 + 2,
        "one": 0,
        "x": 0 + 0 + 3,
        "none": 0,
    }


def test_a_large_board_gets_points_for_its_speed_alone() -> None:
    cluster = Cluster(GpuFit(), Topology())
    places = " ".join(["0.0.0.0"] * 8 + ["1.0.0.0"] * 8)
    cluster.boarded("n", named("n", described(places, {"to_switch": 6})))
    assert cluster.scores(a_shape(whole(2))) == {"n": 60 + 18}
    assert cluster.chosen(whole(10)) == ("n", tuple(range(10)))


def test_only_cards_of_the_model_are_taken_together() -> None:
    cluster = a_cluster()
    cards = named("n", BOARDS["pcie"])
    mixed = tuple(replace(c, model="T4" if c.index in (0, 2, 5) else MODEL) for c in cards)
    cluster.boarded("n", mixed)
    assert cluster.chosen(whole(2, models=("T4",))) == ("n", (0, 2))
    assert cluster.chosen(whole(2, models=(MODEL,))) == ("n", (6, 7))
    assert cluster.chosen(whole(4, models=("T4",))) is None


def test_unhealthy_cards_and_cards_that_are_gone_are_not_taken() -> None:
    cluster = a_cluster()
    cards = named("n", BOARDS["dgx-1v"])
    cluster.boarded("n", tuple(replace(c, healthy=c.index != 3) for c in cards))
    assert cluster.chosen(whole(4)) == ("n", (4, 5, 6, 7))
    cluster.use("n", 5)
    cluster.boarded("n", tuple(card for card in cards if card.index != 5))
    assert cluster.chosen(whole(4)) == ("n", (0, 1, 2, 3))


def test_a_board_of_too_many_cards_gives_the_first() -> None:
    cluster = Cluster(GpuFit(), Topology())
    cluster.node("n", *(a_gpu(f"n-{at:02}", index=at) for at in range(70)))
    best = cluster.best(a_shape(whole(2)))
    assert best == ("n", ["n-00", "n-01"])
    assert cluster.best(a_shape(a_claim(100))) == ("n", ["n-00"])


def test_pods_without_a_claim_are_nobody_of_its_business() -> None:
    assert Topology().score(a_shape()) is None
    assert Topology().score(a_shape(a_claim())) is None


#: A claim, or giving back what the n-th pod holds.
CLAIMS = [whole(2), whole(3), whole(4), whole(1), a_claim(300), a_claim(700), a_claim(1000)]
STEPS = st.lists(st.one_of(st.sampled_from(CLAIMS), st.integers(0, 9)), min_size=1, max_size=25)


class Books:
    """What is held of each card of one node, by index."""

    def __init__(self, count: int) -> None:
        self.used = dict.fromkeys(range(count), 0)
        self.alone: set[int] = set()
        self.held: list[tuple[PodUid, GpuClaim, tuple[int, ...]]] = []

    @property
    def idle(self) -> list[int]:
        busy = {card for _, _, cards in self.held for card in cards}
        return [card for card in self.used if card not in busy]

    def wanted(self, matrix: plain.Matrix, claim: GpuClaim) -> set[int]:
        """What should be chosen; empty for nothing."""
        if claim.exclusive and claim.count > 1:
            return set(plain.best(matrix, self.idle, claim.count))
        shared = [
            card
            for card in self.used
            if card not in self.idle
            and card not in self.alone
            and self.used[card] + claim.milli <= 1000
        ]
        if shared and not claim.exclusive:
            most = max(self.used[card] for card in shared)
            return {card for card in shared if self.used[card] == most}
        return {*plain.first_for_shares(matrix, self.idle)[:1]}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*BOARDS} - {"single"}))
@examples(25)
@given(steps=STEPS, seed=st.integers(0, 9))
def test_any_history_takes_what_the_plain_way_takes(
    name: str, steps: list[GpuClaim | int], seed: int
) -> None:
    cluster = Cluster(GpuFit(), BinPack(), Topology())
    cluster.board("n", name, seed)
    matrix, books = board(name).bandwidth, Books(len(BOARDS[name]))
    for step in steps:
        if isinstance(step, int):
            if books.held:
                uid, claim, cards = books.held.pop(step % len(books.held))
                cluster.ledger.release(uid)
                for card in cards:
                    books.used[card] -= claim.milli
                books.alone -= {*cards} if claim.exclusive else set()
            continue
        wanted, found = books.wanted(matrix, step), cluster.chosen(step)
        assert (found is None) == (not wanted)
        if found is None:
            continue
        taken = found[1]
        if step.count > 1 or step.exclusive:
            assert set(taken) == wanted
        else:
            assert set(taken) <= wanted
        uid = hold(cluster, step, taken)
        books.held.append((uid, step, taken))
        books.alone |= {*taken} if step.exclusive else set()
        for card in taken:
            books.used[card] += step.milli
            assert books.used[card] <= 1000


def hold(cluster: Cluster, claim: GpuClaim, cards: tuple[int, ...]) -> PodUid:
    """A pod holds these cards of node n."""
    uuids = [str(cluster.uuids["n", card]) for card in cards]
    return cluster.hold_all("n", uuids, claim.milli, exclusive=claim.exclusive)
