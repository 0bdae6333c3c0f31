"""What each program imports when it starts: tests/starts.toml has the ceilings."""

import subprocess
import sys
import tomllib

import pytest

from tests.architecture.sources import ROOT
from tests.architecture.starts import Start, start_of

STARTS = tomllib.loads((ROOT / "tests/starts.toml").read_text())
SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
#: A ceiling that is so much above the count no longer notices what is added.
LOOSE = 1.05
#: What takes up to a second of CPU, or memory on every node, and few need.
NEVER_AT_ONCE = {"kubernetes", "celpy", "networkx", "grpc", "pandas", "matplotlib"}


def others(start: Start) -> set[str]:
    """The packages that are not Python's own."""
    return {name for name in start.packages if name not in sys.stdlib_module_names}


def test_each_program_has_its_ceilings() -> None:
    assert {target.partition(":")[0] for target in SCRIPTS.values()} <= {*STARTS}


@pytest.mark.parametrize("module", STARTS)
def test_a_start_imports_no_more_than_it_may(module: str) -> None:
    start, ceilings = start_of(module), STARTS[module]
    assert sorted(others(start)) == ceilings["packages"]
    for what, found in (("modules", len(start.modules)), ("dataclasses", start.dataclasses)):
        ceiling = ceilings[what]
        assert found <= ceiling, f"{what}: is all of it needed at once?"
        assert ceiling <= max(found * LOOSE, found + 1), f"lower {what} in tests/starts.toml"


@pytest.mark.parametrize("module", STARTS)
def test_no_start_takes_what_few_need(module: str) -> None:
    assert others(start_of(module)) & NEVER_AT_ONCE == set()


@pytest.mark.slow
@pytest.mark.parametrize("module", STARTS)
def test_python_imports_what_the_sources_say(module: str) -> None:
    asked = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True)
    names = set(done.stdout.split())
    ours = {name for name in names if name.startswith("kubeshare_")}
    start = start_of(module)
    assert ours == start.modules
    assert others(start) <= {name.partition(".")[0] for name in names}
    assert not names & NEVER_AT_ONCE
