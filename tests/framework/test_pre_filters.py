"""PreFilter: one value per shape, for the plugin's other methods."""

from typing import Any

import numpy as np

from kubeshare_py.plugin import CardPredicate, Depends, ReasonTable, Rows, Shape
from kubeshare_py.testing import (
    SmallCluster,
    a_claim,
    a_shape,
    expect_best,
    expect_failure,
    expect_fits,
    whole,
)


class Cheapest:
    """A filter and a score that both need the same value, at every point that gets it."""

    name = "Cheapest"
    depends = Depends.ROW
    normaliser = None

    def __init__(self) -> None:
        self.asked: list[Shape] = []
        self.given: list[tuple[str, object]] = []

    def pre_filter(self, shape: Shape) -> int:
        self.asked.append(shape)
        return len(self.asked)

    def filter(self, shape: Shape, reasons: ReasonTable, value: int) -> None:
        self.given.append(("filter", value))

    def card_filter(self, shape: Shape, reasons: ReasonTable, value: int) -> CardPredicate:
        self.given.append(("card_filter", value))
        return CardPredicate(lambda rows: rows.flags == 0, lambda rows: rows.flags * 1)

    def card_score(self, shape: Shape, value: int) -> None:
        self.given.append(("card_score", value))

    def score(self, shape: Shape, value: int) -> Any:
        self.given.append(("score", value))
        return lambda rows, cards: np.full(len(rows.index), value)


def a_cluster(plugin: object) -> SmallCluster:
    cluster = SmallCluster(plugin)
    cluster.cards("n1", 2)
    return cluster


def test_the_value_is_made_once_for_a_shape_and_given_to_each_method() -> None:
    plugin = Cheapest()
    cluster = a_cluster(plugin)
    one, other = a_shape(a_claim(300)), a_shape(whole(2))
    for shape in (one, one, other):
        expect_best(cluster, shape, "n1", ["n1-0", "n1-1"][: 1 if shape is one else 2])
    assert plugin.asked == [one, other]
    points = ("filter", "card_filter", "card_score", "score")
    assert plugin.given == [(point, value) for value in (1, 2) for point in points]


def test_each_of_several_claims_has_a_value_of_its_own() -> None:
    plugin = Cheapest()
    small, large = a_claim(300), a_claim(700)
    expect_fits(a_cluster(plugin), a_shape(small, large), {"n1"})
    assert plugin.asked[0] == a_shape(small, large)
    assert [shape.claim for shape in plugin.asked[1:]] == [small, large]


def test_a_value_that_cannot_be_made_is_a_failure() -> None:
    class Broken(Cheapest):
        def pre_filter(self, shape: Shape) -> int:
            raise KeyError("prices")

    cluster = a_cluster(Broken())
    expect_failure(cluster, a_shape(), "plugin Cheapest failed: KeyError: 'prices'")
    assert cluster.evaluator.boundary.failures.counts == {("Cheapest", "PreFilter"): 1}


def test_a_plugin_without_it_gets_no_further_argument() -> None:
    class Plain:
        name = "Plain"
        normaliser = None

        def score(self, shape: Shape) -> Any:
            return lambda rows, cards: points(rows)

    def points(rows: Rows) -> Any:
        return rows.unschedulable

    assert a_cluster(Plain()).scores(a_shape()) == {"n1": 0}
