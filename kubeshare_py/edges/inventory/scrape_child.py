"""The process that asks the collectors themselves and reports only changes.

One JSON line in (`ScrapeStart`), then lines with the collectors (`TargetsUpdate`); one report out
per interval. It ends when its standard input does, so it never outlives the scheduler.
"""

import asyncio
import sys
import time
from asyncio import StreamReader, StreamReaderProtocol
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import msgspec

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.inventory.collector_client import CollectorClient
from kubeshare_py.edges.inventory.inventory_reports import (
    Failure,
    ScrapeStart,
    TargetsUpdate,
    line,
    update_lines,
    wired_line,
    write_out,
)
from kubeshare_py.inventory.changes import next_reading
from kubeshare_py.inventory.collector_page import ScrapedPage, wiring_of_page
from kubeshare_py.inventory.reading import Reading
from kubeshare_py.inventory.targets import ScrapeTarget, chosen
from kubeshare_py.inventory.wiring_series import NODES_A_PORTION, Remark, Rounds, wirings
from kubeshare_py.topology.wiring import Wiring

_LONGEST_LINE = 64 * 2**20
#: Intervals without a list of collectors after which that is reported.
_PATIENCE = 2.0
#: The most simultaneous requests to collectors that answered the last time, and to others: hundreds
#: of hanging ones must not delay those that answer.
_AT_ONCE, _FAILING_AT_ONCE = 128, 64


@dataclass(slots=True)
class Scraper:
    """Asks each collector once per interval, and reports the changes once per interval."""

    start: ScrapeStart
    client: CollectorClient
    known: Reading = field(init=False)
    _pods: dict[str, ScrapeTarget] = field(default_factory=dict)
    _asking: dict[NodeName, tuple[ScrapeTarget, asyncio.Task[None]]] = field(default_factory=dict)
    _pages: dict[NodeName, ScrapedPage] = field(default_factory=dict)
    #: Wirings that were not read yet, or changed since.
    _wirings: dict[NodeName, str] = field(default_factory=dict)
    _read_wirings: dict[NodeName, int] = field(default_factory=dict)
    _rounds: Rounds = field(init=False)
    _has_targets: asyncio.Event = field(default_factory=asyncio.Event)
    #: Set whenever a collector was asked.
    _asked: asyncio.Event = field(default_factory=asyncio.Event)
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))
    _slots_of_failing: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(_FAILING_AT_ONCE)
    )

    def __post_init__(self) -> None:
        self.known = self.start.known
        self._rounds = Rounds(Reading())

    def take(self, update: TargetsUpdate, group: asyncio.TaskGroup) -> None:
        """Take the present collectors: begin and end asking."""
        if update.all:
            self._pods.clear()
        for pod, target in update.targets.items():
            if target is None:
                self._pods.pop(pod, None)
            else:
                self._pods[pod] = target
        wanted = chosen(self._pods.values())
        for node, (target, task) in [*self._asking.items()]:
            if node not in wanted or wanted[node].host != target.host:
                task.cancel()
                del self._asking[node]
                if node not in wanted:
                    self._pages.pop(node, None)
                    self._wirings.pop(node, None)
        for node, target in wanted.items():
            if node not in self._asking:
                self._asking[node] = target, group.create_task(self._ask(target))
        self._has_targets.set()

    def tasks(self) -> Iterator[asyncio.Task[None]]:
        """The tasks that ask."""
        return (task for _, task in self._asking.values())

    async def report(self) -> None:
        """Write a report per interval for ever; the first one when every collector was asked."""
        interval_s = self.start.interval_s
        try:
            async with asyncio.timeout(_PATIENCE * interval_s + self.client.timeout_s):
                await self._has_targets.wait()
                while not self._pages.keys() >= self._asking.keys():
                    self._asked.clear()
                    await self._asked.wait()
        except TimeoutError:
            pass
        now = asyncio.get_running_loop().time
        lines = await self._lines()
        nodes = self._rounds.waiting(self._wirings)
        # A few new nodes are reported together with their wiring; otherwise the wiring follows the
        # cards.
        if len(nodes) < NODES_A_PORTION and not self.start.known.cards:
            lines = [*await asyncio.to_thread(self._wire, nodes), *lines]
        while True:
            write_out(lines)
            until = now() + interval_s
            while (nodes := self._rounds.waiting(self._wirings)) and now() < until:
                write_out(await asyncio.to_thread(self._wire, nodes))
            await asyncio.sleep(max(until - now(), 0))
            lines = await self._lines()

    async def _ask(self, target: ScrapeTarget) -> None:
        """Ask one collector for ever: at once, and then once per interval."""
        now = asyncio.get_running_loop().time
        while True:
            due = now() + self.start.interval_s
            page = self._pages.get(target.node)
            async with self._slots_of_failing if page and page.problem else self._slots:
                page = await self.client.ask(target)
            self._pages[target.node] = replace(page, wiring="")
            if page.wiring and self._read_wirings.get(target.node) != hash(page.wiring):
                self._wirings[target.node] = page.wiring
                self._rounds.renew(target.node)
            self._asked.set()
            await asyncio.sleep(due - now())

    async def _lines(self) -> list[bytes]:
        problem = self._problem()
        if problem:
            return [line(Failure(message=problem))]
        pages = [self._pages[node] for node in sorted(self._pages)]
        vector = [series for page in pages for series in page.vector]
        times = time.monotonic(), time.time()
        # In a thread: comparing thousands of pages must not delay requests.
        step = await asyncio.to_thread(
            next_reading, self.known, vector, times[0], unix_now=times[1]
        )
        found = (one for page in pages for one in page.diagnostics)
        diagnostics = (*found, *self._rounds.diagnostics())
        lines, self.known = update_lines(step, self.known, diagnostics), step.reading
        for node in self._rounds.take(self.known, (node for node, _ in step.changed)):
            # The same lines may mean something else for other cards: they are read once more.
            self._read_wirings.pop(node, None)
        return lines

    def _wire(self, nodes: Iterable[NodeName]) -> list[bytes]:
        """Read the wiring of these nodes; the lines with what is new."""
        found: dict[NodeName, Wiring] = {}
        remarks: list[Remark] = []
        for node in nodes:
            text = self._wirings.pop(node, "")
            self._read_wirings[node] = hash(text)
            cards = self.known.cards.get(node, ())
            found |= wirings(wiring_of_page(text), {node: cards}, remarks.append)
        return wired_line(self._rounds.asked(nodes, found, self.known, remarks))

    def _problem(self) -> str:
        """Why nothing is known of any card, "" if something is."""
        if not self._has_targets.is_set():
            return "the collectors' pods are not known yet"
        if not self._asking:
            return "no collector's pod has an address: is podSelector right, do collectors run?"
        failed = [page.problem for page in self._pages.values()]
        if not all(failed) or not failed:
            return ""
        return f"none of {len(failed)} collectors answers; one: {failed[0]}"


async def main() -> None:
    """Ask and report until standard input ends."""
    lines = await _stdin()
    first = await lines.readline()
    if not first:
        return
    start = msgspec.json.decode(first, type=ScrapeStart)
    async with CollectorClient(start) as client, asyncio.TaskGroup() as group:
        scraper = Scraper(start, client)
        tasks = [group.create_task(scraper.report())]
        while text := await lines.readline():
            scraper.take(msgspec.json.decode(text, type=TargetsUpdate), group)
        for task in (*tasks, *scraper.tasks()):
            task.cancel()


async def _stdin() -> StreamReader:
    reader = StreamReader(limit=_LONGEST_LINE)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: StreamReaderProtocol(reader), sys.stdin)
    return reader


if __name__ == "__main__":
    asyncio.run(main())
