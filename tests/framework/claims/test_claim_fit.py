"""What a claim asks of a card, on columns."""

import numpy as np
from hypothesis import given

from kubeshare_plugins.gpu_fit import GpuFit
from kubeshare_py.cluster.rows import AllRows
from kubeshare_py.domain.gpu_models import PreferredModels
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.framework.claims.claim_fit import (
    asked_bytes,
    asked_milli,
    fits_claim,
    fits_model,
    headroom_for,
)
from kubeshare_py.framework.points import MAX_PODS
from kubeshare_py.testing import SmallCluster
from tests.builders import a_gpu
from tests.plugins.random_clusters import CLAIMS, NODES, Nodes, random_cluster
from tests.scale import examples


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
    for whole, capacity, memory in zip(
        rows.share_bytes.ravel(), rows.capacity_bytes.ravel(), asked.ravel(), strict=True
    ):
        assert memory == plain_memory(claim, int(whole), int(capacity))


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
