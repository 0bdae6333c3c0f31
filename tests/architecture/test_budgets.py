"""Each folder of tests has a time budget: tests/budgets.toml; and each run its workers."""

from pathlib import Path

from tests.architecture.sources import ROOT, TESTS
from tests.budgets import budgets, folder_of, over
from tests.workers import BESIDE, GIB, free_bytes, workers

WITH_TESTS = {
    path.relative_to(ROOT / "tests").parts[0] for path in TESTS if path.name.startswith("test_")
}


def test_every_folder_with_tests_has_a_budget() -> None:
    assert {*budgets()["test"]} == WITH_TESTS
    assert {*budgets()["e2e"]} <= WITH_TESTS


def test_all_of_make_test_takes_less_than_four_minutes_on_two_cores() -> None:
    assert sum(budgets()["test"].values()) <= (2 + BESIDE) * 4 * 60


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


def test_there_are_as_many_workers_as_fit_into_memory() -> None:
    assert workers(2, None) == workers(2, 16 * GIB) == 4
    assert workers(8, 7 * GIB) == 4  # a laptop of 8 GB
    assert workers(8, 3 * GIB) == workers(8, GIB // 2) == 1


def test_free_memory_is_the_machines_or_what_its_container_has_left(tmp_path: Path) -> None:
    meminfo, cgroup = tmp_path / "meminfo", tmp_path / "cgroup"
    assert free_bytes(meminfo, cgroup) is None
    meminfo.write_text("MemTotal:   8000000 kB\nMemAvailable:   4194304 kB\nHugePages_Free: 0\n")
    assert free_bytes(meminfo, cgroup) == 4 * GIB
    cgroup.mkdir()
    (cgroup / "memory.current").write_text(f"{GIB}\n")
    (cgroup / "memory.max").write_text("max\n")
    assert free_bytes(meminfo, cgroup) == 4 * GIB
    (cgroup / "memory.max").write_text(f"{3 * GIB}\n")
    assert free_bytes(meminfo, cgroup) == 2 * GIB
