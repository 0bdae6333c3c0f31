"""How long the tests of each folder may take: tests/budgets.toml, compared at the end of a run.

Folders over their budget are reported; the run does not fail for it, since a busy machine makes
any test slow.
"""

import tomllib
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

FILE = Path(__file__).with_suffix(".toml")

#: Seconds by folder below tests/.
Seconds = Mapping[str, float]


def budgets() -> Mapping[str, Seconds]:
    """Read the tables `test` (make test) and `e2e` (make e2e)."""
    return tomllib.loads(FILE.read_text())


def folder_of(test: str) -> str:
    """`edges` of `tests/edges/kube/test_watch.py::test_a[b/c]`."""
    _, _, below = test.partition("::")[0].partition("tests/")
    return below.partition("/")[0]


def over(spent: Seconds, allowed: Seconds) -> list[str]:
    """Say which folders took longer than they may, the worst first."""
    found = {
        folder: seconds for folder, seconds in spent.items() if seconds > allowed.get(folder, 0)
    }
    return [
        f"tests/{folder} took {found[folder]:.0f} s of {allowed.get(folder, 0):.0f}"
        for folder in sorted(found, key=lambda folder: allowed.get(folder, 0) - found[folder])
    ]


class BudgetReport:
    """A plugin of pytest that adds up durations, and says at the end who exceeds a budget."""

    def __init__(self, allowed: Seconds) -> None:
        self._allowed = allowed
        self._spent: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add what setup, call or teardown of a test took; workers' reports come here as well."""
        self._spent[folder_of(report.nodeid)] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print a line for each folder over its budget."""
        if lines := over(self._spent, self._allowed):
            terminalreporter.section("over the time budgets of tests/budgets.toml", sep="-")
            for line in lines:
                terminalreporter.line(line)
