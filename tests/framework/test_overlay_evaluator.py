"""Answers about an overlay are those of an evaluator that asks everything anew."""

from itertools import zip_longest

from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.cluster.overlay import Overlay
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.framework.headroom import Headroom
from kubeshare_py.framework.overlay_evaluator import OverlayEvaluator, OverlayHeadroom
from tests.cluster.history import PODS, STEPS, History, Step
from tests.framework.test_evaluator import PROFILES, SHAPES
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
    anew = Evaluator(PROFILES[name], history.ledger, tables=overlay)
    for shape in SHAPES:
        assert asked.keys(shape).tolist() == anew.keys(shape).tolist()
        assert asked.best(shape) == anew.best(shape)
        assert asked.masks(shape).tolist() == anew.masks(shape).tolist()


@examples(60)
@given(st.sampled_from(sorted(PROFILES)), STEPS, REMOVED)
def test_answers_follow_what_is_tried_and_what_happens_below(
    name: str, steps: list[Step], removed: list[PodUid]
) -> None:
    history = History()
    history.begin()
    below = Evaluator(PROFILES[name], history.ledger)
    overlay = Overlay(history.ledger)
    asked = OverlayEvaluator(history.ledger, overlay, below)
    for step, uid in zip_longest(steps, removed[: len(steps)]):
        history.step(step)
        follow(overlay, history, uid)
        expect_as_asked_anew(asked, overlay, history, name)
        for shape in SHAPES:
            anew = Evaluator(PROFILES[name], history.ledger).keys(shape)
            assert below.keys(shape).tolist() == anew.tolist()


@examples(40)
@given(STEPS, REMOVED)
def test_headroom_follows_too(steps: list[Step], removed: list[PodUid]) -> None:
    history = History()
    history.begin()
    below = Evaluator(PROFILES["default"], history.ledger)
    overlay = Overlay(history.ledger)
    above = OverlayEvaluator(history.ledger, overlay, below)
    rooms = OverlayHeadroom(history.ledger, overlay, above, Headroom(history.ledger, below))
    for step, uid in zip_longest(steps, removed[: len(steps)]):
        history.step(step)
        follow(overlay, history, uid)
        anew = Headroom(
            history.ledger, Evaluator(PROFILES["default"], history.ledger, tables=overlay)
        )
        for shape in SHAPES:
            assert rooms.rows(shape).tolist() == anew.rows(shape).tolist()
