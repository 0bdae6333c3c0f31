"""Which cards fit a claim, and the reasons of those that do not."""

import numpy as np
import pytest
from hypothesis import given

from kubeshare_plugins.gpu_fit import GpuFit
from kubeshare_py.cluster.columns import SPARE_VALUES
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.rows import AllRows, OneRow
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.gpu import CardTag, PreferredModels, TagKind
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodUid
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.request import CardRelation, GpuClaim
from kubeshare_py.framework.claim_fit import (
    ModelTable,
    asked_bytes,
    asked_milli,
    card_shortfalls,
    fits_claim,
    fits_model,
    headroom_for,
    shares_exclusion,
)
from kubeshare_py.framework.diagnosis import JointAmount, joint_needs
from kubeshare_py.framework.points import MAX_PODS
from kubeshare_py.framework.reasons import ReasonTable
from kubeshare_py.testing import SmallCluster
from tests.making import GIB, a_claim, a_gpu, a_node, a_shape, some_gpus, whole
from tests.plugins.random_clusters import CLAIMS, NODES, Nodes, random_cluster
from tests.scale import examples

# --- What a claim asks of a card, on columns ------------------------------------------------------


@examples(200)
@given(NODES, CLAIMS)
def test_there_is_room_where_enough_cards_fit(nodes: Nodes, claim: GpuClaim) -> None:
    rows = AllRows(random_cluster(nodes, GpuFit()).ledger.columns)
    room = headroom_for(claim, asked_milli(claim), rows)
    cards = np.asarray(fits_claim(claim)(rows)).sum(1)
    assert (room[cards >= claim.count] > 0).all()


def plain_memory(claim: GpuClaim, with_share: int, capacity: int) -> int:
    if claim.memory_milli is not None:
        return capacity * claim.memory_milli // 1000
    if claim.memory_bytes is not None:
        return claim.memory_bytes
    return with_share * claim.milli // 1000


@examples(200)
@given(NODES, CLAIMS)
def test_memory_is_what_was_asked_for_or_goes_with_the_share(nodes: Nodes, claim: GpuClaim) -> None:
    rows = AllRows(random_cluster(nodes, GpuFit()).ledger.columns)
    asked = np.broadcast_to(asked_bytes(claim, claim.milli, rows), rows.flags.shape)
    for share, capacity, memory in zip(
        rows.share_bytes.ravel(), rows.capacity_bytes.ravel(), asked.ravel(), strict=True
    ):
        assert memory == plain_memory(claim, int(share), int(capacity))


@examples(200)
@given(NODES, CLAIMS)
def test_the_room_of_one_card_is_what_can_be_taken_from_it(nodes: Nodes, claim: GpuClaim) -> None:
    columns = random_cluster([(cards[:1], []) for cards, _ in nodes], GpuFit()).ledger.columns
    if claim.count > 1 or claim.exclusive or claim.card_bytes:
        return
    room = headroom_for(claim, asked_milli(claim), AllRows(columns)).tolist()
    for (cards, _), most in zip(nodes, room[: len(nodes)], strict=True):
        if not cards or not cards[0][0]:
            assert most == 0
            continue
        _, memory_bytes, tenants, (cores, scaling) = cards[0]
        capacity = memory_bytes * scaling // 1000
        each = plain_memory(claim, min(memory_bytes, capacity), capacity)
        bounds = [tenants or MAX_PODS]
        bounds += [cores // claim.milli] if claim.milli else []
        bounds += [capacity // each] if each else []
        assert most == min(bounds)


def fitting(claim: GpuClaim) -> list[list[str]] | None:
    cluster = SmallCluster()
    cluster.node("n1", a_gpu("a", model="T4"), a_gpu("b", index=1, model="A100"))
    cluster.node("n2", a_gpu("c", model="T4"))
    fits = fits_model(claim)
    if fits is None:
        return None
    columns = cluster.ledger.columns
    slots = fits(AllRows(columns)).tolist()
    return [
        [columns.uuids[row][slot] for slot, fit in enumerate(slots[row]) if fit] for row in (0, 1)
    ]


def test_a_claim_without_a_model_takes_every_gpu() -> None:
    assert fitting(GpuClaim(milli=500)) is None


def test_only_gpus_of_a_named_model_fit_and_no_empty_slot() -> None:
    assert fitting(GpuClaim(milli=500, models=("T4",))) == [["a"], ["c"]]


def test_gpus_of_a_denied_model_do_not_fit() -> None:
    claim = GpuClaim(milli=500, preferred=PreferredModels(denied=("T4",)))
    assert fitting(claim) == [["b"], []]


# --- Numbers of models, for many cards at once ----------------------------------------------------


def test_each_model_is_worked_out_once_and_new_ones_when_they_come() -> None:
    cluster = SmallCluster()
    cluster.node("n1", a_gpu("a", model="T4"), a_gpu("b", index=1, model="A100"))
    asked: list[str] = []

    def length(model: str) -> int:
        asked.append(model)
        return len(model)

    table = ModelTable(length, empty=-1)
    rows = AllRows(cluster.ledger.columns)
    assert table.of(rows)[0].tolist() == [2, 4]
    cluster.node("n2", a_gpu("c", model="L40S-48GB"))
    assert table.of(AllRows(cluster.ledger.columns))[1].tolist() == [9, -1]
    assert asked == ["T4", "A100", "L40S-48GB"]


def test_models_that_are_numbered_anew_are_told_apart() -> None:
    cluster = SmallCluster()
    cluster.node("n1", a_gpu("a", model="T4"), a_gpu("b", index=1, model="A100"))
    table = ModelTable(len, empty=-1)
    for number in range(2 * SPARE_VALUES):
        model = "x" * (1 + number % 200) + str(number)
        cluster.node("n2", a_gpu("c", model=model))
        found = table.of(AllRows(cluster.ledger.columns))
        assert [*found[0].tolist(), found[1, 0]] == [2, 4, len(model)]


# --- What several claims need of a node together, of what is free and of all that there is --------


CARDS, SHARE, MEMORY = JointAmount
APART, SAME = CardRelation.DIFFERENT_CARDS, CardRelation.SAME_CARD


def a_cluster() -> SmallCluster:
    """One node with two cards of 40 GiB, of which one has 600 milli and 10 GiB left."""
    cluster = SmallCluster()
    cluster.node("n1", a_gpu("c0", index=0), a_gpu("c1", index=1, model="T4"))
    cluster.hold("n1", "c0", 400, memory=30 * GIB)
    return cluster


def needs_of(shape: Shape, *, free: bool) -> list[tuple[JointAmount, int, int]]:
    rows = AllRows(a_cluster().ledger.columns)
    fitting = [fits_claim(claim)(rows) for claim in shape.claims]
    if not free:
        fitting = [fits | True for fits in fitting]
    found = joint_needs(shape, rows, fitting, free=free)
    return [(one.amount, one.needed.item(0), one.there.item(0)) for one in found]


@pytest.mark.parametrize(
    ("shape", "free", "all_there"),
    [
        (
            a_shape(a_claim(500, memory_bytes=GIB), a_claim(600, memory_bytes=GIB)),
            [(CARDS, 1, 2), (SHARE, 1100, 1600), (MEMORY, 2 * GIB, 50 * GIB)],
            [(CARDS, 1, 2), (SHARE, 1100, 2000), (MEMORY, 2 * GIB, 80 * GIB)],
        ),
        (
            # Only one card has 20 GiB left: the other is none of the claim's.
            a_shape(a_claim(500), a_claim(500), relation=APART),
            [(CARDS, 2, 1), (SHARE, 1000, 1000), (MEMORY, 40 * GIB, 40 * GIB)],
            [(CARDS, 2, 2), (SHARE, 1000, 2000), (MEMORY, 40 * GIB, 80 * GIB)],
        ),
        (
            a_shape(
                a_claim(100, memory_bytes=6 * GIB),
                a_claim(200, memory_bytes=6 * GIB),
                relation=SAME,
            ),
            [(CARDS, 1, 1)],
            [(CARDS, 1, 2)],
        ),
        (
            a_shape(whole(1), a_claim(100, memory_bytes=GIB, count=2)),
            [(CARDS, 3, 2), (SHARE, 1200, 1600), (MEMORY, 42 * GIB, 50 * GIB)],
            [(CARDS, 3, 2), (SHARE, 1200, 2000), (MEMORY, 42 * GIB, 80 * GIB)],
        ),
        (
            # A share of another model's card is what it is of the smallest part of a card here.
            a_shape(
                a_claim(500, share_of="A100", shares=(("A100", 500), ("T4", 300)), memory_bytes=1),
                a_claim(0, memory_bytes=1),
            ),
            [(CARDS, 1, 2), (SHARE, 300, 1600), (MEMORY, 2, 50 * GIB)],
            [(CARDS, 1, 2), (SHARE, 300, 2000), (MEMORY, 2, 80 * GIB)],
        ),
    ],
)
def test_each_need_is_compared_with_what_there_is(
    shape: Shape, free: list[object], all_there: list[object]
) -> None:
    assert needs_of(shape, free=True) == free
    assert needs_of(shape, free=False) == all_there


# --- The reasons of cards that cannot hold a claim ------------------------------------------------


def test_numbers_are_told_for_people() -> None:
    cluster = SmallCluster(GpuFit())
    cluster.node("n1", a_gpu("a"), a_gpu("b", index=1, healthy=False))
    cluster.hold(card="a", milli=800)
    cluster.hold(card="gone", milli=100)
    assert cluster.explain(a_shape(a_claim(300, memory_bytes=12 * GIB))) == [
        Shortfall(
            reason="Insufficient GPU",
            subject="a",
            resource="gpu",
            asked=300,
            free=200,
            unit="milli",
        ),
        Shortfall(
            reason="Insufficient GPU memory",
            subject="a",
            resource="gpu memory",
            asked=12 * GIB,
            free=8 * GIB,
            unit="bytes",
        ),
        Shortfall(reason="unhealthy GPU", subject="b"),
        Shortfall(reason="GPU is not in the inventory", subject="gone"),
    ]


def test_a_missing_card_is_told_as_a_count() -> None:
    cluster = SmallCluster(GpuFit())
    cluster.node("n1", a_gpu("a"))
    assert cluster.explain(a_shape(whole(2))) == [
        Shortfall(reason="too few GPUs", resource="gpu", asked=2, free=1, unit="count")
    ]
    assert cluster.explain(a_shape()) == []


@examples(200)
@given(NODES, CLAIMS)
def test_of_a_card_something_is_told_exactly_when_it_does_not_fit(
    nodes: Nodes, claim: GpuClaim
) -> None:
    ledger = random_cluster(nodes, GpuFit()).ledger
    question = GpuFit().card_filter(a_shape(claim), ReasonTable())
    assert question is not None
    fits = question.fits(AllRows(ledger.columns))
    for row in range(ledger.columns.rows):
        for slot, uuid in enumerate(ledger.columns.uuids[row]):
            told = [*card_shortfalls(claim, OneRow(ledger.columns, row), slot, uuid)]
            assert bool(told) != bool(np.asarray(fits)[row, slot])


def test_tags_that_only_private_rows_have_are_read_with_the_numbers_of_these() -> None:
    mine = CardTag(TagKind.EXCLUSION, "default", "mine")
    ledger, another = Ledger(), Ledger()
    for one in (ledger, another):
        one.put_node(a_node("n1"))
        one.put_cards(NodeName("n1"), some_gpus("n1", 2))
    cards = (CardCharge(GpuUuid("GPU-n1-1"), 500, 0, tags=(mine,)),)
    allocation = Allocation(token=DecisionToken("t"), cards=cards)
    another.charge(PodUid("p"), NodeName("n1"), (), allocation)
    held = another.amounts([[PodUid("p")]])
    rows, here = ledger.what_if(np.array([0])), np.array([0])
    rows.add(here, held, here)
    rows.derive(here)
    other = CardTag(TagKind.EXCLUSION, "default", "other")
    for tag, fits in ((mine, [True, True]), (other, [True, False])):
        claim = GpuClaim(milli=500, tags=(tag,))
        assert shares_exclusion(claim)(rows)[0, :2].tolist() == fits
