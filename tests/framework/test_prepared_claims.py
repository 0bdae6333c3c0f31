"""Several claims of one pod, against a search of all placements with books of its own."""

from collections import Counter
from collections.abc import Iterator
from itertools import combinations, product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubeshare_plugins.bin_pack import BinPack
from kubeshare_plugins.gpu_fit import GpuFit
from kubeshare_plugins.gpu_uuids import GpuUuids
from kubeshare_plugins.topology import Topology
from kubeshare_py.cluster.columns import ABSENT
from kubeshare_py.cluster.rows import AllRows
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.request import CardRelation, GpuClaim
from kubeshare_py.domain.values import replace
from kubeshare_py.framework import joint_layout
from kubeshare_py.framework.joint_layout import claim_layout
from kubeshare_py.framework.prepared_claims import NOT_TOGETHER
from kubeshare_py.testing import SmallCluster
from tests.making import GIB, a_claim, a_shape, whole
from tests.plugins.random_clusters import CARDS, CHARGES, CLAIMS, Nodes, random_cluster
from tests.scale import examples

NODES = st.lists(
    st.tuples(st.lists(CARDS, max_size=4), st.lists(CHARGES, max_size=4)), min_size=1, max_size=4
)
RELATIONS = st.sampled_from(CardRelation)


def denying(claim: GpuClaim, slots: set[int]) -> GpuClaim:
    """The claim, which takes no card in these slots of any node."""
    names = (f"n{node}-{slot}" for node in range(4) for slot in slots)
    return replace(claim, denied_uuids=tuple(sorted(GpuUuid(name) for name in names)))


#: Claims of which some take cards that others deny.
SEVERAL = st.lists(
    st.one_of(CLAIMS, st.builds(denying, CLAIMS, st.sets(st.integers(0, 3), max_size=3))),
    min_size=2,
    max_size=4,
)


def several(*claims: GpuClaim, relation: CardRelation = CardRelation.FREE) -> Shape:
    return a_shape(*claims, relation=relation, needs_port=False)


def fits_alone(cluster: SmallCluster, row: int, slot: int, claim: GpuClaim) -> bool:
    """Whether one card may hold one share of a claim, by what is free of it."""
    columns = cluster.ledger.columns
    if columns.flags.item(row, slot) or columns.uuids[row][slot] in claim.denied_uuids:
        return False
    least, below = claim.card_bytes or (0, 1 << 63)
    if not least <= columns.capacity_bytes.item(row, slot) < below:
        return False
    if claim.exclusive:
        enough = columns.capacity_bytes.item(row, slot) >= (claim.memory_bytes or 0)
        return enough and not columns.tenants.item(row, slot)
    return takes(cluster, row, Counter({slot: 1}), [claim], [(slot,)])


def takes(
    cluster: SmallCluster,
    row: int,
    uses: Counter[int],
    claims: list[GpuClaim],
    places: list[tuple[int, ...]],
) -> bool:
    """Whether all shares together are free."""
    columns = cluster.ledger.columns
    for slot in uses:
        asked = [claim for claim, place in zip(claims, places, strict=True) if slot in place]
        sizes = columns.capacity_bytes.item(row, slot), columns.share_bytes.item(row, slot)
        if any(claim.exclusive for claim in asked):
            if len(asked) > 1:
                return False
            continue
        if sum(claim.milli for claim in asked) > columns.free_milli.item(row, slot):
            return False
        memory = sum(claim.bytes_of(*sizes, "") for claim in asked)
        if memory > columns.free_bytes.item(row, slot):
            return False
    return True


def placements(
    cluster: SmallCluster, row: int, claims: list[GpuClaim], relation: CardRelation
) -> Iterator[list[tuple[int, ...]]]:
    """All ways to give each claim cards of a row."""
    slots = range(len(cluster.ledger.columns.uuids[row]))
    choices = [
        [
            place
            for place in combinations(slots, claim.count)
            if all(fits_alone(cluster, row, slot, claim) for slot in place)
        ]
        for claim in claims
    ]
    for found in product(*choices):
        places = list(found)
        uses = Counter(slot for place in places for slot in place)
        if relation is CardRelation.SAME_CARD and len({*places}) > 1:
            continue
        if relation is CardRelation.DIFFERENT_CARDS and max(uses.values()) > 1:
            continue
        if takes(cluster, row, uses, claims, places):
            yield places


def worth(cluster: SmallCluster, row: int, places: list[tuple[int, ...]]) -> int:
    """BinPack's ranks, summed."""
    headroom = cluster.ledger.columns.headroom
    return sum(1000 - max(headroom.item(row, slot), 0) for place in places for slot in place)


@examples(400)
@example(
    [([(True, 1, 0, (1000, 1000))], [])],
    [GpuClaim(milli=0), GpuClaim(milli=0, card_bytes=(1000, 1001))],
    CardRelation.FREE,
)
@given(NODES, SEVERAL, RELATIONS)
def test_claims_fit_together_exactly_where_some_placement_does(
    nodes: Nodes,
    claims: list[GpuClaim],
    relation: CardRelation,
) -> None:
    if relation is CardRelation.SAME_CARD:
        claims = [replace(one, count=1, exclusive=False) for one in claims]
    cluster = random_cluster(nodes, GpuFit(), GpuUuids(), BinPack())
    shape = several(*claims, relation=relation)
    rows = cluster.ledger.columns.row_of
    possible = {
        str(name): [*placements(cluster, row, claims, relation)] for name, row in rows.items()
    }
    assert cluster.where(shape) == {name for name, found in possible.items() if found}
    choice = cluster.evaluator.best(shape)
    if choice is not None:
        name = str(cluster.ledger.columns.names[choice.row])
        chosen = split(choice.slots, claims)
        assert sorted(chosen) in [sorted(one) for one in possible[name]]
        most = max(worth(cluster, choice.row, one) for one in possible[name])
        assert worth(cluster, choice.row, chosen) == most


def split(slots: tuple[int, ...], claims: list[GpuClaim]) -> list[tuple[int, ...]]:
    found, first = [], 0
    for claim in claims:
        found.append(tuple(sorted(slots[first : first + claim.count])))
        first += claim.count
    assert first == len(slots)
    return found


@examples(100)
@given(NODES, st.lists(st.integers(100, 999), min_size=5, max_size=7))
def test_up_to_seven_shares_of_one_card_each_are_placed_if_any_placement_does(
    nodes: Nodes,
    shares: list[int],
) -> None:
    claims = [GpuClaim(milli=milli) for milli in shares]
    assert claim_layout(claims, CardRelation.FREE).ways
    cluster = random_cluster(nodes, GpuFit(), BinPack())
    names = {
        str(name)
        for name, row in cluster.ledger.columns.row_of.items()
        if next(placements(cluster, row, claims, CardRelation.FREE), None) is not None
    }
    assert cluster.where(several(*claims)) == names


@examples(100)
@given(NODES, st.lists(CLAIMS, min_size=9, max_size=12))
def test_beyond_the_exact_search_no_place_takes_more_than_there_is(
    nodes: Nodes,
    claims: list[GpuClaim],
) -> None:
    claims = [GpuClaim(milli=one.milli // (20 + n)) for n, one in enumerate(claims)]
    cluster = random_cluster(nodes, GpuFit(), BinPack())
    shape = several(*claims)
    assert not claim_layout(claims, CardRelation.FREE).ways or len({*claims}) < 7
    choice = cluster.evaluator.best(shape)
    if choice is not None:
        places = split(choice.slots, claims)
        uses = Counter(slot for place in places for slot in place)
        assert takes(cluster, choice.row, uses, claims, places)
        assert not any(cluster.ledger.columns.flags.item(choice.row, slot) for slot in uses)


def test_two_claims_that_take_one_card_each_and_not_the_same_one_fit_on_both() -> None:
    cluster = SmallCluster(GpuFit(), BinPack())
    cluster.cards("n1", 2)
    cluster.hold("n1", "n1-0", 900, memory=0)
    cluster.hold("n1", "n1-1", 100, memory=39 * GIB)
    share, memory = a_claim(500, memory_bytes=0), a_claim(0, memory_bytes=4 * GIB)
    for relation in (CardRelation.FREE, CardRelation.DIFFERENT_CARDS):
        shape = several(share, memory, relation=relation)
        assert cluster.best(shape) == ("n1", ["n1-1", "n1-0"])
    cluster.hold("n1", "n1-0", 100, memory=39 * GIB)
    assert cluster.best(several(share, memory)) is None


def test_many_rows_are_searched_as_few_are() -> None:
    claims = [a_claim(400), a_claim(300, memory_bytes=7 * GIB), whole(2), a_claim(700)]
    cluster = SmallCluster(GpuFit(), BinPack())
    for number in range(40):
        cluster.cards(f"n{number}", 3 + number % 2)
        cluster.hold(f"n{number}", f"n{number}-0", 25 * number)
    layout = claim_layout(claims, CardRelation.FREE)
    prepared = cluster.evaluator.results.prepared(several(*claims)).claims
    assert prepared is not None
    rows = AllRows(cluster.ledger.columns)
    fits = [one.card_fits(rows) for one in prepared.claims]
    allowed = prepared._allowed(rows, prepared._by_kind(fits), layout.ways)
    together = joint_layout.possible(layout, allowed).tolist()
    assert together == [
        joint_layout.possible(layout, [one[line : line + 1] for one in allowed]).item()
        for line in range(len(together))
    ]
    assert {*together} == {True, False}


def test_many_claims_are_placed_and_the_message_says_that_not_all_ways_are_tried() -> None:
    cluster = SmallCluster(GpuFit(), BinPack())
    cluster.cards("n1", 2)
    small = [a_claim(150 + number) for number in range(9)]
    found = cluster.best(several(*small))
    assert found is not None
    assert {*found[1]} == {"n1-0", "n1-1"}
    large = [a_claim(300 + number) for number in range(9)]
    assert cluster.why(several(*large)) == {
        f"{NOT_TOGETHER} (more than 8 claims: not searched exhaustively)": 1
    }


def test_claims_that_fit_alone_but_not_together_have_a_reason_of_their_own() -> None:
    cluster = SmallCluster(GpuFit(), BinPack())
    cluster.cards("n1", 1)
    assert cluster.best(several(a_claim(500), a_claim(500))) == ("n1", ["n1-0", "n1-0"])
    assert cluster.why(several(a_claim(500), a_claim(501))) == {NOT_TOGETHER: 1}
    assert cluster.why(several(a_claim(500), whole(2))) == {"too few GPUs": 1}
    apart = several(a_claim(500), a_claim(500), relation=CardRelation.DIFFERENT_CARDS)
    assert cluster.why(apart) == {NOT_TOGETHER: 1}


def test_a_claim_of_several_whole_cards_gets_a_set_that_leaves_the_others_a_place() -> None:
    cluster = SmallCluster(GpuFit(), Topology())
    cluster.cards("n1", 4)
    cluster.hold("n1", "n1-3", 600)
    found = cluster.best(several(whole(2), a_claim(900), a_claim(300)))
    assert found is not None
    name, cards = found
    assert name == "n1"
    assert len({*cards[:2]}) == 2
    assert {*cards[:2]} <= {"n1-0", "n1-1", "n1-2"}
    assert cards[2] not in (*cards[:2], "n1-3")


def test_flags_of_the_columns_say_that_a_slot_is_empty() -> None:
    cluster = SmallCluster(GpuFit(), BinPack())
    cluster.cards("n1", 1)
    cluster.cards("n2", 3)
    row = cluster.ledger.columns.row_of
    assert cluster.ledger.columns.flags[row[next(iter(row))], 1] == ABSENT
    relation = CardRelation.DIFFERENT_CARDS
    assert cluster.where(several(a_claim(1), a_claim(2), a_claim(3), relation=relation)) == {"n2"}


def test_claims_of_more_cards_than_any_node_has_cost_no_search() -> None:
    cluster = SmallCluster(GpuFit(), BinPack())
    cluster.cards("n1", 2)
    many = GpuClaim(milli=1, count=1_000_000)
    assert cluster.why(several(many, many)) == {"too few GPUs": 1}
    same = several(many, many, relation=CardRelation.SAME_CARD)
    assert cluster.why(same) == {"too few GPUs": 1}
    assert not cluster.evaluator.evictable_rows(same).size


#: Claims of almost nothing; with nine others, placements are not searched exhaustively.
TINY = [a_claim(0, memory_bytes=number) for number in range(9)]


@pytest.mark.parametrize("others", [TINY[:1], TINY[:2], TINY])
def test_an_exclusive_card_goes_to_no_other_claim(others: list[GpuClaim]) -> None:
    """Though its cores and memory, which are scaled, would be enough for all of them."""
    cluster = SmallCluster(GpuFit(), BinPack())
    scaled = {"cores_scaling": 3000, "memory_scaling": 3000}
    cluster.cards("n1", 1, **scaled)
    shape = several(*others, whole(1))
    assert cluster.best(shape) is None
    cluster.cards("n2", 2, **scaled)
    found = cluster.best(shape)
    assert found is not None
    node, cards = found
    assert node == "n2"
    assert cards[-1] not in cards[:-1]


@pytest.mark.parametrize("others", [TINY[:1], TINY])
def test_a_claim_of_two_cards_never_gets_one_twice(others: list[GpuClaim]) -> None:
    cluster = SmallCluster(GpuFit(), BinPack())
    cluster.cards("n1", 1)
    shape = several(a_claim(100, count=2), *others)
    assert cluster.best(shape) is None
    cluster.cards("n2", 2)
    cluster.hold("n2", "n2-0", 500)
    found = cluster.best(shape)
    assert found is not None
    assert {*found[1][:2]} == {"n2-0", "n2-1"}


@pytest.mark.parametrize("claims", [TINY[:2], TINY[:3], TINY])
def test_claims_of_different_cards_share_none(claims: list[GpuClaim]) -> None:
    cluster = SmallCluster(GpuFit(), BinPack())
    shape = several(*claims, relation=CardRelation.DIFFERENT_CARDS)
    cluster.cards("n1", len(claims) - 1)
    assert cluster.best(shape) is None
    cluster.cards("n2", len(claims))
    found = cluster.best(shape)
    assert found is not None
    assert len({*found[1]}) == len(claims)


@pytest.mark.parametrize("count", [4, 7, 12])
def test_a_node_without_a_card_for_one_of_many_claims_has_no_place(count: int) -> None:
    cluster = SmallCluster(GpuFit(), GpuUuids(), BinPack())
    cluster.cards("n1", 2)
    cluster.cards("n2", 2)
    claims = [a_claim(100 + number) for number in range(count)]
    denied = tuple(GpuUuid(f"n1-{slot}") for slot in range(2))
    claims[-1] = replace(claims[-1], denied_uuids=denied)
    assert cluster.where(several(*claims)) == {"n2"}
