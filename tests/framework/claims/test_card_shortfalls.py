"""What is told of cards that cannot hold a claim."""

import numpy as np
from hypothesis import given

from kubeshare_plugins.gpu_fit import GpuFit
from kubeshare_py.cluster.rows import AllRows, OneRow
from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.framework.claims.card_shortfalls import card_shortfalls
from kubeshare_py.framework.reasons import ReasonTable
from kubeshare_py.testing import SmallCluster
from tests.builders import GIB, a_claim, a_gpu, a_shape, whole
from tests.plugins.random_clusters import CLAIMS, NODES, Nodes, random_cluster
from tests.scale import examples


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
