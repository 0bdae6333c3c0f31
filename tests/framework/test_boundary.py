"""What a plugin does wrong becomes one exception that names it, and is counted."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_plugins.priority_sort import PrioritySort
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.printable import MAX_TEXT
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.domain.values import replace
from kubeshare_py.framework.adapters import PerNodeFilter, PerNodeScore
from kubeshare_py.framework.answer_checks import SortKeys
from kubeshare_py.framework.boundary import Boundary, Failures, PluginFailed
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.framework.points import (
    ByHeadroom,
    CardPredicate,
    CardPreselection,
    CardSetScore,
    Depends,
)
from kubeshare_py.framework.scheduler_profile import Profile
from tests.framework.test_evaluator import PROFILES, SHAPES
from tests.making import a_claim, a_node, a_shape, some_gpus, whole
from tests.plugins.random_clusters import CLAIMS, NODES, Nodes, random_cluster
from tests.scale import examples

K = 16  # rows of a small ledger
ONE, SEVERAL = a_shape(a_claim(300)), a_shape(whole(2))


class Plugin:
    """Answers as it is told to, at the point where it is listed."""

    depends = Depends.ROW
    normaliser: Any = None

    def __init__(self, answer: Any, prepared: Any = None) -> None:
        self.name = "Odd"
        self.answer = answer
        self.prepared = prepared

    def question(self, *args: object) -> Any:
        if self.prepared is not None:
            return self.prepared
        return lambda *asked: self.answer

    def filter(self, shape: Shape, reasons: Any) -> Any:
        return self.question()

    def card_filter(self, shape: Shape, reasons: Any) -> Any:
        if self.prepared is not None:
            return self.prepared
        return CardPredicate(lambda rows: self.answer, lambda rows: self.answer)

    def score(self, shape: Shape) -> Any:
        return self.question()

    def card_score(self, shape: Shape) -> Any:
        return self.question()


def a_ledger() -> Ledger:
    ledger = Ledger()
    for name in ("n1", "n2"):
        ledger.put_node(a_node(name))
        ledger.put_cards(NodeName(name), some_gpus(name, 3))
    assert ledger.columns.rows == K
    return ledger


def evaluator(**points: Any) -> Evaluator:
    default = PROFILES["no scores"]
    given: dict[str, Any] = {
        "filters": default.filters,
        "card_filters": default.card_filters,
        "trusted": default.trusted,
    }
    for point, plugin in points.items():
        weighted = point in ("scores", "card_scores")
        given[point] = [*given.get(point, ()), (plugin, 1) if weighted else plugin]
    profile = Profile(scheduler_name="test", queue_sort=PrioritySort(), **given)
    return Evaluator(profile, a_ledger())


def fails(shape: Shape, **points: Any) -> str:
    """What is said of a shape that fits but for a plugin; another one is not concerned."""
    found = evaluator(**points)
    assert found.best(shape) is None
    assert list(found.failed) == [shape]
    assert found.boundary.failures.total >= 1
    assert not (found.row_scores(shape) >= 0).any()
    assert not found.fits_any(shape, np.arange(K))
    with pytest.raises(PluginFailed):
        found.negated_masks_on(shape, found_rows(found))
    diagnosis = found.diagnose(shape)
    assert diagnosis.plugins == ("Odd",)
    assert diagnosis.reasons == {"plugin Odd failed"}
    return diagnosis.message.removeprefix("plugin Odd failed: ")


def found_rows(found: Evaluator) -> Any:
    return found._ledger.what_if(np.arange(2))


def raising(*asked: object) -> Any:
    raise ValueError("cannot\nread   this")


@pytest.mark.parametrize("point", ["filters", "card_filters", "scores", "card_scores"])
@pytest.mark.parametrize("shape", [ONE, SEVERAL])
def test_what_is_raised_names_the_plugin_wherever_it_is_raised(point: str, shape: Shape) -> None:
    question: Any = raising
    if point == "card_filters":
        question = CardPredicate(raising, raising)
    text = "ValueError: cannot read this"
    assert fails(shape, **{point: Plugin(None, question)}) == text


@pytest.mark.parametrize(
    ("point", "shape", "answer", "said"),
    [
        ("filters", ONE, np.zeros(3, np.int64), "(3,), not an array of integers of shape (16,)"),
        ("filters", ONE, np.ones(K, np.bool_), "an array of bool of shape"),
        ("filters", ONE, np.full(K, 1 << 40), "1099511627776, not bits that it registered"),
        ("filters", ONE, np.full(K, -1), "-1, not bits that it registered"),
        ("filters", ONE, 0, "0, not an array of integers of shape"),
        ("scores", ONE, None, "None, not an array of integers of shape"),
        ("scores", ONE, np.full(K, 0.5), "an array of float64 of shape (16,), not"),
        ("scores", ONE, np.full(K, np.nan), "an array of float64 of shape (16,), not"),
        ("scores", ONE, np.full((K, 1), 1), "an array of int64 of shape (16, 1), not"),
        ("scores", ONE, np.full(K, 101), "101, not 0 to 100"),
        ("scores", ONE, np.full(K, -1), "-1, not 0 to 100"),
        ("card_filters", ONE, None, "None, not an array of bool of shape (16, 3)"),
        ("card_filters", SEVERAL, np.ones((K, 3), np.int64), "not an array of bool"),
        ("card_filters", SEVERAL, np.ones((K, 2), np.bool_), "not an array of bool"),
        ("card_scores", ONE, np.ones(K, np.int64), "not an array of integers of shape (16, 3)"),
        ("card_scores", ONE, np.full((K, 3), -7), "-7, below 0"),
    ],
)  # fmt: skip
def test_wrong_answers_are_failures(point: str, shape: Shape, answer: Any, said: str) -> None:
    text = fails(shape, **{point: Plugin(answer)})
    assert text.startswith("answered ")
    assert said in text


@pytest.mark.parametrize(
    ("point", "prepared", "said"),
    [
        ("filters", 5, "answered 5, not a function or None"),
        ("scores", "x", "answered 'x', not a function or None"),
        ("card_filters", raising, "not a CardPredicate or None"),
        (
            "card_filters",
            CardPredicate(raising, raising, 5000),
            "answered 5000, not a least_headroom",
        ),
        ("card_scores", ByHeadroom(np.ones(7, np.int64)), "not 1001 ranks of 0 or more"),
        ("card_scores", ByHeadroom(np.full(1001, -1)), "not 1001 ranks of 0 or more"),
        ("card_scores", CardSetScore(lambda rows, fits: (0, 0)), "(0, 0), not 2 different cards"),
        ("card_scores", CardSetScore(lambda rows, fits: (0,)), "(0,), not 2 different cards"),
        ("card_scores", CardSetScore(lambda rows, fits: (0, 9)), "(0, 9), not 2 different cards"),
        ("card_scores", CardSetScore(raising), "ValueError: cannot read this"),
        (
            "card_scores",
            CardPreselection(lambda rows, fits: fits & False),
            "at least 2 of the cards",
        ),
        ("card_scores", CardPreselection(lambda rows, fits: fits[:1]), "at least 2 of the cards"),
        ("card_scores", CardPreselection(raising), "ValueError: cannot read this"),
    ],
)
def test_what_is_prepared_is_checked_too(point: str, prepared: Any, said: str) -> None:
    assert said in fails(SEVERAL, **{point: Plugin(None, prepared)})


def test_a_score_of_rows_that_do_not_fit_does_not_matter() -> None:
    found = evaluator(scores=Plugin(np.array([50, 50] + [-1] * (K - 2))))
    assert found.best(ONE) is not None
    assert not found.failed


def test_a_function_of_one_node_names_the_node() -> None:
    def points(shape: Shape, node: Any) -> int:
        return 100 - int("cheap" if node.name == "n2" else 30)

    found = evaluator(scores=PerNodeScore("Cheap", points))
    text = "plugin Cheap failed on node n2: ValueError: invalid literal for int() with base 10: "
    assert found.best(ONE) is None
    assert found.diagnose(ONE).message == f"{text}'cheap'"
    assert found.failed[ONE].node == "n2"


@pytest.mark.parametrize(
    ("answer", "said"),
    [(None, "None, not an integer"), (0.5, "0.5, not"), (float("nan"), "nan, not"), ("7", "'7'")],
)
def test_a_function_of_one_node_answers_integers(answer: Any, said: str) -> None:
    found = evaluator(scores=PerNodeScore("Cheap", lambda shape, node: answer))
    assert found.diagnose(ONE).message.startswith(
        f"plugin Cheap failed on node n1: answered {said}"
    )
    fits = PerNodeFilter("Disk", lambda shape, node: answer, reason="node(s) had no disk")
    found = evaluator(filters=fits)
    assert "not True or False" in found.diagnose(ONE).message


def test_a_shape_that_failed_is_not_asked_about_until_it_is_tried_again() -> None:
    asked: list[str] = []
    broken = True

    def points(shape: Shape, node: Any) -> int:
        asked.append(node.name)
        return int("x") if broken and node.name == "n1" else 1

    found = evaluator(scores=PerNodeScore("Cheap", points))
    for _ in range(3):
        assert found.best(ONE) is None
        found._ledger.put_node(a_node("n1", labels={"a": str(len(asked))}))
        found.masks(ONE)
        found.reason_set(ONE)
    assert asked == ["n1"]
    broken = False
    found.retry(ONE)
    assert found.best(ONE) is not None
    assert asked == ["n1", "n1", "n2"]
    assert not found.failed


def test_a_hint_or_a_bound_that_fails_lets_the_shape_be_tried() -> None:
    class Odd(Plugin):
        def queueing_hint(self, shape: Shape, row: Rows) -> bool:
            raise KeyError(row.index.item())

        def capacity_bound(self, shape: Shape) -> Any:
            raise KeyError("x")

    found = evaluator(filters=Odd(None))
    assert found.may_fit(ONE, 0)
    with pytest.raises(PluginFailed, match="plugin Odd failed: KeyError: 'x'"):
        found.bounds(ONE)
    assert found.boundary.failures.counts == {
        ("Odd", "QueueingHint"): 1,
        ("Odd", "CapacityBound"): 1,
    }


def test_texts_are_bounded_and_on_one_line() -> None:
    class Bad(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    boundary = Boundary()

    def long() -> None:
        raise ValueError("x\n" * 1000)

    with pytest.raises(PluginFailed) as failed:
        boundary.call(Plugin(None), "Filter", None, long)
    assert len(failed.value.cause) == MAX_TEXT
    assert "\n" not in failed.value.cause

    def bad() -> None:
        raise Bad

    with pytest.raises(PluginFailed, match="Bad: its text cannot be read"):
        boundary.call(Plugin(None), "Filter", None, bad)


def test_what_ends_the_process_is_not_caught() -> None:
    def cancelled() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Boundary().call(Plugin(None), "Filter", None, cancelled)


def test_failures_are_logged_once_a_minute_with_their_number() -> None:
    failures = Failures()
    assert failures.to_log(0.0) == []
    first = PluginFailed("A", "Score", "x")
    failures.add(first)
    assert failures.to_log(0.0) == [(first, 1)]
    other = PluginFailed("A", "Filter", "y")
    for _ in range(5):
        failures.add(first)
        failures.add(other)
    assert failures.to_log(30.0) == [(other, 5)]
    assert failures.to_log(59.0) == []
    assert failures.to_log(60.0) == [(first, 5)]
    assert failures.to_log(1000.0) == []
    assert failures.counts == {("A", "Score"): 6, ("A", "Filter"): 5}


@pytest.mark.parametrize("key", [None, (), (1, None), (1, 0.5), "k", (1, "u", 3), ("u", 1)])
def test_keys_that_cannot_be_compared_are_refused(key: object) -> None:
    keys = SortKeys()
    assert keys.check((1, "u")) is None
    assert keys.check((np.int64(2), "v")) is None
    assert keys.check(key) is not None
    assert keys.last("uid") > (1 << 40, "z")


@pytest.mark.slow
@examples(60)
@given(NODES, st.lists(CLAIMS, max_size=3))
def test_plugins_of_this_project_answer_as_their_contracts_say(
    nodes: Nodes, claims: list[GpuClaim]
) -> None:
    ledger = random_cluster(nodes).ledger
    for profile in PROFILES.values():
        found = Evaluator(replace(profile, trusted=frozenset()), ledger)
        for shape in (*SHAPES, *(a_shape(claim) for claim in claims)):
            found.best(shape)
            found.masks(shape)
            found.headroom(shape, ledger.what_if(np.arange(ledger.columns.rows)))
        assert not found.failed
        assert found.boundary.failures.total == 0


def _overwrite(array: Any) -> Any:
    array[...] = 0
    return array


@pytest.mark.parametrize(
    ("shape", "point", "answer"),
    [
        (ONE, "filters", lambda rows: _overwrite(rows.free)),
        (ONE, "card_filters", lambda rows: _overwrite(rows.flags)),
        (ONE, "card_scores", lambda rows: _overwrite(rows.headroom)),
        (ONE, "scores", lambda rows, cards: _overwrite(rows.idle_cards)),
        (ONE, "scores", lambda rows, cards: _overwrite(cards.slot)),
        (ONE, "scores", lambda rows, cards: _overwrite(cards.picked)),
        (SEVERAL, "card_scores", CardSetScore(lambda rows, fits: _overwrite(fits))),
        (SEVERAL, "card_scores", CardPreselection(lambda rows, fits: _overwrite(fits))),
        (ONE, "scores", lambda rows, cards: rows.fre_milli),
    ],
)
def test_a_plugin_that_writes_to_its_arguments_fails(shape: Shape, point: str, answer: Any) -> None:
    prepared = CardPredicate(answer, answer) if point == "card_filters" else answer
    text = fails(shape, **{point: Plugin(None, prepared)})
    assert "read-only" in text or "no attribute 'fre_milli'" in text


def test_a_raw_score_may_be_a_column_or_an_array_that_the_plugin_keeps() -> None:
    kept = np.zeros(K, np.int64)
    for question in (lambda rows, cards: rows.idle_cards, lambda rows, cards: kept[rows.index]):
        raw = Plugin(None, question)
        raw.normaliser = np.zeros_like
        found = evaluator(scores=raw)
        assert found.best(ONE) is not None
        before = found.tables.columns.idle_cards.copy()
        found._ledger.changed.add(0)
        assert found.best(ONE) is not None
        assert found.tables.columns.idle_cards.tolist() == before.tolist()


def broken(*_: object) -> Any:
    raise KeyError("prices")


@pytest.mark.parametrize("is_guarded", [True, False])
@pytest.mark.parametrize("stopwatch", [None, lambda: 0.0])
def test_a_traceback_is_the_same_whether_or_not_plugins_are_timed(
    stopwatch: Any, is_guarded: bool
) -> None:
    boundary = Boundary()
    boundary.stopwatch = stopwatch
    question = boundary.guarded(Plugin(None), "Filter", None, broken)
    with pytest.raises(PluginFailed) as caught:
        boundary.call(Plugin(None), "Filter", None, question if is_guarded else broken)
    line = broken.__code__.co_firstlineno + 1
    assert caught.value.traceback == f"{__name__}:{line} in broken"
    assert PluginFailed("Odd", "Filter", "answered 7, not None").traceback == ""


def test_a_failure_within_another_call_is_one_failure() -> None:
    boundary = Boundary()
    inner = boundary.guarded(Plugin(None), "Score", None, broken)
    with pytest.raises(PluginFailed) as caught:
        boundary.call(Plugin(None), "Filter", None, inner)
    assert (caught.value.point, caught.value.kind) == ("Score", "KeyError")
    assert boundary.failures.counts == {("Odd", "Score"): 1}
    assert caught.value.traceback.endswith(" in broken")


def test_an_exception_that_is_its_own_cause_is_logged_too() -> None:
    def circular(*_: object) -> Any:
        first, second = KeyError("prices"), ValueError("price")
        first.__cause__, second.__cause__ = second, first
        raise first

    with pytest.raises(PluginFailed, match="KeyError: 'prices'") as caught:
        Boundary().call(Plugin(None), "Filter", None, circular)
    assert caught.value.kind == "ValueError"
    assert caught.value.traceback == ""
