"""Each folder of tests has a time budget: tests/budgets.toml; and each run its workers."""

import gc
import re
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, TESTS
from tests.budgets import BudgetReport, CpuOfTests, budgets, cpu_s, folder_of, over
from tests.conftest import pytest_collection_finish
from tests.workers import GIB, free_bytes, workers

#: CPU seconds of all tests, by the table. For `make test` they are what four minutes of two cores
#: leave: setting up, checks, and the workers' look for tests take some 240 more. Workers are twice
#: as many as cores, and beside each other the same test takes one and a half times its CPU.
ALLOWED = {"test": 240, "slow": 710}

MAKEFILE = (ROOT / "Makefile").read_text()
WITH_TESTS = {
    path.relative_to(ROOT / "tests").parts[0] for path in TESTS if path.name.startswith("test_")
}


def test_every_folder_with_tests_has_a_budget() -> None:
    assert {*budgets()["test"]} == WITH_TESTS
    assert {*budgets()["slow"]} <= WITH_TESTS
    [folders] = re.findall(r"--control-plane real ((?:tests/\w+ ?)+)$", MAKEFILE, re.MULTILINE)
    assert {*budgets()["e2e"]} == {*folders.replace("tests/", "").split()} <= WITH_TESTS


@pytest.mark.parametrize("table", ALLOWED)
def test_all_of_make_test_and_make_slow_takes_as_much_as_it_may(table: str) -> None:
    assert sum(budgets()[table].values()) <= ALLOWED[table]


def turn(seconds: float) -> None:
    """Keep a core busy until this process has had so many seconds of it."""
    until = cpu_s() + seconds
    while cpu_s() < until:
        pass


def test_threads_of_this_process_and_children_that_ended_count() -> None:
    before = cpu_s()
    busy = "import time\nwhile time.process_time() < 0.1: pass"
    subprocess.run([sys.executable, "-I", "-S", "-c", busy], check=True)
    assert cpu_s() >= before + 0.09


def report_of(counter: CpuOfTests, nodeid: str) -> pytest.TestReport:
    """What pytest reports of a phase that is over, as a worker of pytest-xdist sends it."""
    made = pytest.TestReport(nodeid, (nodeid, 0, ""), {}, "passed", None, "call", duration=1000)
    hook = counter.pytest_runtest_makereport()
    next(hook)
    with pytest.raises(StopIteration) as ended:
        hook.send(made)
    assert ended.value.value is made
    sent = made._to_json()
    return pytest.TestReport._from_json(sent)


def test_a_report_has_the_cpu_of_its_phase_and_of_nothing_before() -> None:
    counter = CpuOfTests()
    turn(0.05)
    counter.pytest_runtest_logstart()
    turn(0.02)
    first = report_of(counter, "tests/edges/test_a.py::test_a")
    assert 0.02 <= vars(first)["cpu_s"] < 0.04
    second = report_of(counter, "tests/edges/test_a.py::test_a")
    assert vars(second)["cpu_s"] < 0.02


def test_what_a_folder_spent_is_cpu_and_not_time() -> None:
    counter = CpuOfTests()
    budget = BudgetReport({"edges": 0.01, "domain": 0.01})
    counter.pytest_runtest_logstart()
    turn(0.03)
    budget.pytest_runtest_logreport(report_of(counter, "tests/edges/test_a.py::test_a"))
    budget.pytest_runtest_logreport(report_of(counter, "tests/domain/test_b.py::test_b"))
    assert [line.split()[0] for line in budget.lines()] == ["tests/edges"]


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


@pytest.mark.embedded_only("a real control plane is built with Go, which reads them")
def test_no_context_reads_the_authorities_of_this_machine() -> None:
    assert ssl.create_default_context().cert_store_stats()["x509"] == 0


def test_no_collection_looks_at_tests_again(request: pytest.FixtureRequest) -> None:
    pytest_collection_finish()
    assert not any(looked_at is request.node for looked_at in gc.get_objects())


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
