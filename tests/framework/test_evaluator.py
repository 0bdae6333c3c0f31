"""Remembered answers: the same as fresh ones, at the cost of what changed."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_plugins import IN_TREE
from kubeshare_plugins.priority_sort import PrioritySort
from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.domain.cluster_objects import Requirement
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.node import Taint
from kubeshare_py.domain.pod import NodeTerm, Shape, Toleration
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.framework.points import BestCards, Depends, Normaliser, RowScore
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.framework.result_cache import SHAPES_KEPT
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.framework.scores import maximum, reverse
from tests.cluster.history import STEPS, History, Step
from tests.making import a_claim, a_gpu, a_node, a_shape, some_gpus, whole
from tests.scale import examples

ZONE = Requirement("zone", "NotIn", ("1", "2"))
SHAPES = (
    a_shape(),
    a_shape(cpu=900),
    a_shape(resources=(("example.com/nic", 3),)),
    a_shape(resources=(("example.com/unheard-of", 1),)),
    a_shape(a_claim(300)),
    a_shape(a_claim(0)),
    a_shape(a_claim(900, memory_bytes=10), cpu=0),
    a_shape(a_claim(100, models=("T4",))),
    a_shape(a_claim(200), guarantee=True),
    a_shape(whole(1), cpu=0),
    a_shape(whole(2), cpu=0),
    a_shape(a_claim(200), terms=(NodeTerm(labels=(ZONE,)),)),
    a_shape(tolerations=(Toleration("k", "Exists"),)),
)


def only(*names: str) -> dict[str, Any]:
    return {"disabled": [{"name": "*"}], "enabled": [{"name": name} for name in names]}


def a_profile(score: list[str], card_score: list[str] | None = None) -> Profile:
    plugins = {"score": only(*score), "cardScore": only(*(card_score or score))}
    (profile,) = profiles(read({"profiles": [{"plugins": plugins}]}), IN_TREE)
    return profile


PROFILES = {
    "default": a_profile(["BinPack", "AvoidGpuNodes"], ["BinPack"]),
    "spread": a_profile(["Spread"]),
    "normalised": a_profile(["KubeShareOpportunistic", "KubeShareGuarantee"]),
    "both": a_profile(["LeastTenants", "KubeShareOpportunistic"]),
    "no scores": a_profile([], []),
    "topology": a_profile(["BinPack", "Topology"]),
}


def expect_same(remembering: Evaluator, fresh: Evaluator, ledger: Ledger, shape: Shape) -> None:
    """Whatever can be asked is answered alike; and what fits according to one, does."""
    assert remembering.best(shape) == fresh.best(shape)
    masks = remembering.masks(shape)
    assert masks.tolist() == fresh.masks(shape).tolist()
    assert remembering.diagnose(shape) == fresh.diagnose(shape)
    assert remembering.reason_set(shape) == fresh.reason_set(shape)
    choice = remembering.best(shape)
    assert (choice is None) == bool(masks.all())
    assert choice is None or masks[choice.row] == 0
    for name, row in ledger.columns.row_of.items():
        fits = masks[row] == 0
        assert remembering.fits_any(shape, np.array([row])) == fits, name
        assert remembering.may_fit(shape, row) or not fits


@pytest.mark.slow
@examples(60)
@given(
    st.sampled_from(sorted(PROFILES)),
    st.booleans(),
    STEPS,
    st.lists(st.integers(0, 12), min_size=40, max_size=40),
)
def test_remembered_answers_are_those_of_who_asks_anew(
    name: str, roomy: bool, steps: list[Step], asked: list[int]
) -> None:
    history, profile = History(), PROFILES[name]
    if roomy:
        history.begin()
    remembering = Evaluator(profile, history.ledger)
    for step, number in zip(steps, asked, strict=False):
        history.step(step)
        fresh = Evaluator(profile, history.ledger)
        expect_same(remembering, fresh, history.ledger, SHAPES[number])
    for shape in SHAPES:
        expect_same(remembering, Evaluator(profile, history.ledger), history.ledger, shape)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PROFILES))
def test_answers_stay_right_while_the_tables_grow(name: str) -> None:
    ledger, profile = Ledger(), PROFILES[name]
    remembering = Evaluator(profile, ledger)
    for number in range(40):
        node = NodeName(f"n{number:02d}")
        for shape in SHAPES[4:11]:
            remembering.best(shape)
        ledger.put_node(a_node(node, taints=(Taint("k"),) if number % 5 == 1 else ()))
        ledger.put_cards(node, some_gpus(node, number // 5))
        for shape in SHAPES[number % 3 :: 3]:
            expect_same(remembering, Evaluator(profile, ledger), ledger, shape)
    assert (ledger.columns.rows, ledger.columns.width) == (64, 7)


# --- what asking costs


def a_ledger(nodes: int = 20) -> Ledger:
    ledger = Ledger()
    for number in range(nodes):
        ledger.put_node(a_node(f"n{number}"))
        ledger.put_cards(NodeName(f"n{number}"), some_gpus(f"n{number}", 2))
    return ledger


def cost(evaluator: Evaluator, shape: Shape) -> int:
    before = evaluator.work.rows
    evaluator.best(shape)
    return evaluator.work.rows - before


def test_a_shape_costs_all_rows_once_and_then_those_that_changed() -> None:
    ledger = a_ledger()
    evaluator = Evaluator(PROFILES["default"], ledger)
    shape = a_shape(a_claim())
    assert cost(evaluator, shape) == ledger.columns.rows
    assert cost(evaluator, shape) == 0
    ledger.charge(PodUid("p"), NodeName("n3"), (("cpu", 1),), None)
    assert cost(evaluator, a_shape(a_claim())) == 1
    ledger.put_node(a_node("n4", unschedulable=True))
    ledger.put_cards(NodeName("n5"), ())
    assert cost(evaluator, shape) == 2


def test_the_shapes_asked_last_are_remembered() -> None:
    evaluator = Evaluator(PROFILES["default"], a_ledger())
    shapes = [a_shape(cpu=cpu) for cpu in range(SHAPES_KEPT)]
    for shape in shapes:
        assert cost(evaluator, shape) > 0
    assert cost(evaluator, shapes[0]) == 0
    assert cost(evaluator, a_shape(cpu=9999)) > 0  # shapes[1] makes room
    assert cost(evaluator, shapes[0]) == 0
    assert cost(evaluator, shapes[2]) == 0
    assert cost(evaluator, shapes[1]) > 0
    assert SHAPES_KEPT == 256


def test_asking_whether_some_rows_fit_remembers_nothing() -> None:
    evaluator = Evaluator(PROFILES["default"], a_ledger())
    assert evaluator.fits_any(a_shape(), np.array([0, 1]))
    assert cost(evaluator, a_shape()) > 0


# --- choices


class Fixed:
    """Scores rows by their numbers."""

    name = "Fixed"
    depends = Depends.ROW

    def __init__(self, points: list[int], normaliser: Normaliser | None = None) -> None:
        self.points = np.array(points + [0] * 64)
        self.normaliser = normaliser

    def score(self, shape: Shape) -> RowScore | None:
        def ask(rows: Rows, cards: BestCards | None) -> IntArray:
            return self.points.take(rows.index)

        return ask


def choosing(ledger: Ledger, *scores: tuple[Fixed, int]) -> str | None:
    filters = PROFILES["default"].filters
    profile = Profile(
        scheduler_name="test", queue_sort=PrioritySort(), filters=filters, scores=scores
    )
    choice = Evaluator(profile, ledger).best(a_shape())
    return None if choice is None else ledger.columns.names[choice.row]


def test_weights_count() -> None:
    ledger = a_ledger(2)
    assert choosing(ledger, (Fixed([60, 50]), 1), (Fixed([0, 8]), 1)) == "n0"
    assert choosing(ledger, (Fixed([60, 50]), 1), (Fixed([0, 8]), 2)) == "n1"


def test_ties_go_to_the_row_that_was_known_first() -> None:
    ledger = a_ledger(3)
    assert choosing(ledger, (Fixed([7, 9, 9]), 1)) == "n1"
    assert choosing(ledger) == "n0"


def test_a_row_that_does_not_fit_is_not_chosen_however_good() -> None:
    ledger = a_ledger(3)
    ledger.put_node(a_node("n2", unschedulable=True))
    assert choosing(ledger, (Fixed([0, 0, 100]), 1)) == "n0"
    for name in ("n0", "n1"):
        ledger.drop_node(NodeName(name))
    assert choosing(ledger, (Fixed([100, 100, 100]), 1)) is None
    assert choosing(Ledger()) is None


def test_normalising_looks_at_rows_that_fit_only() -> None:
    ledger = a_ledger(3)
    scores = (Fixed([30, 0, 0]), 1), (Fixed([10, 30, 1000], maximum), 1)
    assert choosing(ledger, *scores) == "n2"
    ledger.put_node(a_node("n2", unschedulable=True))
    # Of those that fit, 10 and 30 become 33 and 100; beside 1000 they had been 1 and 3.
    assert choosing(ledger, *scores) == "n1"


def test_raw_scores_may_be_any_integers() -> None:
    ledger = a_ledger(3)
    assert (
        choosing(ledger, (Fixed([-5, -10250, -64], lambda raw: maximum(raw - raw.min())), 1))
        == "n0"
    )
    assert choosing(ledger, (Fixed([5, 2, 9], reverse), 3)) == "n1"


def test_diagnoses_count_nodes_and_not_rows() -> None:
    ledger = a_ledger(3)
    evaluator = Evaluator(PROFILES["default"], ledger)
    ledger.put_node(a_node("n1", cpu=10, unschedulable=True))
    ledger.drop_node(NodeName("n2"))
    diagnosis = evaluator.diagnose(a_shape(whole(3), cpu=20))
    assert diagnosis.message == (
        "impossible: no node has 3 GPUs: the largest has 2 (node n0). "
        "0/2 nodes are available: 1 node(s) were unschedulable, 1 too few GPUs."
    )
    assert Evaluator(PROFILES["default"], Ledger()).diagnose(a_shape()).message == (
        "no nodes available to schedule pods"
    )


def test_several_cards_come_best_first() -> None:
    ledger = Ledger()
    ledger.put_node(a_node("n1"))
    ledger.put_cards(NodeName("n1"), tuple(a_gpu(uuid) for uuid in "cab"))
    choice = Evaluator(PROFILES["default"], ledger).best(a_shape(whole(3)))
    assert choice is not None
    assert [ledger.columns.uuids[choice.row][slot] for slot in choice.slots] == ["a", "b", "c"]
