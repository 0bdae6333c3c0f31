"""Whatever a dialect raises, or answers in another form, ends at its call."""

from collections.abc import Callable
from typing import Any

import pytest

from kubeshare_py.dialects.card_visibility import CardVisibility
from kubeshare_py.dialects.dialect import Dialect, NodeKeys, OwnedKeys, PlacedNode, PodAsk
from kubeshare_py.dialects.dialect_calls import (
    owns_by,
    read_back_by,
    read_by,
    results_by,
    visibility_by,
)
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.identity import DecisionToken

POD = PodAsk({}, {})
NODE = NodeKeys("n1", {}, {})
ALLOCATION = Allocation(token=DecisionToken("t"))
PLACED = PlacedNode({}, {}, 0)


class Unreadable:
    """Neither its text nor its representation can be had."""

    def __repr__(self) -> str:
        raise ValueError


class Odd(Dialect):
    """Answers every question by this function."""

    name = "odd"
    owns = OwnedKeys()

    def __init__(self, answer: Callable[[], Any]) -> None:
        self._answer = answer

    def read(self, pod: PodAsk) -> Any:
        return self._answer()

    def results(self, allocation: Allocation, node: PlacedNode) -> Any:
        return self._answer()

    def read_back(self, pod: PodAsk) -> Any:
        return self._answer()

    def visibility(self, pod: PodAsk) -> Any:
        return self._answer()

    def owns_on(self, resource: str, node: NodeKeys) -> Any:
        return self._answer()


def fails() -> None:
    raise RuntimeError("out of luck")


@pytest.mark.parametrize(
    ("answer", "cause"),
    [(fails, "RuntimeError: out of luck"), (Unreadable, "a Unreadable"), (lambda: 7, "7")],
)
def test_each_question_has_an_answer_that_costs_one_pod(
    answer: Callable[[], Any], cause: str
) -> None:
    dialect = Odd(answer)
    for sentence in (
        str(read_by(dialect, POD)),
        str(results_by(dialect, ALLOCATION, PLACED)),
        str(read_back_by(dialect, POD)),
    ):
        assert sentence.startswith("dialect odd failed: ")
        assert cause in sentence
    assert visibility_by(dialect, POD) is CardVisibility.SHARE
    assert owns_by(dialect, "example.com/gpu", NODE) is False
