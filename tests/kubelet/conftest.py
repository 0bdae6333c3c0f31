"""A fake driver for the agents of these tests, built once."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fake_nvml.board import Board
from tests.fake_nvml.build import NO_COMPILER, build, compiler


@pytest.fixture(scope="session")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fake libnvidia-ml.so.1."""
    program = compiler()
    if program is None:
        pytest.skip(NO_COMPILER)
    return build(tmp_path_factory.mktemp("nvml"), program)


@pytest.fixture
def new_board(nvml: Path, tmp_path: Path) -> Callable[[str], Board]:
    """Make a board of this name, for this test to change."""
    return lambda name: Board(name, tmp_path, nvml)
