"""What CI makes of tests that fail: .ci/run and the Makefile, with tests made for it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

OPTIONS = """
def pytest_addoption(parser):
    parser.addoption("--control-plane")
"""
#: Passes only when it is tried again.
FLAKY = """
import pathlib
def test_flaky():
    tried = pathlib.Path("tried")
    known = tried.exists()
    tried.touch()
    assert known
"""
SLOW = """
import pytest
@pytest.mark.slow
def test_slow(): pass
"""
PAGE = """
import pytest
@pytest.mark.browser
def test_page(): pass
"""
GOOD, BAD, CRASH = "def test_good(): pass", "def test_bad(): assert 0", "import os; os._exit(1)"
BROKEN = "import no_such_module"
#: For make and pytest: the tree's own tools, no other plugin than the one that spreads tests.
ALONE = {
    "MAKEFLAGS": "BIN=bin STAMP=installed LOCK=pyproject.toml CORE=tests",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTEST_PLUGINS": "xdist.plugin",
    "PYTEST_XDIST_AUTO_NUM_WORKERS": "1",
}
#: A Python of another version, as far as CI asks for it.
PYTHON = """#!/bin/sh
exec python3 -c "import sys
sys.version_info = ({}, 'final', 0)
$2" "$3"
"""
FOLDERS = (
    *("conformance", "stories", "faults", "deploy", "differential", "kubelet"),
    *("attacks", "policies", "browser"),
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with this project's Makefile and CI, tools that find nothing, and two tests."""
    for name in ("Makefile", ".ci/run"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    tools = tmp_path / "bin"
    tools.mkdir()
    write(tmp_path / "bin/pytest", f'#!/bin/sh\nexec {sys.executable} -m pytest "$@"\n')
    for name in ("ruff", "mypy", "lint-imports", "python"):
        write(tools / name, "#!/bin/sh\n")
    for folder in FOLDERS:
        (tmp_path / "tests" / folder).mkdir(parents=True)
    (tmp_path / "tests/conftest.py").write_text(OPTIONS)
    # The tests were run before.
    (tmp_path / "tests/__pycache__").mkdir()
    (tmp_path / "tests/__pycache__/conftest.any-pytest-any.pyc").touch()
    write(tools / "python", "#!/bin/sh\necho any\n")
    (tmp_path / "pyproject.toml").write_text(
        "[tool.pytest.ini_options]\nmarkers = ['slow', 'long', 'browser']\n"
    )
    (tmp_path / "installed").touch()
    add(tmp_path, "stories/test_good.py", GOOD)
    add(tmp_path, "test_slow.py", SLOW)
    add(tmp_path, "browser/test_page.py", PAGE)
    return tmp_path


def write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def add(tree: Path, name: str, text: str) -> None:
    (tree / "tests" / name).write_text(text)


def ci(tree: Path, *pythons: Path) -> tuple[int, list[str]]:
    """CI's exit code, and the last lines of what it says; `pythons` are those of the machine."""
    # Neither what runs these tests nor make's own settings are for the inner ones.
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        [tree / ".ci/run"],
        check=False,
        env={**kept, **ALONE, "PYTHONS": " ".join(map(str, pythons))},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, [line.partition(" in ")[0] for line in done.stdout.splitlines()]


def test_one_process_rewrites_the_tests_beside_the_checks_if_they_were_never_run(
    tree: Path,
) -> None:
    def planned() -> str:
        return subprocess.run(
            ["make", "--no-print-directory", "--dry-run", "rewrite"],
            cwd=tree,
            env={**os.environ, **ALONE},
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    assert "--collect-only" not in planned()
    shutil.rmtree(tree / "tests/__pycache__")
    assert planned().endswith("--collect-only -p no:cacheprovider >/dev/null 2>&1 || true\n")


#: The closing lines of runs in which nothing fails.
PASSED = [
    *("make test: 1 passed", "make slow: 1 passed"),
    *("make browser: 1 passed", "make e2e: 1 passed"),
]


@pytest.mark.slow
def test_the_closing_lines_of_each_run_are_told(tree: Path) -> None:
    code, said = ci(tree)
    assert (code, said[-4:]) == (0, PASSED), said


@pytest.mark.slow
def test_the_core_is_tried_on_the_oldest_python_of_each_minor_version(tree: Path) -> None:
    versions = ["4.9.1", "4.10.0", "4.9.0", "3.10.7"]
    pythons = [tree / f"python{version}" for version in versions]
    for path, version in zip(pythons, versions, strict=True):
        write(path, PYTHON.format(version.replace(".", ", ")))
    # Not for another user, where this is root: no other user reads its tree.
    user = "" if os.getuid() == 0 else ", an ordinary user without Go"
    code, said = ci(tree, *pythons)
    pythons_passed = [f"Python 4.9.0{user}: 2 passed", "Python 4.10.0: 2 passed"]
    assert (code, said[-6:]) == (0, pythons_passed + PASSED), said


@pytest.mark.slow
def test_a_test_that_passes_alone_is_named_and_does_not_fail(tree: Path) -> None:
    add(tree, "stories/test_flaky.py", FLAKY)
    code, said = ci(tree)
    assert (code, said[-7:]) == (
        0,
        [
            "make test: 1 failed, 1 passed",
            "make test AGAIN=failed: 1 passed",
            "failed once, passed alone:",
            "  tests/stories/test_flaky.py::test_flaky",
            "make slow: 1 passed",
            "make browser: 1 passed",
            "make e2e: 2 passed",
        ],
    ), said


@pytest.mark.parametrize(
    "text",
    [BAD, *(pytest.param(text, marks=pytest.mark.long) for text in (BROKEN, CRASH))],
    ids=["fails", "no import", "crashes"],
)
def test_what_fails_twice_or_cannot_be_run_fails(tree: Path, text: str) -> None:
    add(tree, "stories/test_flaky.py", FLAKY)
    add(tree, "stories/test_other.py", text)
    code, said = ci(tree)
    assert (code != 0, [line for line in said if "passed alone" in line]) == (True, []), said


def test_a_check_that_fails_is_not_tried_again(tree: Path) -> None:
    write(tree / "bin/mypy", "#!/bin/sh\necho wrong; exit 1\n")
    (tree / ".pytest_cache/v/cache").mkdir(parents=True)
    (tree / ".pytest_cache/v/cache/lastfailed").write_text('{"tests/a.py::of_another_run": true}')
    code, said = ci(tree)
    assert (code != 0, said.count("wrong")) == (True, 1), said


def test_without_a_control_plane_the_end_to_end_tests_are_not_run(tree: Path) -> None:
    write(tree / "bin/python", "#!/bin/sh\necho 'not run: there is no go' >&2\nexit 3\n")
    code, said = ci(tree)
    assert (code, said[-1]) == (0, "make e2e: not run: there is no go"), said
