"""Charges that name cards by index, as gpushare's and nano-gpu's annotations do.

They count on the card that the node first lists with this index, and on no other one.
"""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.cluster.charge import has_indices, looked_up
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.allocation import Allocation, CardCharge, ClaimCharge
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodUid, card_at
from kubeshare_py.domain.request import ContainerRef
from kubeshare_py.domain.values import replace
from tests.making import a_gpu, a_node
from tests.scale import examples

N1, N2 = NodeName("n1"), NodeName("n2")
NODES = (N1, N2)
PODS = tuple(PodUid(f"p{number}") for number in range(3))


def held(*cards: tuple[GpuUuid, int]) -> Allocation:
    charges = tuple(CardCharge(uuid, milli, milli) for uuid, milli in cards)
    return Allocation(token=DecisionToken(""), cards=charges)


def amounts(allocation: Allocation | None) -> dict[str, int]:
    assert allocation is not None
    return {card.uuid: card.milli for card in allocation.cards}


def test_an_index_means_a_whole_card_or_the_only_instance_that_has_it() -> None:
    gpus = (
        a_gpu("GPU-a", index=0),
        a_gpu("MIG-a", index=0, parent="GPU-a"),
        a_gpu("MIG-b", index=1, parent="GPU-b"),
        a_gpu("MIG-c", index=2, parent="GPU-c"),
        a_gpu("MIG-d", index=2, parent="GPU-c"),
        a_gpu("GPU-e", index=3),
        a_gpu("GPU-f", index=3),
    )
    asked = held(*((card_at(index), 100) for index in range(5)))
    found = looked_up(asked, gpus)
    assert [card.uuid for card in found.cards] == ["GPU-a", "MIG-b", *map(card_at, (2, 3, 4))]
    assert [card.model for card in found.cards] == [gpus[0].model] * 2 + [""] * 3
    assert has_indices(found)
    assert not has_indices(replace(found, cards=found.cards[:2]))


def test_claims_of_containers_name_the_card_too_and_the_pod_has_it_once() -> None:
    """Two containers of one pod are on the same card."""
    ones = tuple(CardCharge(card_at(1), milli, milli) for milli in (100, 200))
    claims = tuple(
        ClaimCharge(container=ContainerRef(False, index), cards=(one,))
        for index, one in enumerate(ones)
    )
    both = Allocation(
        token=DecisionToken(""),
        cards=(*held((card_at(1), 300), (GpuUuid("GPU-b"), 5)).cards,),
        claims=claims,
    )
    found = looked_up(both, (a_gpu("GPU-a"), a_gpu("GPU-b", index=1)))
    assert amounts(found) == {"GPU-b": 305}
    assert [card.uuid for one in found.claims for card in one.cards] == ["GPU-b", "GPU-b"]


def test_an_allocation_of_uuids_stays_the_same_value() -> None:
    allocation = held((GpuUuid("GPU-a"), 100), (card_at(7), 100))
    assert looked_up(allocation, (a_gpu("GPU-a"),)) is allocation
    assert not has_indices(None)


def test_nodes_with_the_same_index_claim_no_card_of_each_other() -> None:
    ledger = Ledger()
    for name in NODES:
        ledger.put_node(a_node(name))
        ledger.charge(PodUid(name), name, (), held((card_at(0), 400)))
    assert not ledger.claims.disputes
    for name in NODES:
        ledger.put_cards(name, (a_gpu(f"GPU-{name}"),))
    assert not ledger.claims.disputes
    assert [ledger.columns.free_milli.item(ledger.columns.row_of[name], 0) for name in NODES] == [
        600,
        600,
    ]
    # From now on it is one piece of hardware that a pod holds on n1.
    ledger.put_cards(N2, (a_gpu(f"GPU-{N2}"), a_gpu(f"GPU-{N1}", index=1)))
    assert ledger.claims.disputes[GpuUuid("GPU-n1")].keeper == N1


@dataclass
class Books:
    """What was told, and what was found, per pod and index, when it was found."""

    cards: dict[NodeName, tuple[Gpu, ...]] = field(default_factory=dict)
    asked: dict[PodUid, tuple[NodeName, tuple[tuple[int, int], ...]]] = field(default_factory=dict)
    found: dict[tuple[PodUid, int], str] = field(default_factory=dict)
    gone: set[PodUid] = field(default_factory=set)

    def look_up(self) -> None:
        for uid, (node, parts) in self.asked.items():
            for index, _ in parts:
                alike = [one for one in self.cards.get(node, ()) if one.index == index]
                whole = [one for one in alike if one.parent is None]
                for only in (whole, [] if whole else alike):
                    if len(only) == 1:
                        self.found.setdefault((uid, index), only[0].uuid)

    def forget(self, uid: PodUid) -> None:
        self.asked.pop(uid, None)
        self.gone.discard(uid)
        self.found = {key: uuid for key, uuid in self.found.items() if key[0] != uid}

    def held_of(self, uid: PodUid) -> dict[str, int]:
        found: dict[str, int] = {}
        for index, milli in self.asked[uid][1]:
            name = self.found.get((uid, index), f"index {index}")
            found[name] = found.get(name, 0) + milli
        return found

    def used(self, node: NodeName, uuid: str) -> int:
        return sum(
            self.held_of(uid).get(uuid, 0) for uid in self.asked if self.asked[uid][0] == node
        )


class Told:
    """A ledger and books that are told the same."""

    def __init__(self) -> None:
        self.ledger, self.books = Ledger(), Books()

    def cards(self, node: NodeName, slots: list[tuple[int, int, bool]]) -> None:
        """Cards of some index; `slots` are index, which board, and whether it is an instance."""
        gpus = {
            f"GPU-{node}-{index}-{board}-{part}": a_gpu(
                f"GPU-{node}-{index}-{board}-{part}",
                index=index,
                parent=GpuUuid(f"GPU-{node}-{index}-{board}") if part else None,
            )
            for index, board, part in slots
        }
        self.books.cards[node] = tuple(gpus.values())
        self.books.look_up()
        self.ledger.put_cards(node, self.books.cards[node])

    def charge(self, uid: PodUid, node: NodeName, parts: tuple[tuple[int, int], ...]) -> None:
        self.books.forget(uid)
        self.books.asked[uid] = (node, parts)
        self.books.look_up()
        charged = self.ledger.charge(uid, node, (), _by_index(parts))
        assert amounts(charged) == self.books.held_of(uid)

    def again(self, uid: PodUid) -> None:
        """The pod is resized: it is charged anew with what it holds."""
        charge = self.ledger.charge_of(uid)
        if charge is not None:
            self.ledger.charge(uid, charge.node, (("cpu", 100),), charge.allocation)

    def leave(self, uid: PodUid, lingers: bool) -> None:
        if self.ledger.charge_of(uid) is None:
            return
        if lingers and self.ledger.linger(uid):
            self.books.gone.add(uid)
            return
        self.ledger.release(uid)
        self.books.forget(uid)

    def end(self, uid: PodUid) -> None:
        self.ledger.end_lingering(uid)
        if uid in self.books.gone:
            self.books.forget(uid)


def _by_index(parts: tuple[tuple[int, int], ...]) -> Allocation:
    return held(*((card_at(index), milli) for index, milli in parts))


def expect_same(ledger: Ledger, books: Books) -> None:
    """Every listed card has what the books say, and every pod holds what they say."""
    for node in NODES:
        row = ledger.columns.row_of[node]
        uuids = ledger.columns.uuids[row]
        for gpu in books.cards.get(node, ()):
            free = ledger.columns.free_milli.item(row, uuids.index(gpu.uuid))
            assert free == 1000 - books.used(node, gpu.uuid)
    for uid in books.asked:
        charge = ledger.charge_of(uid) or ledger.lingering[uid]
        assert amounts(charge.allocation) == books.held_of(uid)
    over = {
        (node, gpu.uuid)
        for node in NODES
        for gpu in books.cards.get(node, ())
        if books.used(node, gpu.uuid) > 1000
    }
    assert {*ledger.overcommitted()} == over
    assert not ledger.claims.disputes


INDEX = st.integers(0, 2)
WHERE, WHICH = st.sampled_from(NODES), st.sampled_from(PODS)
PARTS = st.lists(
    st.tuples(INDEX, st.integers(1, 700)), min_size=1, max_size=3, unique_by=lambda part: part[0]
)
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("cards"),
            WHERE,
            st.lists(st.tuples(INDEX, st.integers(0, 1), st.booleans()), max_size=5),
        ),
        st.tuples(st.just("charge"), WHICH, WHERE, PARTS),
        st.tuples(st.just("again"), WHICH),
        st.tuples(st.just("leave"), WHICH, st.booleans()),
        st.tuples(st.just("end"), WHICH),
    ),
    min_size=3,
    max_size=25,
)


def expect_right(steps: list[tuple[object, ...]]) -> Told:
    told = Told()
    for name in NODES:
        told.ledger.put_node(a_node(name))
    for step in steps:
        match step:
            case ("cards", str(node), list(slots)):
                told.cards(NodeName(node), slots)
            case ("charge", str(uid), str(node), list(parts)):
                told.charge(PodUid(uid), NodeName(node), tuple(parts))
            case ("again", str(uid)):
                told.again(PodUid(uid))
            case ("leave", str(uid), bool(lingers)):
                told.leave(PodUid(uid), lingers)
            case ("end", str(uid)):
                told.end(PodUid(uid))
            case _:
                raise AssertionError(step)
        expect_same(told.ledger, told.books)
    return told


@examples(150)
@given(STEPS)
def test_each_share_is_on_the_card_that_was_first_listed_with_its_index(
    steps: list[tuple[object, ...]],
) -> None:
    expect_right(steps)


@examples(80)
@given(STEPS, st.booleans())
def test_a_restarted_ledger_finds_the_cards_of_the_same_list(
    steps: list[tuple[object, ...]], cards_first: bool
) -> None:
    """Pods with annotations rebuild the same free vector, whatever comes first."""
    before = expect_right(steps).books
    ledger, books = Ledger(), Books()
    books.cards = before.cards
    books.asked = {uid: asked for uid, asked in before.asked.items() if uid not in before.gone}
    books.look_up()
    if cards_first:
        list_cards(ledger, books)
    for uid, (node, parts) in reversed(books.asked.items()):
        ledger.charge(uid, node, (), _by_index(parts))
    if not cards_first:
        list_cards(ledger, books)
    for name in NODES:
        ledger.put_node(a_node(name))
    expect_same(ledger, books)


def list_cards(ledger: Ledger, books: Books) -> None:
    for node, gpus in books.cards.items():
        ledger.put_cards(node, gpus)


@pytest.mark.parametrize("index", [2, 7, 10**12])
def test_an_index_that_the_node_does_not_have_takes_nothing_of_other_cards(index: int) -> None:
    """It is not dropped, and not charged to GPU 0."""
    told = Told()
    told.ledger.put_node(a_node("n1"))
    told.ledger.put_cards(N1, (a_gpu("GPU-a"), a_gpu("GPU-b", index=1)))
    charged = told.ledger.charge(PODS[0], N1, (), held((card_at(index), 500)))
    assert amounts(charged) == {f"index {index}": 500}
    assert told.ledger.columns.gpu_free_milli[told.ledger.columns.row_of[N1]] == 2000


def test_capacity_that_returns_is_as_occupied_as_before() -> None:
    """The node lists no card for a while; its pods keep theirs."""
    told = Told()
    told.ledger.put_node(a_node("n1"))
    both = (a_gpu("GPU-a"), a_gpu("GPU-b", index=1))
    told.ledger.put_cards(N1, both)
    told.ledger.charge(PODS[0], N1, (), held((card_at(1), 500)))
    told.ledger.put_cards(N1, ())
    told.ledger.put_cards(N1, both)
    row = told.ledger.columns.row_of[N1]
    assert told.ledger.columns.free_milli[row, :2].tolist() == [1000, 500]
