"""What no node could ever give is called impossible, with the largest that there is."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.gpu import PreferredModels
from kubeshare_py.domain.identity import DecisionToken, NodeName, PodUid
from kubeshare_py.domain.request import CardRelation, GpuClaim
from kubeshare_py.domain.values import replace
from kubeshare_py.framework.diagnosis import amounts, impossible
from kubeshare_py.framework.evaluator import Evaluator
from tests.framework.test_evaluator import PROFILES
from tests.making import GIB, a_claim, a_gpu, a_node, a_shape, whole
from tests.plugins.random_clusters import CLAIMS, NODES, Nodes, random_cluster
from tests.scale import examples

FREE, SAME, APART = (
    CardRelation.FREE,
    CardRelation.SAME_CARD,
    CardRelation.DIFFERENT_CARDS,
)


def a_ledger() -> Ledger:
    """n1: 4 H100 of 80 GiB; n2: 8 T4 of 16 GiB, 4 near each NUMA node; n3: none."""
    ledger = Ledger()
    cards: dict[str, list[Any]] = {
        "n1": [
            a_gpu(f"h{n}", index=n, model="H100", memory_bytes=80 * GIB, numa_node=0)
            for n in range(4)
        ],
        "n2": [
            a_gpu(f"t{n}", index=n, model="T4", memory_bytes=16 * GIB, numa_node=n // 4)
            for n in range(8)
        ],
        "n3": [],
    }
    for number, (name, gpus) in enumerate(cards.items()):
        ledger.put_node(a_node(name, cpu=64_000 * (number + 1)))
        ledger.put_cards(NodeName(name), tuple(gpus))
    return ledger


def two_shares(milli: int, **fields: Any) -> tuple[GpuClaim, GpuClaim]:
    """Two alike claims."""
    return a_claim(milli, **fields), a_claim(milli, **fields)


@pytest.mark.parametrize(
    ("claims", "relation", "said"),
    [
        (two_shares(1000, count=4), FREE, ""),
        (
            two_shares(1000, count=5),
            FREE,
            "its containers need 10 GPUs of one node: the largest has 8 GPUs (node n2)",
        ),
        (
            two_shares(600, count=8),
            FREE,
            "its containers need 9.6 GPUs of one node: the largest has 8 GPUs (node n2)",
        ),
        (two_shares(500, count=8), FREE, ""),
        (
            two_shares(500, count=8),
            APART,
            "its containers need 16 GPUs of one node: the largest has 8 GPUs (node n2)",
        ),
        (two_shares(500, count=8), SAME, ""),
        (two_shares(501, count=8), SAME, "no GPU has room for all of its containers together"),
        (
            two_shares(100, count=5, memory_bytes=40 * GIB),
            SAME,
            "no node has 5 GPUs with 40 GiB each: the largest has 4 (node n1)",
        ),
        (two_shares(100, count=5, memory_bytes=8 * GIB), SAME, ""),
        (
            (a_claim(100, memory_bytes=70 * GIB), a_claim(100, memory_bytes=20 * GIB)),
            SAME,
            "no GPU has room for all of its containers together",
        ),
        (
            two_shares(100, count=4, memory_bytes=50 * GIB),
            FREE,
            "its containers need 400 GiB of "
            "GPU memory of one node: the largest has 320 GiB of GPU memory (node n1)",
        ),
        ((whole(4), a_claim(100)), FREE, ""),
        (
            (whole(8), a_claim(100)),
            FREE,
            "its containers need 9 GPUs of one node: the largest has 8 GPUs (node n2)",
        ),
        (
            (a_claim(1, models=("H100",)), a_claim(1, models=("T4",))),
            FREE,
            "no node has GPUs for all of its containers together",
        ),
        (
            # n1 has too little for both, and n2, which has enough, nothing for one of them.
            (
                a_claim(600, count=4, models=("H100",), memory_bytes=0),
                a_claim(600, count=4, memory_bytes=0),
            ),
            FREE,
            "no node has GPUs for all of its containers together",
        ),
        ((a_claim(1), whole(9)), FREE, "no node has 9 GPUs: the largest has 8 (node n2)"),
        (
            (a_claim(1), a_claim(1, models=("A100",))),
            FREE,
            'no card here is called "A100"; there are T4 (8), H100 (4)',
        ),
    ],
)
def test_several_claims_are_impossible_only_where_no_node_could_hold_all(
    claims: tuple[GpuClaim, ...], relation: CardRelation, said: str
) -> None:
    found = impossible(a_shape(*claims, relation=relation), a_ledger())
    assert found == (f"impossible: {said}" if said else "")


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        (whole(8), ""),
        (whole(16), "impossible: no node has 16 GPUs: the largest has 8 (node n2)"),
        (a_claim(1000, count=9), "impossible: no node has 9 GPUs: the largest has 8 (node n2)"),
        (
            whole(5, models=("H100",)),
            "impossible: no node has 5 GPUs of a model that it takes: the largest has 4 (node n1)",
        ),
        (
            whole(5, one_numa_node=True),
            "impossible: no node has 5 GPUs near one NUMA node: the largest has 4 (node n1)",
        ),
        (whole(4, one_numa_node=True), ""),
        (
            whole(8, memory_bytes=40 * GIB),
            "impossible: no node has 8 GPUs with 40 GiB each: the largest has 4 (node n1)",
        ),
        (
            a_claim(100, memory_bytes=200 * GIB),
            "impossible: no GPU has 200 GiB: the largest has 80 GiB (H100, node n1)",
        ),
        (
            a_claim(100, memory_bytes=40 * GIB, models=("T4",)),
            "impossible: no GPU has 40 GiB: the largest has 16 GiB (T4, node n2)",
        ),
        (
            a_claim(100, models=("A100",)),
            'impossible: no card here is called "A100"; there are T4 (8), H100 (4)',
        ),
        (
            a_claim(100, preferred=PreferredModels(denied=("h100", "t4"))),
            "impossible: no card here is of a model that it takes (any model but not h100, t4); "
            "there are T4 (8), H100 (4)",
        ),
        (a_claim(1000, memory_bytes=80 * GIB), ""),
    ],
)
def test_the_largest_there_is_is_named(claim: Any, said: str) -> None:
    assert impossible(a_shape(claim), a_ledger()) == said


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("A100", "NVIDIA-A100-SXM4-40GB"),
        ("nvidia-a100-sxm4-40gb", "NVIDIA-A100-SXM4-40GB"),
        ("rtx4090", "NVIDIA-GeForce-RTX-4090"),
        ("T4", "Tesla-T4"),
        ("Telsa-T4", "Tesla-T4"),
        ("A10", ""),
        ("H100", ""),
        ("RTX-4080", ""),
        ("Tesla-T40", ""),
        ("...", ""),
    ],
)
def test_a_model_that_may_be_meant_is_named(asked: str, meant: str) -> None:
    models = ("NVIDIA-A100-SXM4-40GB", "Tesla-T4", "NVIDIA-GeForce-RTX-4090")
    ledger = Ledger()
    ledger.put_node(a_node("n1"))
    cards = [a_gpu(f"c{n}", index=n, model=model) for n, model in enumerate(models)]
    ledger.put_cards(NodeName("n1"), tuple(cards))
    said = impossible(a_shape(a_claim(100, models=(asked,))), ledger)
    hint = f"; did you mean {meant}?" if meant else ""
    assert said == (
        f'impossible: no card here is called "{asked}"; there are NVIDIA-A100-SXM4-40GB (1), '
        f"NVIDIA-GeForce-RTX-4090 (1), Tesla-T4 (1){hint}"
    )


def test_the_scaled_capacity_is_what_a_card_gives() -> None:
    ledger = Ledger()
    ledger.put_node(a_node("n1"))
    card = a_gpu("a", memory_bytes=16 * GIB, memory_scaling=2000, cores_scaling=500)
    ledger.put_cards(NodeName("n1"), (card,))
    assert impossible(a_shape(a_claim(500, memory_bytes=32 * GIB)), ledger) == ""
    assert impossible(a_shape(whole(1)), ledger) == ""
    assert impossible(a_shape(a_claim(501)), ledger) == (
        "impossible: no GPU has enough of both share and memory: the largest share is that of "
        f"0.5 GPUs ({card.model}, node n1)"
    )
    ledger.put_cards(NodeName("n1"), (card, a_gpu("b")))
    assert impossible(a_shape(a_claim(501, count=2)), ledger) == (
        "impossible: no node has 2 GPUs of such a size: the largest has 1 (node n1)"
    )


def test_amounts_of_nodes_are_named_too() -> None:
    ledger = a_ledger()
    assert impossible(a_shape(cpu=192_000), ledger) == ""
    said = "impossible: no node has 192.5 cpu: the largest has 192 (node n3)"
    assert impossible(a_shape(cpu=192_500), ledger) == said
    said = "impossible: no node has 1024 GiB of memory: the largest has 512 GiB (node n1)"
    assert impossible(a_shape(resources=(("memory", 1 << 40),)), ledger) == said
    said = "impossible: no node has any example.com/nic"
    assert impossible(a_shape(resources=(("example.com/nic", 1),)), ledger) == said
    said = "impossible: no node is set up for pods of hami: on none is nvidia.com/gpu served by"
    mark = "nvidia.com/gpu of hami"
    assert impossible(a_shape(resources=((mark, 1),)), ledger).startswith(said)


def test_what_is_held_ill_or_cordoned_counts_as_there() -> None:
    ledger = a_ledger()
    gpus = ledger.inventory[NodeName("n2")]
    ledger.put_cards(NodeName("n2"), tuple(replace(gpu, healthy=False) for gpu in gpus))
    ledger.put_node(a_node("n2", cpu=1, unschedulable=True))
    held = (CardCharge(gpus[0].uuid, 1000, 16 * GIB, exclusive=True),)
    allocation = Allocation(token=DecisionToken("t"), cards=held)
    ledger.charge(PodUid("u"), NodeName("n2"), (), allocation)
    assert impossible(a_shape(whole(8)), ledger) == ""
    # A card that pods hold and that the inventory does not show is none.
    ledger.put_cards(NodeName("n2"), gpus[1:])
    said = "impossible: no node has 8 GPUs: the largest has 7 (node n2)"
    assert impossible(a_shape(whole(8)), ledger) == said
    ledger.drop_node(NodeName("n2"))
    said = "impossible: no node has 8 GPUs: the largest has 4 (node n1)"
    assert impossible(a_shape(whole(8)), ledger) == said


def test_what_is_not_known_is_not_called_impossible() -> None:
    ledger = a_ledger()
    ledger.put_silent(frozenset({NodeName("n1"), NodeName("n9")}))
    assert impossible(a_shape(whole(9)), ledger).startswith("impossible: ")
    ledger.put_silent(frozenset({NodeName("n3")}))
    assert impossible(a_shape(whole(9)), ledger) == (
        "no node has 9 GPUs: the largest has 8 (node n2); which GPUs 1 node has is not known"
    )
    assert impossible(a_shape(whole(8)), ledger) == ""
    for name in ("n1", "n2"):
        ledger.put_cards(NodeName(name), ())
    assert impossible(a_shape(whole(1)), ledger) == "no GPU of any node is known"
    assert impossible(a_shape(), ledger) == ""
    assert impossible(a_shape(whole(1)), Ledger()) == ""


def test_of_equally_large_nodes_the_first_by_name_is_named() -> None:
    ledger = Ledger()
    for name in ("b", "a", "c"):
        ledger.put_node(a_node(name))
        ledger.put_cards(NodeName(name), (a_gpu(f"g-{name}"),))
    assert "(node a)" in impossible(a_shape(whole(2)), ledger)


@examples(150)
@given(NODES, CLAIMS)
def test_what_fits_an_empty_cluster_is_not_impossible(nodes: Nodes, claim: GpuClaim) -> None:
    shape = a_shape(claim)
    empty = random_cluster([(cards, []) for cards, _ in nodes]).ledger
    fits = Evaluator(PROFILES["default"], empty).best(shape) is not None
    said = impossible(shape, empty)
    assert not (fits and said)
    # However much is held, the same is said of the same cards.
    held = random_cluster(nodes).ledger
    assert impossible(shape, held).partition("(")[0] == said.partition("(")[0]


@examples(300)
@given(NODES, st.lists(CLAIMS, min_size=2, max_size=4), st.sampled_from(CardRelation))
def test_claims_that_fit_an_empty_cluster_are_not_impossible(
    nodes: Nodes, claims: list[GpuClaim], relation: CardRelation
) -> None:
    if relation is SAME:  # then none of them can have the cards alone
        claims = [replace(one, count=claims[0].count, exclusive=False) for one in claims]
    shape = a_shape(*claims, relation=relation)
    empty = random_cluster([(cards, []) for cards, _ in nodes]).ledger
    fits = Evaluator(PROFILES["default"], empty).best(shape) is not None
    said = impossible(shape, empty)
    assert not (fits and said)
    held = random_cluster(nodes).ledger
    assert impossible(shape, held).partition("(")[0] == said.partition("(")[0]


def test_amounts_that_are_compared_look_different_if_they_are() -> None:
    assert amounts("memory", 31 * GIB, 31 * GIB) == ("31 GiB", "31 GiB")
    assert amounts("memory", 30_900_000_000, 30_899_999_999) == (
        "30900000000 bytes",
        "30899999999 bytes",
    )
    for asked, there in ((30_920_000_000, 30_918_000_000), (3 * GIB, 3 * GIB - (1 << 20))):
        needed, most = amounts("memory", asked, there)
        assert float(needed.removesuffix(" GiB")) > float(most.removesuffix(" GiB"))
    assert amounts("cpu", 100_000_001, 100_000_000) == ("100000.001", "100000")
