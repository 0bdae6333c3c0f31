"""The fake driver, built once, and boards for it; or the real one of this machine."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.fake_nvml.board import Board
from tests.fake_nvml.build import NO_COMPILER, build, compiler

NewBoard = Callable[[str], Board]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fake libnvidia-ml.so.1."""
    program = compiler()
    if program is None:
        pytest.skip(NO_COMPILER)
    return build(tmp_path_factory.mktemp("nvml"), program)


@pytest.fixture
def new_board(library: Path, tmp_path: Path) -> NewBoard:
    """Make a board of this name, for this test to change."""
    return lambda name: Board(name, tmp_path, library)


@pytest.fixture(scope="session")
def no_driver(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The environment of a process that finds no driver, whatever this machine has."""
    broken = tmp_path_factory.mktemp("no-nvml")
    (broken / "libnvidia-ml.so.1").touch()
    return {**os.environ, "LD_LIBRARY_PATH": str(broken)}
