"""Inventory source `prometheus`: which cards there are, as a child process reads them.

See prometheus_child for why there is one. A failure of Prometheus, of the network or of the child
is reported and keeps what was known; the child is started again for ever.
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
from kubeshare_py.edges.prometheus_reports import Failure, Report, Start
from kubeshare_py.inventory.reading import Reading
from kubeshare_py.inventory.series_selectors import parse_matchers

SELECTOR = 'job="kubeshare-collector"'
INTERVAL_S = 5.0
#: A line is a few hundred KB; cards by the hundred in one node would make it longer.
_LONGEST_LINE = 64 * 2**20

_log = logging.getLogger(__name__)
_reports: msgspec.json.Decoder[Report] = msgspec.json.Decoder(Report)


@dataclass(slots=True, kw_only=True)
class _Known:
    """What the reports so far add up to."""

    cards: dict[NodeName, tuple[Gpu, ...]] = field(default_factory=dict)
    collectors: dict[str, NodeName] = field(default_factory=dict)
    silent_since: dict[NodeName, float] = field(default_factory=dict)
    parts: list[tuple[NodeName, tuple[Gpu, ...]]] = field(default_factory=list)
    diagnostics: frozenset[str] = frozenset()
    has_read: bool = False
    failure: str | None = None

    def event(self, report: Report) -> InventoryRead | InventoryFailed | None:
        """Take in a report; None when it is no news."""
        if isinstance(report, Failure):
            return self.fail(report.message)
        self.parts += report.changed
        if report.more:
            return None
        self._log_new(report.diagnostics)
        changed = tuple(
            (node, cards) for node, cards in self.parts if self.cards.get(node) != cards
        )
        self.parts = []
        # The first reading, and the first after a failure, is news even if nothing changed.
        is_news = (
            bool(changed)
            or not self.has_read
            or self.failure is not None
            or report.silent_since.keys() != self.silent_since.keys()
        )
        self.cards.update(changed)
        self.silent_since = report.silent_since
        self.collectors = report.collectors or self.collectors
        self.has_read, self.failure = True, None
        return InventoryRead(changed, tuple(report.silent_since)) if is_news else None

    def fail(self, message: str) -> InventoryFailed | None:
        """Take in a failure; None when it is the same as the last one."""
        self.parts = []
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


async def readings(
    url: str,
    *,
    selector: str = SELECTOR,
    interval_s: float = INTERVAL_S,
    token_file: str | None = None,
    ca_file: str | None = None,
    backoff: Backoff | None = None,
    heard: Callable[[], None] = lambda: None,
) -> AsyncGenerator[InventoryRead | InventoryFailed, None]:
    """Yield the inventory, then only changes and failures, for ever; close it with `aclosing`.

    `selector` are label conditions as between the braces of a PromQL selector. `heard` is called
    for each answer of Prometheus that could be used. Raises SelectorProblem for a bad selector,
    before anything is asked.
    """
    parse_matchers(selector)
    known = _Known()
    backoff = backoff or Backoff()
    while True:
        start = Start(
            url=url,
            selector=selector,
            interval_s=interval_s,
            token_file=token_file,
            ca_file=ca_file,
            known=known.reading(),
        )
        problem = "it ended"
        try:
            async with aclosing(_reported(start)) as reports:
                async for report in reports:
                    if not isinstance(report, Failure):
                        heard()
                    event = known.event(report)
                    if event is not None:
                        yield event
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            problem = f"{type(error).__name__}: {error}"
        failed = known.fail(f"the process that asks Prometheus: {problem}")
        if failed is not None:
            yield failed
        await backoff.pause()


async def _reported(start: Start) -> AsyncGenerator[Report, None]:
    """One child's reports until it ends; it is ended and waited for in any case."""
    async with _child() as process:
        if process.stdin is None or process.stdout is None:
            raise OSError("no pipes to the child process")
        process.stdin.write(msgspec.json.encode(start) + b"\n")
        while line := await process.stdout.readline():
            yield _reports.decode(line)
            # Lines already here are read without waiting; others shall have their turn between.
            await asyncio.sleep(0)


@asynccontextmanager
async def _child() -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "kubeshare_py.edges.prometheus_child",
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
