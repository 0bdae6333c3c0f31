"""Which cards may hold a claim."""

import numpy as np
import pytest
from hypothesis import given

from kubeshare_plugins.gpu_fit import GpuFit
from kubeshare_py.cluster.rows import AllRows, SomeRows
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.framework.reasons import ReasonTable
from kubeshare_py.testing import SmallCluster
from tests.making import GIB, a_claim, a_gpu, a_shape, whole
from tests.plugins.random_clusters import CLAIMS, NODES, Nodes, random_cluster
from tests.scale import examples


def one_card(**fields: object) -> SmallCluster:
    cluster = SmallCluster(GpuFit())
    cluster.node("n1", a_gpu("a", **fields))
    return cluster


def fits(cluster: SmallCluster, claim: GpuClaim) -> bool:
    return cluster.where(a_shape(claim)) == {"n1"}


def why(cluster: SmallCluster, claim: GpuClaim) -> set[str]:
    return {*cluster.why(a_shape(claim))}


@pytest.mark.parametrize(("first", "second"), [(800, 200), (500, 500), (700, 300), (1000, 0)])
def test_shares_fill_a_card_exactly(first: int, second: int) -> None:
    cluster = one_card()
    cluster.hold(card="a", milli=first)
    assert fits(cluster, a_claim(second))
    assert not fits(cluster, a_claim(second + 1))


def test_a_request_of_zero_fits_a_full_card() -> None:
    cluster = one_card()
    cluster.hold(card="a", milli=1000)
    assert fits(cluster, a_claim(0))


def test_a_card_held_exclusively_admits_nobody() -> None:
    cluster = one_card()
    pod = cluster.hold(card="a", milli=1000, exclusive=True)
    assert why(cluster, a_claim(0)) == why(cluster, whole(1)) == {"Insufficient GPU"}
    cluster.ledger.release(pod)
    assert fits(cluster, whole(1))


def test_an_exclusive_claim_wants_idle_cards() -> None:
    cluster = one_card()
    pod = cluster.hold(card="a", milli=0, memory=0)
    assert why(cluster, whole(1)) == {"Insufficient GPU"}
    cluster.ledger.release(pod)
    assert fits(cluster, whole(1))


def test_the_memory_that_goes_with_a_share_must_be_free() -> None:
    cluster = one_card(memory_bytes=1001)
    cluster.hold(card="a", milli=100, memory=501)
    assert fits(cluster, a_claim(500))  # floor(500.5) of the 500 that are left
    assert why(cluster, a_claim(501)) == {"Insufficient GPU memory"}
    cluster.hold(card="a", milli=0, memory=1)
    assert why(cluster, a_claim(500)) == {"Insufficient GPU memory"}


def test_memory_that_is_asked_for_replaces_the_default() -> None:
    cluster = one_card()
    cluster.hold(card="a", milli=100, memory=30 * GIB)
    assert not fits(cluster, a_claim(500))
    assert fits(cluster, a_claim(500, memory_bytes=10 * GIB))
    assert fits(cluster, a_claim(900, memory_bytes=0))
    assert why(cluster, a_claim(0, memory_bytes=10 * GIB + 1)) == {"Insufficient GPU memory"}


def test_memory_may_be_asked_for_as_a_part_of_what_the_card_gives() -> None:
    cluster = one_card(memory_bytes=1001, memory_scaling=1500)  # 1501 in all
    cluster.hold(card="a", milli=900, memory=751)
    assert fits(cluster, a_claim(100, memory_milli=500))  # floor(750.5) of the 750 that are left
    assert why(cluster, a_claim(101, memory_milli=500)) == {"Insufficient GPU"}
    asked = a_claim(0, memory_milli=501)
    assert why(cluster, asked) == {"Insufficient GPU memory"}
    (lack,) = cluster.explain(a_shape(asked))
    assert (lack.asked, lack.free) == (752, 750)
    assert fits(cluster, a_claim(100, memory_milli=0))


def test_a_part_of_the_memory_does_not_matter_to_a_whole_card() -> None:
    cluster = one_card()
    assert fits(cluster, whole(1, memory_milli=500))


def test_share_and_memory_can_both_be_short() -> None:
    cluster = one_card()
    cluster.hold(card="a", milli=900)
    asked = a_claim(200, memory_bytes=5 * GIB)
    assert why(cluster, asked) == {"Insufficient GPU", "Insufficient GPU memory"}
    assert len(cluster.explain(a_shape(asked))) == 2


def test_memory_that_goes_with_a_missing_share_is_not_worth_a_word() -> None:
    cluster = one_card()
    cluster.hold(card="a", milli=900)
    assert why(cluster, a_claim(200)) == {"Insufficient GPU"}
    assert len(cluster.explain(a_shape(a_claim(200)))) == 1


def test_nothing_is_placed_on_an_overdrawn_card() -> None:
    cluster = one_card()
    cluster.hold(card="a", milli=700)
    cluster.hold(card="a", milli=700, memory=0)
    assert why(cluster, a_claim(0)) == {"Insufficient GPU"}
    memory = one_card()
    memory.hold(card="a", milli=0, memory=41 * GIB)
    assert why(memory, a_claim(0)) == {"Insufficient GPU memory"}


def test_a_card_of_scaled_cores_takes_several_gpus_of_shares_and_one_pod_one_at_most() -> None:
    cluster = one_card(cores_scaling=2500)
    cluster.hold(card="a", milli=1000, memory=0)
    assert fits(cluster, a_claim(1000))
    cluster.hold(card="a", milli=1000, memory=0)
    assert fits(cluster, a_claim(500))
    assert why(cluster, a_claim(501)) == {"Insufficient GPU"}


def test_the_memory_that_goes_with_a_share_is_a_part_of_the_cards_own_memory() -> None:
    cluster = one_card(memory_bytes=1000, memory_scaling=1500)
    assert fits(cluster, a_claim(1000, memory_bytes=1500))
    cluster.hold(card="a", milli=0, memory=1001)
    assert fits(cluster, a_claim(499))
    assert why(cluster, a_claim(500)) == {"Insufficient GPU memory"}


def test_a_share_of_a_card_that_keeps_memory_back_has_its_part_of_the_rest() -> None:
    cluster = one_card(memory_bytes=1000, memory_scaling=500)
    assert fits(cluster, a_claim(1000))
    cluster.hold(card="a", milli=0, memory=250)
    assert fits(cluster, a_claim(501))
    assert why(cluster, a_claim(502)) == {"Insufficient GPU memory"}


def test_a_card_of_a_part_of_its_cores_takes_no_larger_share_and_whole_claims() -> None:
    cluster = one_card(cores_scaling=400)
    assert fits(cluster, a_claim(400))
    assert why(cluster, a_claim(401)) == {"Insufficient GPU"}
    assert fits(cluster, whole(1))


def test_unhealthy_cards_take_nobody_until_they_recover() -> None:
    cluster = one_card(healthy=False)
    assert why(cluster, a_claim(0)) == why(cluster, whole(1)) == {"unhealthy GPU"}
    cluster.ledger.put_cards(NodeName("n1"), (a_gpu("a"),))
    assert fits(cluster, whole(1))


def test_a_card_may_have_a_most_of_tenants() -> None:
    cluster = one_card(max_tenants=2)
    cluster.hold(card="a", milli=100)
    assert fits(cluster, a_claim(100))
    pod = cluster.hold(card="a", milli=100)
    assert why(cluster, a_claim(100)) == {"Too many pods on GPU"}
    cluster.ledger.release(pod)
    assert fits(cluster, a_claim(100))


def test_a_node_without_cards_says_so() -> None:
    cluster = SmallCluster(GpuFit())
    cluster.node("n1")
    assert why(cluster, a_claim(0)) == {"no GPU"}
    assert why(cluster, whole(2)) == {"too few GPUs"}


def test_a_card_that_left_takes_nobody_even_while_it_is_held() -> None:
    cluster = one_card()
    cluster.hold(card="a", milli=100)
    cluster.ledger.put_cards(NodeName("n1"), ())
    assert why(cluster, a_claim(0)) == {"no GPU"}


def test_several_cards_are_taken_from_one_node() -> None:
    cluster = SmallCluster(GpuFit())
    cluster.cards("n1", 2)
    cluster.cards("n2", 3)
    assert cluster.where(a_shape(whole(3))) == {"n2"}
    assert cluster.why(a_shape(whole(4))) == {"too few GPUs": 2}
    cluster.hold("n2", "n2-1", 1)
    assert cluster.best(a_shape(whole(2))) == ("n1", ["n1-0", "n1-1"])
    assert cluster.why(a_shape(whole(3))) == {"Insufficient GPU": 1, "too few GPUs": 1}
    assert cluster.where(a_shape(whole(2))) == {"n1", "n2"}


def test_the_nearest_miss_of_a_nodes_cards_is_reported() -> None:
    cluster = SmallCluster(GpuFit())
    cluster.node("n1", a_gpu("a", healthy=False), a_gpu("b", index=1))
    cluster.hold(card="b", milli=1000, memory=0)
    assert why(cluster, a_claim(1)) == {"Insufficient GPU"}


def test_reasons_stay_apart_when_the_reason_table_is_full() -> None:
    cluster = SmallCluster(GpuFit())
    cluster.node("n1", a_gpu("a", healthy=False, max_tenants=1))
    cluster.hold(card="a", milli=100)
    full = ReasonTable()
    for number in range(60):
        full.register("Somebody", f"reason {number}")
    question = GpuFit().card_filter(a_shape(a_claim(100)), full)
    assert question is not None
    (mask,) = question.reasons(SomeRows(cluster.ledger.columns, np.array([0]))).ravel().tolist()
    assert {reason.text for reason in full.of(mask)} == {"Insufficient other resources"}


@examples(200)
@given(NODES, CLAIMS)
def test_a_card_fits_exactly_when_nothing_speaks_against_it(
    nodes: Nodes,
    claim: GpuClaim,
) -> None:
    cluster = random_cluster(nodes, GpuFit())
    question = GpuFit().card_filter(a_shape(claim), ReasonTable())
    assert question is not None
    columns = cluster.ledger.columns
    for rows in (AllRows(columns), SomeRows(columns, np.arange(columns.rows)[::-2])):
        allowed, reasons = question.fits(rows), question.reasons(rows)
        assert (allowed == (reasons == 0)).all()
        assert (reasons >= 0).all()
        if question.least_headroom is not None:
            assert ((rows.headroom >= question.least_headroom) == allowed).all()


@examples(200)
@given(NODES, CLAIMS)
def test_the_hint_never_says_no_to_a_row_that_fits(
    nodes: Nodes,
    claim: GpuClaim,
) -> None:
    cluster = random_cluster(nodes, GpuFit())
    for name in cluster.where(a_shape(claim)):
        assert cluster.may_fit(a_shape(claim), name)


def test_the_hint_knows_the_last_thousandth_and_the_last_idle_card() -> None:
    cluster = one_card()
    assert cluster.may_fit(a_shape(whole(1)))
    assert not cluster.may_fit(a_shape(whole(2)))
    cluster.hold(card="a", milli=800)
    assert cluster.may_fit(a_shape(a_claim(200)))
    assert not cluster.may_fit(a_shape(a_claim(201)))
    assert not cluster.may_fit(a_shape(whole(1)))
    assert cluster.may_fit(a_shape())


def test_a_claim_may_want_cards_of_one_size() -> None:
    """gpushare's whole devices have as many units as the pod asks for, and not one more."""
    cluster = SmallCluster(GpuFit())
    cluster.node("n1", a_gpu("a", memory_bytes=1000), a_gpu("b", index=1, memory_bytes=1001))
    asked = whole(1, card_bytes=(1001, 1100))
    assert cluster.best(a_shape(asked)) == ("n1", ["b"])
    assert why(cluster, whole(1, card_bytes=(1002, 1100))) == {"GPU of another size"}
    assert why(cluster, whole(1, card_bytes=(900, 1000))) == {"GPU of another size"}
    cluster.hold(card="b", milli=0, memory=1)
    assert why(cluster, asked) == {"Insufficient GPU"}
    assert [lack.reason for lack in cluster.explain(a_shape(asked))] == [
        "GPU of another size",
        "Insufficient GPU",
    ]
