"""Tests of make test that start Go fail, with a suite made for it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tests.controlplane import build

#: With no other plugin than the guard.
CONFTEST = """
from tests.no_go import NoGo
def pytest_configure(config):
    config.pluginmanager.register(NoGo())
"""
STARTS = """
import subprocess
import pytest
from tests.controlplane.build import NoGo, build, kept
@pytest.fixture
def program():
    try:
        build(["helm"])
    except NoGo:
        pass
def test_quietly():
    subprocess.run(["go", "version"], check=False)
def test_prepared(program):
    pass
def test_other():
    assert not kept("helm").exists()
"""


@pytest.mark.slow
def test_a_test_that_starts_go_fails_and_is_told_where_it_belongs(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_starts.py").write_text(STARTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    )
    assert done.returncode == 1, done.stdout
    assert "it started go version: mark the test real_only" in done.stdout
    assert "it started go env GOVERSION: mark the test real_only" in done.stdout
    assert "1 failed, 1 passed, 1 error" in done.stdout


@pytest.mark.embedded_only("make e2e has what it built")
def test_the_guard_is_on_in_this_run() -> None:
    assert not build.kept("helm").exists()
    done = subprocess.run(["sh", "-c", "command -v go"], check=True, capture_output=True, text=True)
    assert "kubeshare-no-go-" in done.stdout
