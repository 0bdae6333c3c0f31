"""Requirements on labels are judged as the API server does, and each value once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_plugins.kubernetes.node_affinity import Integers, LabelJudge, matches
from kubeshare_py.cluster.columns import Columns
from kubeshare_py.cluster.rows import AllRows, SomeRows
from kubeshare_py.domain.cluster_objects import Requirement
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.node import Node

_values = st.sampled_from(["", "a", "b", "7", "07", "-7", "12", "x1"])
_requirements = st.builds(
    Requirement,
    st.just("k"),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Near"]),
    st.lists(_values, max_size=4).map(tuple),
)


def by_the_book(requirement: Requirement, value: str | None) -> bool:
    """Written down from the API's reference, value by value."""
    wanted = requirement.values
    numbers = {"7": 7, "07": 7, "-7": -7, "12": 12}
    match requirement.operator:
        case "In" | "NotIn":
            return wanted != () and (value in wanted) == (requirement.operator == "In")
        case "Exists" | "DoesNotExist":
            return (value is None) == (requirement.operator == "DoesNotExist")
        case "Gt" | "Lt":
            if len(wanted) != 1 or wanted[0] not in numbers or value not in numbers:
                return False
            ahead = numbers[value] - numbers[wanted[0]]
            return ahead > 0 if requirement.operator == "Gt" else ahead < 0
        case _:
            return False


def columns_of(values: list[str | None]) -> Columns:
    columns = Columns()
    for number, value in enumerate(values):
        put(columns, number, value)
    return columns


def put(columns: Columns, number: int, value: str | None) -> None:
    name = NodeName(f"n{number}")
    row = columns.row_for(name)
    labels = {} if value is None else {"k": value}
    node = Node(name=name, allocatable=(), labels=labels)
    columns.nodes[row] = node
    columns.describe(row, node)


@given(
    st.lists(_requirements, min_size=1, max_size=4),
    st.lists(st.none() | _values, min_size=1, max_size=8),
    st.lists(st.none() | _values, max_size=8),
)
def test_rows_are_judged_as_single_values_are(
    requirements: list[Requirement], before: list[str | None], after: list[str | None]
) -> None:
    integers = Integers()
    judges = [(one, LabelJudge(one, integers)) for one in requirements]
    columns = columns_of(before)
    for values in (before, after):
        for number, value in enumerate(values):
            put(columns, number, value)
        rows = [columns.row_of[NodeName(f"n{number}")] for number in range(len(values))]
        for requirement, judge in judges:
            wanted = [by_the_book(requirement, value) for value in values]
            assert judge.holds(AllRows(columns))[rows].tolist() == wanted
            some = SomeRows(columns, np.array(rows, np.int64))
            assert judge.holds(some).tolist() == wanted
            assert [matches(requirement, value) for value in values] == wanted


@pytest.mark.parametrize("requirement", [("NotIn", ("v1",)), ("Gt", ("1",)), ("Exists", ())])
def test_only_new_values_are_judged(requirement: tuple[str, tuple[str, ...]]) -> None:
    judged: list[str | None] = []

    class Counted(LabelJudge):
        def verdict(self, value: str | None) -> bool:
            judged.append(value)
            return super().verdict(value)

    judge = Counted(Requirement("k", *requirement), Integers())
    columns = columns_of([f"v{number}" for number in range(100)])
    judge.holds(AllRows(columns))
    judged.clear()
    judge.holds(SomeRows(columns, np.array([3])))
    assert judged == []
    put(columns, 100, "new")
    judge.holds(SomeRows(columns, np.array([columns.row_of[NodeName("n100")]])))
    assert judged == ["new"]


def test_few_wanted_of_many_values_are_looked_up_alone() -> None:
    class Counted(LabelJudge):
        def verdict(self, value: str | None) -> bool:
            raise AssertionError(value)

    columns = columns_of([f"v{number}" for number in range(1000)])
    for operator, count in (("In", 2), ("NotIn", 998)):
        judge = Counted(Requirement("k", operator, ("v7", "v8", "other")), Integers())
        here = [row for row, node in enumerate(columns.nodes) if node is not None]
        assert judge.holds(AllRows(columns))[here].sum() == count
