"""Tests on a real card; `pytest -m gpu` runs them, and ends with the figures that they found."""

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kubeshare_py.domain.card_reading import NodeReading
from kubeshare_py.domain.identity import GpuUuid
from tests.collector.reading import Reader, reader
from tests.gpu.card import why_no_card

_FIGURES: list[str] = []
Figure = Callable[[str], None]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the figures."""
    if _FIGURES:
        terminalreporter.section("on this card")
        for line in _FIGURES:
            terminalreporter.write_line(line)


@pytest.fixture(autouse=True)
def turn() -> Iterator[None]:
    """One test at a time uses the card; none where there is none."""
    if why := why_no_card():
        pytest.skip(why)
    with (Path(tempfile.gettempdir()) / "kubeshare-gpu-tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def figure() -> Figure:
    """Add a line to the figures."""
    return _FIGURES.append


@pytest.fixture
def driver(turn: None) -> Iterator[Reader]:
    """The process that asks the driver."""
    with reader(os.environ, interval_s=0.2) as found:
        yield found


@pytest.fixture
def reading(driver: Reader) -> NodeReading:
    """A reading of this machine's cards."""
    return driver.reading()


@pytest.fixture
def uuid(reading: NodeReading) -> GpuUuid:
    """The first card, which is the one that a CUDA program sees first if it is the only one."""
    whole = [card for card in reading.cards if card.parent is None]
    if whole[0].divided:
        pytest.skip("the first card is divided into MIG instances")
    return whole[0].uuid
