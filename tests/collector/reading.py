"""The process that asks the driver, without the collector around it."""

import select
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import msgspec

from kubeshare_py.domain.card_reading import JudgedCard, NodeReading
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.edges.node.card_reports import CardReport
from kubeshare_py.node_agent.history import History
from tests.patience import PATIENCE_S

#: How long (s) a reading may take on a busy machine.
#: Readings that a change may take to be seen.
SOON = 200

Cards = dict[GpuUuid, JudgedCard]


class Reader:
    """It reads as often as it is asked to; `history` has what was read."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._reports = 0
        self.history = History()

    def report(self) -> CardReport:
        """The next one."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], PATIENCE_S)
        assert ready, "no answer"
        line = self._process.stdout.readline()
        assert line, f"it ended with {self._process.wait()}"
        report = msgspec.json.decode(line, type=CardReport)
        if report.reading is not None:
            self._reports += 1
            self.history.take(report.reading, float(self._reports))
        return report

    def reading(self) -> NodeReading:
        """The next one that is there."""
        report = self.report()
        assert report.reading is not None, report.failure
        return report.reading

    def expect_eventually(self, wanted: Callable[[Cards], object]) -> Cards:
        """Read until cards, by uuid, are as wanted."""
        for _ in range(SOON):
            self.report()
            cards = {card.reading.uuid: card for card in self.history.cards()}
            if wanted(cards):
                return cards
        raise AssertionError(f"never: {[*self.history.cards()]}")

    def expect_it_waits(self) -> None:
        """Read until a call does not return: nothing comes although readings are due."""
        assert self._process.stdout is not None
        for _ in range(SOON):
            if not select.select([self._process.stdout], [], [], 1.0)[0]:
                return
            self.report()
        raise AssertionError("it goes on")

    def expect_report(self, wanted: Callable[[CardReport], object]) -> CardReport:
        """Read until a report is as wanted."""
        for _ in range(SOON):
            report = self.report()
            if wanted(report):
                return report
        raise AssertionError("never")

    def end(self) -> int:
        """End its standard input; the exit code."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait(PATIENCE_S)


@contextmanager
def reader(
    environment: Mapping[str, str], interval_s: float = 0.02, reopen_s: float = 60.0
) -> Iterator[Reader]:
    """One that reads all the time."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "kubeshare_py.edges.node.card_child",
            str(interval_s),
            str(reopen_s),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    with process:
        try:
            yield Reader(process)
        finally:
            process.kill()
