"""The collector's end of the process that asks the driver: its last report, and its state."""

import asyncio
import os
import time
from asyncio.subprocess import Process
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from kubeshare_py.domain.card_reading import CardLink, JudgedCard, NodeReading
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.node.card_reports import CardReport
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.process.run_until_signal import module_process
from kubeshare_py.exporters.collector_metrics import FAILED, HUNG, READ, CollectorFigures
from kubeshare_py.node_agent.history import History, given_away
from kubeshare_py.node_agent.links import card_links
from kubeshare_py.node_agent.readings import MemoryRule, memory_rules, with_shared_memory

INTERVAL_S, STALE_AFTER_S, REOPEN_S = 5.0, 30.0, 60.0
ROOT = Path("/")
#: The process is replaced after this many times the staleness time.
_PATIENCE = 2

_reports = msgspec.json.Decoder(CardReport)


#: The memory of cards that use the node's, for all programs of a node.
MEMORY_VARIABLE = "KUBESHARE_CARD_MEMORY"


def configured_memory() -> tuple[MemoryRule, ...]:
    """The rules of the environment; a bad one ends the process with a sentence."""
    # What Linux calls MemTotal: https://man7.org/linux/man-pages/man3/sysconf.3.html
    node_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        return memory_rules(os.environ.get(MEMORY_VARIABLE, ""), node_bytes)
    except ValueError as error:
        raise SystemExit(f"{MEMORY_VARIABLE}: {error}") from error


class CardsUnreadable(Exception):
    """The cards cannot be read; the text says why."""


class DriverHangs(CardsUnreadable):
    """A call into the driver does not return."""


@dataclass(slots=True)
class CardSampler:
    """Reads the cards of `node` while `run` runs.

    A reading is stale after `stale_after_s`, which is more than an interval: then no card counts as
    healthy. `clock` is any clock in seconds, `unix_clock` gives Unix time.
    """

    node: NodeName
    interval_s: float = INTERVAL_S
    stale_after_s: float = STALE_AFTER_S
    reopen_s: float = REOPEN_S
    #: The folder below which the node's own folders are mounted.
    root: Path = ROOT
    #: For cards whose driver has no memory to report.
    memory: tuple[MemoryRule, ...] = field(default_factory=configured_memory)
    clock: Callable[[], float] = time.monotonic
    unix_clock: Callable[[], float] = time.time
    history: History = field(default_factory=History)
    #: Readings by result, and the problem of the last one, "" if it had none.
    readings: Counter[str] = field(default_factory=Counter)
    trouble: str = ""
    #: Called after each reading, once it is taken in.
    on_reading: Callable[[], object] = lambda: None
    _links: tuple[CardLink, ...] = ()
    _read_at_unix: float = 0.0

    async def run(self) -> None:
        """Read for ever; a process that ended or hangs is replaced when the next reading is due."""
        while True:
            try:
                await self._listen()
            except DriverHangs as error:
                self._failed(HUNG, str(error))
            except (CardsUnreadable, OSError) as error:
                self._failed(FAILED, str(error))
            await asyncio.sleep(self.interval_s)

    async def once(self) -> None:
        """Read once. Raises CardsUnreadable."""
        async with self._child() as process:
            report = await self._report(process, self.stale_after_s)
        self._take(report)
        if report.reading is None:
            raise CardsUnreadable(report.failure)

    def took(self, reading: NodeReading) -> None:
        """Take in a reading, and log what is new."""
        self.readings[READ] += 1
        self.trouble = ""
        self._read_at_unix = self.unix_clock()
        reading = with_shared_memory(reading, self.memory)
        for notice in self.history.take(reading, self.clock()):
            tell = decision_log.warn if notice.is_trouble else decision_log.inform
            tell(notice.event, **notice.about)
        self._links = card_links(card.reading for card in self.history.cards() if card.is_read)
        self.on_reading()

    @property
    def age_s(self) -> float | None:
        """Seconds since the driver last answered."""
        read_at = self.history.read_at
        return None if read_at is None else self.clock() - read_at

    def unread(self) -> str:
        """Why the readings are not usable now, "" if they are."""
        age_s = self.age_s
        if age_s is None:
            return f"no reading yet{f': {self.trouble}' if self.trouble else ''}"
        if age_s <= self.stale_after_s:
            return ""
        return f"last reading {age_s:.0f} s ago{f': {self.trouble}' if self.trouble else ''}"

    def cards(self) -> tuple[JudgedCard, ...]:
        """All known cards."""
        return self.history.cards(stale=bool(self.unread()))

    def links(self) -> tuple[CardLink, ...]:
        """The links between the cards."""
        return self._links

    def figures(self) -> CollectorFigures:
        """The figures for the metrics."""
        history, cards = self.history, self.cards()
        return CollectorFigures(
            node=self.node,
            cards=cards,
            listed=given_away(cards),
            links=self._links,
            rdma=history.reading.rdma if history.reading else (),
            errors=history.errors,
            unanswered=history.unanswered,
            readings=self.readings,
            driver=history.reading.driver if history.reading else "",
            age_s=self.age_s,
            took_s=history.reading.took_s if history.reading else None,
        )

    def listed_at(self) -> float:
        """The Unix time of the list of cards: now, or the last reading's if it is stale."""
        return self._read_at_unix if self.unread() else self.unix_clock()

    async def _listen(self) -> None:
        try:
            async with self._child() as process:
                while True:
                    self._take(await self._report(process, _PATIENCE * self.stale_after_s))
        except CardsUnreadable:
            # A process stuck in the driver cannot be killed: no second one is started meanwhile.
            await process.wait()
            raise

    async def _report(self, process: Process, patience_s: float) -> CardReport:
        if process.stdout is None:
            raise CardsUnreadable("no pipe from the process that asks the driver")
        try:
            async with asyncio.timeout(patience_s):
                line = await process.stdout.readline()
            if line:
                return _reports.decode(line)
        except TimeoutError as error:
            raise DriverHangs(f"the driver gave no answer for {patience_s:.0f} s") from error
        except (ValueError, msgspec.MsgspecError) as error:
            raise CardsUnreadable(f"the process that asks the driver said: {error}") from error
        raise CardsUnreadable(f"the process that asks the driver ended with {await process.wait()}")

    def _take(self, report: CardReport) -> None:
        if report.reading is None:
            self._failed(FAILED, report.failure)
        else:
            self.took(report.reading)

    def _failed(self, result: str, message: str) -> None:
        self.readings[result] += 1
        if message != self.trouble:
            decision_log.warn("driver", message=message)
        self.trouble = message

    def _child(self) -> AbstractAsyncContextManager[Process]:
        return module_process(
            "kubeshare_py.edges.node.card_child",
            str(self.interval_s),
            str(self.reopen_s),
            str(self.root),
        )
