"""A question's answers are those that decisions are made by, and nothing of it is kept."""

import numpy as np
import pytest

from kubeshare_plugins import IN_TREE
from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.rows import AllRows, Rows
from kubeshare_py.configuration.scheduler import SCHEDULER_NAME, read
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.boundary import PluginFailed
from kubeshare_py.framework.points import Depends, RowFilter
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.framework.reasons import ReasonTable
from kubeshare_py.framework.snapshot import ProfilesInUse
from tests.making import a_claim, a_node, a_shape

SHAPE = a_shape(a_claim(500), node_selector=(("zone", "a"),))


class Counting:
    """Counts how often it is asked, and fails while it is broken."""

    name = "Counting"
    depends = Depends.ROW
    is_broken = False
    asked = 0

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        def ask(rows: Rows) -> IntArray:
            self.asked += 1
            if self.is_broken:
                raise ValueError("broken")
            return np.zeros(len(rows.index), np.int64)

        return ask


class Cluster:
    """Two nodes, of which one has the label that the shape asks for."""

    def __init__(self) -> None:
        self.ledger, self.plugin = Ledger(), Counting()
        for name, labels in (("n1", {}), ("n2", {"zone": "a"})):
            self.ledger.put_node(a_node(name, labels=labels))
        enabled = {"filter": {"enabled": [{"name": "Counting"}]}}
        document = read({"profiles": [{"plugins": enabled}]})
        made = profiles(document, {**IN_TREE, "Counting": lambda: self.plugin})
        self.in_use = ProfilesInUse(made, self.ledger)
        self.deciding = self.in_use.evaluators[SCHEDULER_NAME]


def test_a_reading_answers_as_the_evaluator_that_decides() -> None:
    cluster = Cluster()
    masks = cluster.in_use.reading().evaluators[SCHEDULER_NAME].masks(SHAPE)
    reasons = cluster.deciding.masks(SHAPE)
    assert (masks == 0).tolist() == (reasons == 0).tolist()


def test_neither_answers_nor_costs_nor_labels_are_kept() -> None:
    cluster = Cluster()
    cluster.in_use.reading().evaluators[SCHEDULER_NAME].masks(SHAPE)
    assert not cluster.deciding.knows(SHAPE)
    assert cluster.in_use.work.cost == 0
    assert cluster.ledger.columns.labels == {}


def test_a_failure_counts_for_the_question_alone() -> None:
    cluster = Cluster()
    cluster.plugin.is_broken = True
    reading = cluster.in_use.reading()
    assert reading.evaluators[SCHEDULER_NAME].masks(SHAPE).all()
    assert (reading.boundary.failures.total, cluster.in_use.boundary.failures.total) == (1, 0)
    assert cluster.deciding.failed == {}


def test_a_plugin_that_failed_for_a_decision_is_not_asked_again() -> None:
    cluster = Cluster()
    cluster.plugin.is_broken = True
    cluster.deciding.masks(SHAPE)
    cluster.plugin.is_broken, asked = False, cluster.plugin.asked
    reading = cluster.in_use.reading()
    evaluator = reading.evaluators[SCHEDULER_NAME]
    mask = evaluator.masks(SHAPE).item(0)
    assert [reason.text for reason in evaluator.reasons_in(SHAPE, mask)] == [
        "plugin Counting failed: ValueError: broken"
    ]
    with pytest.raises(PluginFailed, match="broken"):
        evaluator.score_rows(SHAPE, AllRows(reading.ledger.columns))
    assert cluster.plugin.asked == asked
