"""What a decision costs in function calls: tests/cost.toml has the ceilings."""

import tomllib

import pytest

from benchmarks import cost
from tests.architecture.sources import ROOT

CEILINGS = tomllib.loads((ROOT / "tests/cost.toml").read_text())
#: A ceiling that is so much above the count no longer notices what is added.
LOOSE = 1.05


@pytest.fixture(scope="module")
def counted() -> dict[str, cost.Row]:
    """The counts by kind of pod."""
    rows = cost.counts(nodes=40, pods=40)
    return {str(row["pod"]): {key: int(str(row[key])) for key in cost.COUNTED} for row in rows}


def test_each_kind_of_pod_has_a_ceiling() -> None:
    assert {*CEILINGS} == {*cost.KINDS}


@pytest.mark.parametrize("kind", cost.KINDS)
@pytest.mark.parametrize("part", cost.COUNTED)
def test_a_decision_costs_no_more_than_it_may(
    counted: dict[str, cost.Row], kind: str, part: str
) -> None:
    found, ceiling = int(counted[kind][part]), CEILINGS[kind][part]
    assert found <= ceiling, "`make cost AGAINST=<commit>` shows what was added"
    assert ceiling <= max(found * LOOSE, found + 1), f"lower it in tests/cost.toml: {found}"


def test_a_decision_costs_as_many_calls_in_a_larger_cluster(
    counted: dict[str, cost.Row],
) -> None:
    (larger,) = cost.counts(nodes=400, pods=40, kinds=("half a card",))
    assert int(larger["decided"]) == pytest.approx(int(counted["half a card"]["decided"]), rel=0.02)
