"""The test kit says what is wrong."""

from collections.abc import Callable

import numpy as np
import pytest

from kubeshare_py.plugin import (
    CardPredicate,
    Depends,
    PerNodeFilter,
    PerNodeScore,
    ReasonTable,
    RowFilter,
    Rows,
    Shape,
)
from kubeshare_py.testing import (
    SmallCluster,
    a_claim,
    a_shape,
    expect_best,
    expect_contract,
    expect_failure,
    expect_fits,
    expect_reason,
    expect_score,
)

ONE = a_shape(a_claim(300))
NO_DISK = "node(s) had no disk"


def a_cluster(*plugins: object) -> SmallCluster:
    cluster = SmallCluster(*plugins)
    cluster.cards("n1", 1)
    cluster.node("n2", labels={"disk": "fast"})
    return cluster


def disks() -> PerNodeFilter:
    return PerNodeFilter("Disk", lambda shape, node: node.label("disk") is not None, reason=NO_DISK)


def names() -> PerNodeScore:
    return PerNodeScore("Names", lambda shape, node: 7 if node.name == "n1" else 9)


def broken() -> PerNodeScore:
    return PerNodeScore("Broken", lambda shape, node: int("x"))


def test_what_is_so_is_accepted() -> None:
    cluster = a_cluster(disks(), names())
    expect_fits(cluster, a_shape(), {"n2"})
    expect_reason(cluster, a_shape(), NO_DISK)
    expect_score(cluster, a_shape(), {"n1": 7, "n2": 9})
    expect_score(cluster, a_shape(), {"n1": 7, "n2": 9}, "Names")
    expect_best(cluster, a_shape(), "n2")
    expect_contract(cluster, a_shape())
    expect_contract(cluster, ONE)
    said = "plugin Broken failed on node n1: ValueError: invalid literal for int() with base 10:"
    expect_failure(a_cluster(broken()), ONE, f"{said} 'x'")


@pytest.mark.parametrize(
    ("check", "said"),
    [
        (lambda one: expect_fits(one, a_shape(), {"n1"}), "the shape fits {'n2'}, not {'n1'}"),
        (
            lambda one: expect_reason(one, a_shape(), NO_DISK, 2),
            "2 nodes were to say 'node(s) had no disk', but reasons are {'node(s) had no disk': 1}",
        ),
        (
            lambda one: expect_score(one, a_shape(), {"n1": 7}),
            "the points of nodes are {'n1': 7, 'n2': 9}, not {'n1': 7}",
        ),
        (
            lambda one: expect_best(one, a_shape(), "n1", ["n1-0"]),
            "the best place is ('n2', []), not ('n1', ['n1-0'])",
        ),
        (lambda one: expect_failure(one, a_shape(), "x"), "the failure is '', not 'x'"),
    ],
)
def test_what_is_not_so_is_told(check: Callable[[SmallCluster], None], said: str) -> None:
    with pytest.raises(AssertionError) as caught:
        check(a_cluster(disks(), names()))
    assert str(caught.value) == said


@pytest.mark.parametrize(
    "check",
    [
        lambda one: expect_fits(one, ONE, {"n1"}),
        lambda one: expect_best(one, ONE, "n1"),
        lambda one: expect_score(one, ONE, {}),
        lambda one: expect_contract(one, ONE),
    ],
)
def test_a_plugin_that_fails_is_told_of_by_all(check: Callable[[SmallCluster], None]) -> None:
    with pytest.raises(AssertionError, match="plugin Broken failed on node n1"):
        check(a_cluster(broken()))


class Contrary:
    """Breaks the contract in one way."""

    name = "Contrary"
    depends = Depends.ROW

    def __init__(self, way: str) -> None:
        self.way = way
        self.times = 0

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        mask = reasons.register(self.name, "no")

        def ask(rows: Rows) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
            self.times += 1
            refused = np.zeros(len(rows.index), np.int64)
            if self.way == "times":
                refused[:] = mask * (self.times % 2)
            if self.way == "neighbours":
                refused[:] = mask * (len(refused) == 1)
            return refused

        return ask

    def card_filter(self, shape: Shape, reasons: ReasonTable) -> CardPredicate | None:
        mask = reasons.register(self.name, "not this card") * (self.way == "reasons")
        return CardPredicate(lambda rows: rows.flags == 0, lambda rows: rows.flags * 0 + mask)

    def queueing_hint(self, shape: Shape, row: Rows) -> bool:
        return self.way != "hint"


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("times", "asked again, answers are"),
        ("neighbours", "asked about n1 alone, the answer is"),
        ("hint", "a queueing hint rules out n1, where the shape fits"),
        ("reasons", "Contrary: card n1-0 fits, but it has a reason"),
    ],
)
def test_a_broken_contract_is_told(way: str, said: str) -> None:
    with pytest.raises(AssertionError) as caught:
        expect_contract(a_cluster(Contrary(way)), ONE)
    assert str(caught.value).startswith(said)
