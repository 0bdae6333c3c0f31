"""The scheduler's end of a process that reads the inventory: started, heard, started again.

Decoding answers for thousands of nodes would hold the event loop, so a process of its own does it
and tells only what changed. A failure of the source or of the process is reported and keeps what
was known.
"""

import asyncio
import logging
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field

import msgspec

from kubeshare_py.domain.events import InventoryFailed, InventoryRead
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.backoff import Backoff
from kubeshare_py.edges.inventory_reports import Failure, News, Report, Wired
from kubeshare_py.inventory.reading import Reading
from kubeshare_py.topology.wiring import Wiring, one_object, still_counts, wired

#: A line is a few hundred KB; cards by the hundred in one node would make it longer.
_LONGEST_LINE = 64 * 2**20

_log = logging.getLogger(__name__)
_reports: msgspec.json.Decoder[Report] = msgspec.json.Decoder(Report)

#: Sends a line to the process that runs now.
Send = Callable[[bytes], object]


def _to_nobody(send: Send | None) -> None:
    """There is nothing to send after the first line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """Which process: a module of ours, what it is for (in messages), and what it is told.

    `begin` gives its first line from what is known; `attach` is then given the way to send others,
    and None when the process ends.
    """

    module: str
    purpose: str
    begin: Callable[[Reading], bytes]
    attach: Callable[[Send | None], object] = _to_nobody


async def readings(
    child: Child, *, backoff: Backoff | None = None, heard: Callable[[], None] = lambda: None
) -> AsyncGenerator[InventoryRead | InventoryFailed, None]:
    """Yield the inventory, then only changes and failures, for ever; close it with `aclosing`.

    `heard` is called for each reading that succeeded.
    """
    known = _Known()
    backoff = backoff or Backoff()
    while True:
        problem = "it ended"
        try:
            async with aclosing(_reported(child, known.reading())) as reports:
                async for report in reports:
                    if isinstance(report, News):
                        heard()
                    event = known.event(report)
                    if event is not None:
                        yield event
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            problem = f"{type(error).__name__}: {error}"
        failed = known.fail(f"the process that {child.purpose}: {problem}")
        if failed is not None:
            yield failed
        await backoff.pause()


@dataclass(slots=True, kw_only=True)
class _Known:
    """What the reports so far add up to; `cards` as they are told, without their wiring."""

    cards: dict[NodeName, tuple[Gpu, ...]] = field(default_factory=dict)
    wirings: dict[NodeName, Wiring] = field(default_factory=dict)
    collectors: dict[str, NodeName] = field(default_factory=dict)
    silent_since: dict[NodeName, float] = field(default_factory=dict)
    #: What lines of the reading that is coming in have brought, as told, and what it comes to.
    parts: list[tuple[NodeName, tuple[Gpu, ...]]] = field(default_factory=list)
    joined: list[tuple[NodeName, tuple[Gpu, ...]]] = field(default_factory=list)
    diagnostics: frozenset[str] = frozenset()
    has_read: bool = False
    failure: str | None = None

    def event(self, report: Report) -> InventoryRead | InventoryFailed | None:
        """Take in a report; None when it is no news."""
        if isinstance(report, Failure):
            return self.fail(report.message)
        if isinstance(report, Wired):
            return self._wired(report)
        self._take(part for part in report.changed if self.cards.get(part[0]) != part[1])
        if report.more:
            return None
        self._log_new(report.diagnostics)
        changed, parts = tuple(self.joined), self.parts
        self.parts, self.joined = [], []
        # The first reading, and the first after a failure, is news even if nothing changed.
        is_news = (
            bool(changed)
            or not self.has_read
            or self.failure is not None
            or report.silent_since.keys() != self.silent_since.keys()
        )
        self.cards.update(parts)
        self.silent_since = report.silent_since
        self.collectors = report.collectors or self.collectors
        self.has_read, self.failure = True, None
        return InventoryRead(changed, tuple(report.silent_since)) if is_news else None

    def _take(self, parts: Iterable[tuple[NodeName, tuple[Gpu, ...]]]) -> None:
        """Cards that differ, with what surrounds them: line by line, so that no turn is long."""
        for node, cards in parts:
            if not still_counts(self.cards.get(node, cards), cards):
                self.wirings.pop(node, None)
            self.parts.append((node, cards))
            self.joined.append((node, self._with_wiring(node, cards)))

    def _wired(self, report: Wired) -> InventoryRead | None:
        """Only what differs is news; of nodes without cards it is kept until they have some."""
        kinds = [one_object(kind) for kind in report.kinds]
        changed = [node for node, number in report.nodes if self.wirings.get(node) != kinds[number]]
        self.wirings.update((node, kinds[number]) for node, number in report.nodes)
        there = [
            (node, self._with_wiring(node, self.cards[node]))
            for node in changed
            if self.cards.get(node)
        ]
        if not there or not self.has_read:
            return None
        return InventoryRead(tuple(there), tuple(self.silent_since))

    def _with_wiring(self, node: NodeName, cards: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
        return wired(cards, self.wirings[node]) if node in self.wirings else cards

    def fail(self, message: str) -> InventoryFailed | None:
        """Take in a failure; None when it is the same as the last one."""
        self.parts, self.joined = [], []
        if message == self.failure:
            return None
        self.failure = message
        return InventoryFailed(message)

    def reading(self) -> Reading:
        """What a new child starts from."""
        return Reading(cards=self.cards, collectors=self.collectors, silent_since=self.silent_since)

    def _log_new(self, diagnostics: Iterable[str]) -> None:
        found = frozenset(diagnostics)
        for diagnostic in sorted(found - self.diagnostics):
            _log.warning("inventory: %s", diagnostic)
        self.diagnostics = found


async def _reported(child: Child, known: Reading) -> AsyncGenerator[Report, None]:
    """One child's reports until it ends; it is ended and waited for in any case."""
    async with _process(child.module) as process:
        if process.stdin is None or process.stdout is None:
            raise OSError("no pipes to the child process")
        process.stdin.write(child.begin(known))
        child.attach(process.stdin.write)
        try:
            while line := await process.stdout.readline():
                report = _reports.decode(line)
                # Decoding and taking in are a turn each, and lines that are here already are
                # read without waiting: let others have theirs.
                await asyncio.sleep(0)
                yield report
                await asyncio.sleep(0)
        finally:
            child.attach(None)


@asynccontextmanager
async def _process(module: str) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        stdin=PIPE,
        stdout=PIPE,
        limit=_LONGEST_LINE,
        # Its own session: Ctrl-C in a terminal is for the scheduler, which then ends it.
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        if process.stdout is not None:
            await process.stdout.read()
        await process.wait()
