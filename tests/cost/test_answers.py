"""What answers about the whole cluster cost in function calls: they are made a pod, a card a time.

A view is a Struct of msgspec, made and written by C; a call of Python's for each card and pod is
what the answers of a large cluster consist of.
"""

import pytest

from benchmarks import cost, questions

NODES, PODS = 20, 320
#: The most calls, Python's and C's, for each pod of the answer, counted with CPython 3.11. On
#: 2026-11-29 they were 131, 91, 134 and 156.
CEILINGS = {"gpus": 92, "gpus, table": 65, "pods": 95, "pods, table": 117}


def calls_for_each_pod(question: str) -> float:
    machine, count = questions.empty(NODES), cost.Count()
    for _ in questions.taken(machine, questions.placed(NODES, PODS, mixed=True)):
        pass
    asked = questions.questions(machine)[question]
    count.is_on = True
    count.of(lambda: b"".join(asked()))
    return count.calls / PODS


@pytest.mark.parametrize("question", CEILINGS)
def test_an_answer_costs_no_more_than_it_may(question: str) -> None:
    assert calls_for_each_pod(question) <= CEILINGS[question]
