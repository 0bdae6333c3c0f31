"""The scheduler's end of a process that reads the inventory: started, followed, restarted.

Decoding answers for thousands of nodes would hold the event loop, so a separate process does it and
reports only changes. A failure of the source or of the process is reported, and what is known
stays.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TypeVar

import msgspec

from kubeshare_py.domain.card_reading import one_object as one_readiness
from kubeshare_py.domain.events import InventoryFailed, InventoryRead
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.inventory.inventory_reports import (
    Failure,
    InventoryReport,
    ReadingUpdate,
    Used,
    Wired,
)
from kubeshare_py.edges.process.backoff import Backoff
from kubeshare_py.edges.process.run_until_signal import StartModule, module_process
from kubeshare_py.inventory.card_use import NodeUse
from kubeshare_py.inventory.sample_merge import Reading
from kubeshare_py.inventory.source_choice import passed_on
from kubeshare_py.topology.wiring import Wiring, one_object, still_counts, wired

T = TypeVar("T")

#: With 8 cards each, adding their wiring takes about 2 ms.
NODES_AT_ONCE = 50
#: For nodes without a report.
_NOTHING = Wiring()

_log = logging.getLogger(__name__)
_reports: msgspec.json.Decoder[InventoryReport] = msgspec.json.Decoder(InventoryReport)

#: Sends a line to the present process.
Send = Callable[[bytes], object]
#: Takes what is used of the cards of some nodes, as it was just read.
OnUsed = Callable[[Iterable[NodeUse]], object]


def unseen(nodes: Iterable[NodeUse]) -> None:
    """Take no notice of what is used."""


@dataclass(frozen=True, slots=True)
class Heard:
    """Called for each reading that succeeded, and for what is used of cards."""

    on_reading: Callable[[], None] = lambda: None
    on_used: OnUsed = unseen


UNHEARD = Heard()


def _to_nobody(send: Send | None) -> None:
    """Send nothing after the first line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A child process: a module of ours, its purpose (in messages), and its input.

    `begin` gives its first line from what is known; `attach` then gets the function to send others,
    and None when the process ends.
    """

    module: str
    purpose: str
    begin: Callable[[Reading], bytes]
    attach: Callable[[Send | None], object] = _to_nobody


async def readings(
    child: Child,
    *,
    backoff: Backoff | None = None,
    heard: Heard = UNHEARD,
    known: "InventorySoFar | None" = None,
    ends: Callable[[], bool] = lambda: False,
    start: StartModule = module_process,
) -> AsyncGenerator[InventoryRead | InventoryFailed, None]:
    """Yield the inventory, then only changes and failures, for ever; close it with `aclosing`.

    `known` is what is known before, and takes in every report. `ends` is asked after each whole
    reading and each failure, and ends all. `start` starts the process.
    """
    known = known or InventorySoFar()
    backoff = backoff or Backoff()
    while True:
        problem = "it ended"
        try:
            async with aclosing(_reported(child, known.reading(), start)) as reports:
                async for report in reports:
                    if isinstance(report, Used):
                        heard.on_used(report.nodes)
                        continue
                    if isinstance(report, ReadingUpdate):
                        heard.on_reading()
                    for event in known.events(report):
                        yield event
                    is_whole = isinstance(report, Failure) or (
                        isinstance(report, ReadingUpdate) and not report.more
                    )
                    if is_whole and ends():
                        return
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            problem = f"{type(error).__name__}: {error}"
        failed = known.fail(f"the process that {child.purpose}: {problem}")
        if failed is not None:
            yield failed
        if ends():
            return
        await backoff.pause()


async def first_reading(child: Child) -> tuple[Reading, tuple[str, ...]] | str:
    """The first reading of a process of its own, with its diagnostics; or why there is none."""
    known = InventorySoFar(logs=False)
    try:
        async with aclosing(_reported(child, Reading(), module_process)) as reports:
            async for report in reports:
                if isinstance(report, Failure):
                    return report.message
                if isinstance(report, Used):
                    continue
                for _ in known.events(report):
                    pass
                if isinstance(report, ReadingUpdate) and not report.more:
                    return known.reading(), report.diagnostics
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        return f"{type(error).__name__}: {error}"
    return f"the process that {child.purpose} ended"


@dataclass(slots=True, kw_only=True)
class InventorySoFar:
    """The sum of the reports so far; `cards` as reported, without their wiring.

    `failure` is why the last attempt failed, None if it did not.
    """

    cards: dict[NodeName, tuple[Gpu, ...]] = field(default_factory=dict)
    wirings: dict[NodeName, Wiring] = field(default_factory=dict)
    collectors: dict[str, NodeName] = field(default_factory=dict)
    silent_since: dict[NodeName, float] = field(default_factory=dict)
    parts: list[tuple[NodeName, tuple[Gpu, ...]]] = field(default_factory=list)
    diagnostics: frozenset[str] = frozenset()
    has_read: bool = False
    failure: str | None = None
    #: Whether diagnostics are logged.
    logs: bool = True

    def events(
        self, report: ReadingUpdate | Wired | Failure
    ) -> Iterator[InventoryRead | InventoryFailed]:
        """Take in a report, some nodes at a time; yields nothing if nothing is new."""
        if isinstance(report, Failure):
            failed = self.fail(report.message)
            if failed is not None:
                yield failed
        elif isinstance(report, Wired):
            yield from self._wired(report)
        else:
            self.parts += [
                (node, _sharing(cards))
                for node, cards in report.changed
                if self.cards.get(node) != cards
            ]
            if not report.more:
                yield from self._read(report)

    def _read(self, report: ReadingUpdate) -> Iterator[InventoryRead]:
        self._log_new(report.diagnostics)
        changed, self.parts = self.parts, []
        # The first reading, and the first after a failure, is new even if nothing changed.
        is_new = (
            bool(changed)
            or not self.has_read
            or self.failure is not None
            or report.silent_since.keys() != self.silent_since.keys()
        )
        self.silent_since = report.silent_since
        self.collectors = report.collectors or self.collectors
        self.has_read, self.failure = True, None
        if not changed and is_new:
            yield InventoryRead((), tuple(self.silent_since))
        for part, more in _parts(changed):
            for node, cards in part:
                if not still_counts(self.cards.get(node, cards), cards):
                    self.wirings.pop(node, None)
            self.cards.update(part)
            yield self._reported([node for node, _ in part], more)

    def _wired(self, report: Wired) -> Iterator[InventoryRead]:
        """Yield what differs; the wiring of nodes without cards is kept until they have some."""
        kinds = [one_object(kind) for kind in report.kinds]
        changed = [
            node
            for node, number in report.nodes
            if self.wirings.get(node, _NOTHING) != kinds[number]
        ]
        self.wirings.update((node, kinds[number]) for node, number in report.nodes)
        there = [node for node in changed if self.cards.get(node)] if self.has_read else []
        for part, more in _parts(there):
            yield self._reported(part, more)

    def _reported(self, nodes: Sequence[NodeName], more: bool) -> InventoryRead:
        """The cards of these nodes with their wiring."""
        return InventoryRead(
            tuple(
                (node, wired(self.cards[node], self.wirings[node]))
                if node in self.wirings
                else (node, self.cards[node])
                for node in nodes
            ),
            () if more else tuple(self.silent_since),
            more=more,
        )

    def fail(self, message: str) -> InventoryFailed | None:
        """Take in a failure; None if it is the same as the last one."""
        self.parts = []
        if message == self.failure:
            return None
        self.failure = message
        return InventoryFailed(message)

    def reading(self) -> Reading:
        """The state that a new child starts from."""
        return Reading(cards=self.cards, collectors=self.collectors, silent_since=self.silent_since)

    def pass_on(self) -> None:
        """Let another source go on from what is known."""
        self.collectors = dict(passed_on(self.reading()).collectors)

    def _log_new(self, diagnostics: Iterable[str]) -> None:
        if not self.logs:
            return
        found = frozenset(diagnostics)
        for diagnostic in sorted(found - self.diagnostics):
            _log.warning("inventory: %s", diagnostic)
        self.diagnostics = found


async def _reported(
    child: Child, known: Reading, start: StartModule
) -> AsyncGenerator[InventoryReport, None]:
    """One child's reports until it ends; in any case it is ended and waited for."""
    async with start(child.module) as process:
        if process.stdin is None or process.stdout is None:
            raise OSError("no pipes to the child process")
        process.stdin.write(child.begin(known))
        child.attach(process.stdin.write)
        try:
            while line := await process.stdout.readline():
                report = _reports.decode(line)
                # Decoding and taking in are a turn each, and lines that have arrived are read
                # without waiting: other tasks get their turn here.
                await asyncio.sleep(0)
                yield report
                await asyncio.sleep(0)
        finally:
            child.attach(None)


def _sharing(cards: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The same cards, with one copy of equal parts."""
    if not any(card.readiness for card in cards):
        return cards
    return tuple(replace(card, readiness=one_readiness(card.readiness)) for card in cards)


def _parts(nodes: Sequence[T]) -> Iterator[tuple[Sequence[T], bool]]:
    """Portions so small that taking one in is a short turn, and whether more follow."""
    for first in range(0, len(nodes), NODES_AT_ONCE):
        after = first + NODES_AT_ONCE
        yield nodes[first:after], after < len(nodes)
