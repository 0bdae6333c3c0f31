"""Each folder of tests has a time budget: tests/budgets.toml."""

from tests.architecture.sources import ROOT, TESTS
from tests.budgets import budgets, folder_of, over
from tests.conftest import WORKERS_BESIDE

WITH_TESTS = {
    path.relative_to(ROOT / "tests").parts[0] for path in TESTS if path.name.startswith("test_")
}


def test_every_folder_with_tests_has_a_budget() -> None:
    assert {*budgets()["test"]} == WITH_TESTS
    assert {*budgets()["e2e"]} <= WITH_TESTS


def test_all_of_make_test_takes_less_than_four_minutes_on_two_cores() -> None:
    assert sum(budgets()["test"].values()) <= (2 + WORKERS_BESIDE) * 4 * 60


def test_the_folder_of_a_test_is_the_one_below_tests() -> None:
    assert folder_of("tests/edges/kube/test_watch.py::test_a[tests/b::c]") == "edges"
    assert folder_of("tests/edges/test_watch.py::test_a") == "edges"


def test_folders_over_their_budget_are_named_the_worst_first() -> None:
    spent = {"edges": 12.4, "faults": 31.0, "domain": 2.0, "new": 1.2}
    assert over(spent, {"edges": 10, "faults": 20, "domain": 2}) == [
        "tests/faults took 31 s of 20",
        "tests/edges took 12 s of 10",
        "tests/new took 1 s of 0",
    ]
