"""The process that asks the collectors themselves and reports only changes.

One JSON line in (`ScrapeStart`), then lines with the collectors (`TargetsUpdate`); one report out
per interval. It ends when its standard input does, so it never outlives the scheduler.
"""

import asyncio
import ssl
import sys
import time
from asyncio import StreamReader, StreamReaderProtocol
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import aiohttp
import msgspec

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.inventory.inventory_reports import (
    Failure,
    ScrapeAccess,
    ScrapeStart,
    TargetsUpdate,
    line,
    update_lines,
    used_lines,
    wired_line,
    write_out,
)
from kubeshare_py.exporters.collector_metrics import PATH
from kubeshare_py.inventory.card_use import EVERY_S, MeasuredUse, NodeUse
from kubeshare_py.inventory.changes import next_reading
from kubeshare_py.inventory.collector_page import (
    NODES_A_PORTION,
    Remark,
    Rounds,
    ScrapedPage,
    ScrapeTarget,
    chosen,
    no_answer,
    read_page,
    wiring_of_page,
    wirings,
)
from kubeshare_py.inventory.sample_merge import Reading
from kubeshare_py.topology.wiring import Wiring

# Requests one collector's page over HTTP: the result is always a `ScrapedPage`.


#: The most seconds until a page has arrived, or an interval if that is shorter.
MAX_TIMEOUT_S = 4.0
#: Sixteen cards with all their metrics and links are 100 KB.
MAX_BYTES = 8 * 2**20
_PIECE = 2**16
_OK = 200
_OPENMETRICS = "application/openmetrics-text"
_HEADERS = {
    "Accept": f"{_OPENMETRICS};version=1.0.0,text/plain;version=0.0.4;q=0.5",
    "Accept-Encoding": "gzip",
    "User-Agent": "kubeshare-scheduler",
}


class _Refused(Exception):
    """The answer is no page; the text says why."""


@dataclass(slots=True)
class CollectorClient:
    """Requests pages of collectors; an async context manager."""

    start: ScrapeStart
    timeout_s: float = field(init=False)
    _session: aiohttp.ClientSession | None = None
    _context: tuple[tuple[int, int], ssl.SSLContext] | None = None

    def __post_init__(self) -> None:
        self.timeout_s = min(MAX_TIMEOUT_S, self.start.interval_s)

    async def __aenter__(self) -> Self:
        # A new connection of plain HTTP costs less than 5,000 that are kept open; one with TLS
        # costs more.
        connector = aiohttp.TCPConnector(limit=0, force_close=self.start.scheme == "http")
        self._session = aiohttp.ClientSession(
            connector=connector, headers=_HEADERS, cookie_jar=aiohttp.DummyCookieJar()
        )
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def ask(self, target: ScrapeTarget, *, with_uses: bool = False) -> ScrapedPage:
        """The collector's page, or a page that says why there is none."""
        host = f"[{target.host}]" if ":" in target.host else target.host
        instance = f"{host}:{self.start.port}"
        try:
            async with asyncio.timeout(self.timeout_s):
                text, has_end = await self._get(f"{self.start.scheme}://{instance}{PATH}")
        except TimeoutError:
            return no_answer(target.node, instance, f"nothing for {self.timeout_s:g} s")
        except (aiohttp.ClientError, OSError, ValueError, _Refused) as error:
            # ValueError: for a token that cannot be in a header, and for bytes that are no text.
            reason = (
                str(error) if isinstance(error, _Refused) else f"{type(error).__name__}: {error}"
            )
            return no_answer(target.node, instance, reason)
        return read_page(text, target.node, instance, has_end=has_end, with_uses=with_uses)

    async def _get(self, url: str) -> tuple[str, bool]:
        """The text, and whether it must have an end mark."""
        if self._session is None:
            raise RuntimeError("CollectorClient is used outside its context")
        access = self.start.access
        async with self._session.get(
            url,
            headers=_authorization(access),
            ssl=self._tls(access) if self.start.scheme == "https" else True,
            server_hostname=access.server_name or None,
            allow_redirects=False,
        ) as answer:
            if answer.status != _OK:
                said = (await answer.content.read(200)).decode(errors="replace").strip()
                raise _Refused(f"HTTP {answer.status} {said}".rstrip())
            return (await _body(answer)).decode(), answer.content_type == _OPENMETRICS

    def _tls(self, access: ScrapeAccess) -> ssl.SSLContext:
        """A context with the CA as its file is now."""
        stamp = (0, 0)
        if access.ca_file:
            status = Path(access.ca_file).stat()
            stamp = status.st_mtime_ns, status.st_size
        if self._context is None or self._context[0] != stamp:
            context = ssl.create_default_context(cafile=access.ca_file or None)
            self._context = stamp, context
        return self._context[1]


async def _body(answer: aiohttp.ClientResponse) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while piece := await answer.content.read(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > MAX_BYTES:
            raise _Refused(f"a page of more than {MAX_BYTES} bytes")
    return b"".join(pieces)


def _authorization(access: ScrapeAccess) -> dict[str, str]:
    """The bearer token, read again each time because the kubelet renews the file."""
    if not access.token_file:
        return {}
    return {"Authorization": f"Bearer {Path(access.token_file).read_text().strip()}"}


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
    #: What is used of nodes' cards, read since the last report.
    _uses: dict[NodeName, tuple[MeasuredUse, ...]] = field(default_factory=dict)
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
                    self._uses.pop(node, None)
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
            write_out(used_lines([*self._taken_uses()]))
            until = now() + interval_s
            while (nodes := self._rounds.waiting(self._wirings)) and now() < until:
                write_out(await asyncio.to_thread(self._wire, nodes))
            await asyncio.sleep(max(until - now(), 0))
            lines = await self._lines()

    async def _ask(self, target: ScrapeTarget) -> None:
        """Ask one collector for ever: at once, and then once per interval."""
        now = asyncio.get_running_loop().time
        uses_due = now()
        while True:
            due = now() + self.start.interval_s
            page = self._pages.get(target.node)
            async with self._slots_of_failing if page and page.problem else self._slots:
                page = await self.client.ask(target, with_uses=now() >= uses_due)
            self._pages[target.node] = replace(page, wiring="", uses=())
            if page.uses:
                self._uses[target.node], uses_due = page.uses, now() + EVERY_S
            if page.wiring and self._read_wirings.get(target.node) != hash(page.wiring):
                self._wirings[target.node] = page.wiring
                self._rounds.renew(target.node)
            self._asked.set()
            await asyncio.sleep(due - now())

    async def _lines(self) -> list[bytes]:
        """The next report, which replaces `known`. By node: equal pages make an equal report."""
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

    def _taken_uses(self) -> Iterator[NodeUse]:
        """What is used, of cards that are known."""
        found, self._uses = self._uses, {}
        for node, uses in found.items():
            known = {card.uuid for card in self.known.cards.get(node, ())}
            yield node, tuple(one for one in uses if one.uuid in known)

    def _wire(self, nodes: Iterable[NodeName]) -> list[bytes]:
        """Read the wiring of these nodes; the lines with what is new.

        In a thread: a node that `_ask` renews meanwhile is read again with its next page.
        """
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
