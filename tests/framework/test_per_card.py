"""Card filters and card scores from one plain function of one card."""

import pytest

from kubeshare_py.plugin import CardState, NodeState, PerCardFilter, PerCardScore, Shape
from kubeshare_py.testing import (
    GIB,
    SmallCluster,
    a_claim,
    a_gpu,
    a_shape,
    expect_best,
    expect_contract,
    expect_failure,
    expect_fits,
    expect_reason,
    whole,
)

ONE = a_shape(a_claim(300))


def is_new(shape: Shape, node: NodeState, card: CardState) -> bool:
    return card.model == "H100"


def new_only(fits: object = is_new) -> PerCardFilter:
    return PerCardFilter("NewOnly", fits, reason="GPU is old")  # type: ignore[arg-type]


def test_a_card_filter_is_one_function() -> None:
    cluster = SmallCluster(new_only())
    cluster.node("old", a_gpu("a", model="T4"))
    cluster.node("mixed", a_gpu("b", model="T4"), a_gpu("c", index=1, model="H100"))
    expect_fits(cluster, ONE, {"mixed"})
    expect_best(cluster, ONE, "mixed", ["c"])
    expect_reason(cluster, a_shape(whole(2)), "GPU is old", 2)
    expect_contract(cluster, ONE)
    expect_contract(cluster, a_shape(whole(2)))


def test_an_empty_slot_is_no_nearer_miss_than_a_card() -> None:
    cluster = SmallCluster(new_only())
    cluster.node("one", a_gpu("a", model="T4"))
    cluster.cards("wide", 3, model="T4")
    cluster.node("none")
    expect_fits(cluster, a_shape(whole(2)), set())
    # A node without cards has another reason.
    expect_reason(cluster, a_shape(whole(2)), "GPU is old", 2)


def test_a_card_score_is_one_function() -> None:
    cluster = SmallCluster(PerCardScore("Cool", lambda shape, node, card: card.tenants * 10))
    cluster.cards("n1", 3)
    cluster.hold("n1", "n1-1", 100)
    assert cluster.card_scores(ONE) == {"n1-0": 0, "n1-1": 10, "n1-2": 0}
    expect_best(cluster, ONE, "n1", ["n1-1"])
    expect_contract(cluster, ONE)


@pytest.mark.parametrize(("answer", "score"), [(-3, 0), (101, 100), (42, 42)])
def test_points_are_cut_to_0_and_100(answer: int, score: int) -> None:
    cluster = SmallCluster(PerCardScore("Wild", lambda shape, node, card: answer))
    cluster.cards("n1", 1)
    assert cluster.card_scores(ONE) == {"n1-0": score}


def test_what_a_function_can_read() -> None:
    seen: list[tuple[str, CardState]] = []

    def look(shape: Shape, node: NodeState, card: CardState) -> bool:
        seen.append((node.name, card))
        return True

    cluster = SmallCluster(PerCardFilter("Look", look, reason="never"))
    cluster.node("n1", a_gpu("a", model="T4", numa_node=1))
    cluster.hold("n1", "a", 300, memory=GIB)
    cluster.hold("n1", "gone", 300)
    expect_fits(cluster, ONE, {"n1"})
    assert {name for name, _ in seen} == {"n1"}
    assert {card for _, card in seen} == {
        CardState(
            uuid=seen[0][1].uuid,
            model="T4",
            numa_node=1,
            capacity_bytes=40 * GIB,
            free_milli=700,
            free_bytes=39 * GIB,
            tenants=1,
            healthy=True,
            exclusive=False,
        )
    }


def test_only_cards_of_rows_that_changed_are_asked_about_again() -> None:
    asked: list[str] = []

    def listen(shape: Shape, node: NodeState, card: CardState) -> int:
        asked.append(card.uuid)
        return 1

    cluster = SmallCluster(PerCardScore("Listen", listen))
    cluster.cards("n1", 2)
    cluster.cards("n2", 1)
    expect_best(cluster, ONE, "n1", ["n1-0"])
    assert asked == ["n1-0", "n1-1", "n2-0"]
    asked.clear()
    cluster.hold("n2", "n2-0", 100)
    expect_best(cluster, ONE, "n1", ["n1-0"])
    assert asked == ["n2-0"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda card: int("cheap"), "ValueError: invalid literal for int() with base 10: 'cheap'"),
        (lambda card: None, "answered None, not {}"),
        (lambda card: "x", "answered 'x', not {}"),
    ],
)
def test_a_failure_names_the_node_and_the_card(answer: object, said: str) -> None:
    assert callable(answer)
    for plugin, wanted in (
        (new_only(lambda shape, node, card: answer(card)), "True or False"),
        (PerCardScore("NewOnly", lambda shape, node, card: answer(card)), "an integer"),
    ):
        cluster = SmallCluster(plugin)
        cluster.cards("n1", 1)
        text = f"plugin NewOnly failed on node n1: card n1-0: {said.format(wanted)}"
        expect_failure(cluster, ONE, text)
