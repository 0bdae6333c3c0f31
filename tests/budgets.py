"""How much CPU the tests of each folder may take: tests/budgets.toml, compared at the end of a run.

CPU seconds, of this process and of the children that it waited for: unlike seconds on a clock, they
hardly change when the machine does something else as well. Folders over their budget are reported;
the run does not fail for it.
"""

import resource
import time
import tomllib
from collections import defaultdict
from collections.abc import Generator, Mapping
from pathlib import Path

import pytest

FILE = Path(__file__).with_suffix(".toml")

#: CPU seconds by folder below tests/.
Seconds = Mapping[str, float]


def budgets() -> Mapping[str, Seconds]:
    """Read the tables `test` (make test), `slow` (make slow) and `e2e` (make e2e)."""
    return tomllib.loads(FILE.read_text())


def folder_of(test: str) -> str:
    """`edges` of `tests/edges/kube/test_watch.py::test_a[b/c]`."""
    _, _, below = test.partition("::")[0].partition("tests/")
    return below.partition("/")[0]


def over(spent: Seconds, allowed: Seconds) -> list[str]:
    """Say which folders took more than they may, the worst first."""
    found = {
        folder: seconds for folder, seconds in spent.items() if seconds > allowed.get(folder, 0)
    }
    return [
        f"tests/{folder} took {found[folder]:.0f} s of {allowed.get(folder, 0):.0f}"
        for folder in sorted(found, key=lambda folder: allowed.get(folder, 0) - found[folder])
    ]


#: What others did for this process (tests/module_forks.py).
_paid = [0.0]


def pay(seconds: float) -> None:
    """Count CPU seconds of a process that is no child of this one."""
    _paid[0] += seconds


def cpu_s() -> float:
    """CPU seconds of this process so far, all its threads, and of the children it waited for.

    A child counts at once when it is waited for, with the grandchildren that it waited for itself.
    """
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime + _paid[0]


class CpuOfTests:
    """A plugin of pytest in each process that runs tests: `cpu_s` of each report.

    Each phase also pays for what was done since the phase before, such as the report of that one.
    """

    def __init__(self) -> None:
        self._counted = cpu_s()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        """Leave out what was done between two tests."""
        self._counted = cpu_s()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Write it down once setup, call or teardown is over; pytest-xdist carries it along."""
        report = yield
        before, self._counted = self._counted, cpu_s()
        vars(report)["cpu_s"] = self._counted - before
        return report


class BudgetReport:
    """A plugin of pytest that adds up CPU seconds, and says at the end who exceeds a budget."""

    def __init__(self, allowed: Seconds) -> None:
        self._allowed = allowed
        self._spent: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add what setup, call or teardown of a test took; workers' reports come here as well."""
        self._spent[folder_of(report.nodeid)] += getattr(report, "cpu_s", 0.0)

    def lines(self) -> list[str]:
        """A line for each folder that is over its budget so far, the worst first."""
        return over(self._spent, self._allowed)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print a line for each folder over its budget."""
        if lines := self.lines():
            terminalreporter.section("over the CPU budgets of tests/budgets.toml", sep="-")
            for line in lines:
                terminalreporter.line(line)
