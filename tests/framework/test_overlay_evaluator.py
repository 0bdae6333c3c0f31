"""Answers about an overlay are those of an evaluator that asks everything anew."""

from itertools import zip_longest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.overlay import Overlay
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.framework.boundary import PluginFailed
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.framework.result_cache import SHAPES_KEPT
from kubeshare_py.framework.snapshot import Headroom, Snapshot, WithoutReservations
from tests.cluster.history import PODS, STEPS, History, Step
from tests.framework.test_evaluator import PROFILES, SHAPES
from tests.making import a_claim, a_gpu, a_node, a_shape
from tests.scale import examples

REMOVED = st.lists(st.sampled_from(PODS), max_size=8)


def follow(overlay: Overlay, history: History, removed: PodUid | None) -> None:
    """Show the ledger, without this pod."""
    overlay.follow()
    charge = None if removed is None else history.ledger.charge_of(removed)
    row = None if charge is None else overlay.columns.row_of.get(charge.node)
    if row is not None and charge is not None:
        overlay.remove(row, charge)


def expect_as_asked_anew(asked: Evaluator, overlay: Overlay, history: History, name: str) -> None:
    anew = Evaluator(PROFILES[name], history.ledger, overlay=overlay)
    for shape in SHAPES:
        assert asked.row_scores(shape).tolist() == anew.row_scores(shape).tolist()
        assert asked.best(shape) == anew.best(shape)
        assert asked.masks(shape).tolist() == anew.masks(shape).tolist()


@pytest.mark.slow
@examples(60)
@given(st.sampled_from(sorted(PROFILES)), STEPS, REMOVED)
def test_answers_follow_what_is_tried_and_what_happens_below(
    name: str, steps: list[Step], removed: list[PodUid]
) -> None:
    history = History()
    history.begin()
    below = Evaluator(PROFILES[name], history.ledger)
    overlay = Overlay(history.ledger)
    asked = Evaluator(PROFILES[name], history.ledger, overlay=overlay, below=below)
    for step, uid in zip_longest(steps, removed[: len(steps)]):
        history.step(step)
        follow(overlay, history, uid)
        expect_as_asked_anew(asked, overlay, history, name)
        for shape in SHAPES:
            anew = Evaluator(PROFILES[name], history.ledger).row_scores(shape)
            assert below.row_scores(shape).tolist() == anew.tolist()


@pytest.mark.slow
@examples(40)
@given(STEPS, REMOVED)
def test_headroom_follows_too(steps: list[Step], removed: list[PodUid]) -> None:
    history = History()
    history.begin()
    below = Evaluator(PROFILES["default"], history.ledger)
    overlay = Overlay(history.ledger)
    above = Evaluator(PROFILES["default"], history.ledger, overlay=overlay, below=below)
    rooms = Headroom(history.ledger, above, Headroom(history.ledger, below))
    for step, uid in zip_longest(steps, removed[: len(steps)]):
        history.step(step)
        follow(overlay, history, uid)
        anew = Headroom(
            history.ledger, Evaluator(PROFILES["default"], history.ledger, overlay=overlay)
        )
        for shape in SHAPES:
            assert rooms.rows(shape).tolist() == anew.rows(shape).tolist()


class Tables:
    """One node with a card, and an evaluator of an overlay above another one."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.ledger.put_node(a_node("n1"))
        self.ledger.put_cards(NodeName("n1"), (a_gpu("a"),))
        self.base = Evaluator(PROFILES["default"], self.ledger)
        self.snapshot = WithoutReservations(Snapshot(self.ledger, self.ledger, {"s": self.base}))
        self.kept = self.snapshot.evaluators["s"]
        self.trial = self.snapshot.trial().evaluators["s"]
        self.shape = a_shape(a_claim(300))
        self.failure = PluginFailed("Broken", "filter", "it is Monday")


def test_a_failure_counts_above_and_below() -> None:
    tables = Tables()
    for failing in (tables.base, tables.kept, tables.trial):
        every = (tables.base, tables.kept, tables.trial)
        assert all(one.best(tables.shape) is not None for one in every)
        failing.fail(tables.shape, tables.failure)
        assert [one.best(tables.shape) for one in every] == [None] * 3
        assert [tables.shape in one.failed for one in every] == [True] * 3
        tables.base.retry(tables.shape)


def test_a_failure_that_was_dropped_below_is_dropped_above() -> None:
    tables = Tables()
    tables.kept.fail(tables.shape, tables.failure)
    for milli in range(SHAPES_KEPT):
        tables.base.best(a_shape(a_claim(400 + milli)))
    assert tables.shape not in tables.base.failed
    assert tables.kept.best(tables.shape) is not None
    assert tables.snapshot.rooms["s"].total(tables.shape) == 3


def test_the_ledgers_rule_is_added_at_every_level() -> None:
    tables = Tables()
    for one in (tables.base, tables.kept, tables.trial):
        one.best(tables.shape)
    tables.trial.add_ledger_filter()
    profiles = [one.profile for one in (tables.base, tables.kept, tables.trial)]
    assert profiles[0] is not PROFILES["default"]
    assert profiles[1] is profiles[2] is profiles[0]
    assert not tables.trial.knows(tables.shape)


def test_answers_of_one_moment_have_one_change_number() -> None:
    tables = Tables()
    for amount in (1, 2):
        tables.ledger.charge(PodUid("p"), NodeName("n1"), (("cpu", amount),), None)
        tables.snapshot.follow()
        numbers = {one.changes for one in (tables.base, tables.kept, tables.trial)}
        assert numbers == {tables.ledger.changed.end}
