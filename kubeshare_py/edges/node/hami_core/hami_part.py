"""The node agent's part for HAMi-core, and HAMi's page of metrics."""

import asyncio
import math
import os
import stat
import struct
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from aiohttp import web

from kubeshare_py.domain.card_reading import CardReading, IsolationBackend, JudgedCard
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.edges.node.agent import NodeAgent
from kubeshare_py.edges.node.card_sampler import CardSampler
from kubeshare_py.edges.node.collector_server import served_routes
from kubeshare_py.edges.node.hami_core.hami_folder import HamiFolder, RegionFolder
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.process.build import running_build
from kubeshare_py.exporters.hami_node_metrics import CONTENT_TYPE, HamiCard, HamiUse, hami_page
from kubeshare_py.exporters.metric import Values, hami_build_text
from kubeshare_py.exporters.node_agent_metrics import HAMI_CORE, hami_core_values
from kubeshare_py.node_agent.agent_report import PartReport
from kubeshare_py.node_agent.hami_core import (
    LOCKS,
    MOST_BYTES,
    RECENT_AT,
    SWITCH_AT,
    Feedback,
    HamiCoreSettings,
    SharedRegion,
    feedback,
    read_region,
    without_feedback,
)
from kubeshare_py.node_agent.tenants import AgentState, NodeTenant

# The node agent's part for HAMi-core: its folder, and the regions of the node's containers.
#
# What containers get of the library is the device plugins' to say (`container_starts`).
#
# What containers wrote is read and removed by a thread, so that none of them holds up the others.


# Shared regions as files: read, and never mapped.
#
# A container may cut its file short at any time: the kernel then ends programs that have it mapped.
# Reading is coherent with the processes that do map it, on one page after the other.


#: Pods own the folder: a link would lead out of it, and a pipe would be waited for.
_CAREFULLY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_INT = struct.Struct("=i")
#: Entries of a folder that are looked at; the library makes one.
_MOST_ENTRIES = 64


def tell(folder: Path, region: SharedRegion, told: Feedback) -> None:
    """Write what its processes are to do into a container's region. Raises OSError.

    `region` is what was read of it. Nothing else in the file is touched, and only what differs.
    """
    names = _regions(folder)
    if len(names) != 1:
        raise OSError(0, "the region is gone")
    file = os.open(f"{folder}/{names[0]}", os.O_RDWR | _CAREFULLY)
    try:
        _check(file)
        if told.is_limiting != region.is_limiting:
            os.pwrite(file, _INT.pack(told.is_limiting), region.tail + SWITCH_AT)
        if told.recent_kernel != region.recent_kernel:
            os.pwrite(file, _INT.pack(told.recent_kernel), region.tail + RECENT_AT)
    finally:
        os.close(file)


def region_of(folder: Path, *, with_use: bool = True) -> SharedRegion | str | None:
    """The region in a container's folder, or why it cannot be read.

    What its processes use is left out without `with_use`. None while there is none: a container
    that never called CUDA has no region.
    """
    try:
        names = _regions(folder)
        if not names:
            return None
        if len(names) > 1:
            return f"there are {len(names)} files of regions"
        return read_region(_content(f"{folder}/{names[0]}"), with_use=with_use)
    except OSError as error:
        return error.strerror or str(error)


def _regions(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        found = []
        for _, entry in zip(range(_MOST_ENTRIES), entries, strict=False):
            if entry.name.endswith(".cache"):
                found.append(entry.name)
    return sorted(found)


def _content(path: str) -> bytes:
    """The file's content, up to what a region may have. Raises OSError, also for other kinds."""
    file = os.open(path, os.O_RDONLY | _CAREFULLY)
    try:
        return os.pread(file, MOST_BYTES + 1, 0) if _check(file) <= MOST_BYTES else b""
    finally:
        os.close(file)


def _check(file: int) -> int:
    """Its length, if it is a plain file that has no other name. Raises OSError."""
    about = os.fstat(file)
    if not stat.S_ISREG(about.st_mode) or about.st_nlink > 1:
        raise OSError(0, "it is no plain file")
    return about.st_size


#: Seconds between two looks at the folder; HAMi's monitor looks as often.
LOOK_S = 5.0
Regions = Mapping[RegionFolder, SharedRegion]


class _FolderLook(msgspec.Struct, frozen=True, gc=False):
    """What one look at the folder has shown. `trouble` is why it cannot be used, "" if it can.

    `found` are the regions, with why one cannot be read; `stays` is why a folder is not removed.
    """

    works: bool
    trouble: str
    warning: str
    found: Mapping[RegionFolder, SharedRegion | str]
    stays: Mapping[Path, str]


class HamiPart:
    """Keeps `folder` of `node` in order; `unix_clock` gives Unix time (s)."""

    name = "hami-core"
    metrics = HAMI_CORE

    def __init__(
        self,
        node: NodeName,
        folder: HamiFolder,
        look_s: float = LOOK_S,
        unix_clock: Callable[[], float] = time.time,
    ) -> None:
        self.on_report: Callable[[], None] = lambda: None
        #: The regions that can be read, by their folders, as of the last look.
        self.regions: Regions = {}
        self.state = AgentState()
        self._node = node
        self._folder = folder
        self._look_s = look_s
        self._unix_clock = unix_clock
        self._works: bool | None = None
        self._trouble = self._said = ""
        self._stays: Mapping[Path, str] = {}
        self._unreadable: Mapping[RegionFolder, str] = {}
        self._has_ended = False
        self._turn = threading.Lock()

    def take(self, state: AgentState) -> None:
        """Pods or cards have changed."""
        self.state = state

    def report(self) -> PartReport | None:
        """HAMi-core is enforced while its library is there."""
        if self._works is None:
            return None
        return PartReport(enforces=(IsolationBackend.HAMI_CORE,) if self._works else ())

    def values(self) -> Values:
        """Its figures."""
        return hami_core_values(
            self._node, len(self.regions), len(self._unreadable), len(self._stays)
        )

    def problem(self) -> str:
        """Why its folder cannot be used; a node without the library is in order."""
        return self._trouble

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        try:
            while True:
                known = self.state.tenants
                self._take_look(await asyncio.to_thread(self._look, known))
                await asyncio.sleep(self._look_s)
        finally:
            # A look that is under way would make containers wait; the next one is another agent's.
            with self._turn:
                self._has_ended = True
                regions = self.read(with_use=False)
                self._tell(without_feedback(regions), regions)

    def look(self) -> None:
        """See that all is there, tidy up, and read the regions."""
        self._take_look(self._look(self.state.tenants))

    def read(self, *, with_use: bool = True) -> Regions:
        """The regions that can be read now. Any thread may call it."""
        found = self._read(with_use=with_use)
        return {one: got for one, got in found.items() if isinstance(got, SharedRegion)}

    def _look(self, known: Collection[PodUid] | None) -> _FolderLook | None:
        """Look, and tell the containers what to do; None once the part has ended."""
        with self._turn:
            if self._has_ended:
                return None
            works, trouble, warning = self._prepared()
            stays = {} if known is None else self._folder.tidy(known, self._unix_clock())
            stays |= self._folder.sweep(self._unix_clock())
            found = self._read(with_use=False)
            regions = {one: got for one, got in found.items() if isinstance(got, SharedRegion)}
            has_feedback = self._folder.settings.feedback
            now = self._unix_clock()
            self._tell(
                feedback(regions, now) if has_feedback else without_feedback(regions), regions
            )
            return _FolderLook(works, trouble, warning, found, stays)

    def _prepared(self) -> tuple[bool, str, str]:
        """Whether the library is there, why the folder cannot be used, and what to log of it."""
        try:
            if not self._folder.prepare():
                return False, "", "its library is not on this node"
        except OSError as error:
            return False, f"HAMi-core's folder cannot be used: {error.strerror}", str(error)
        try:
            self._folder.open_locks()
        except OSError as error:
            # Its containers go on: one of them did this, and it is theirs to take turns.
            return True, "", f"{LOCKS} cannot be opened to all containers: {error.strerror}"
        return True, "", ""

    def _read(self, *, with_use: bool) -> dict[RegionFolder, SharedRegion | str]:
        found = {one: region_of(one.path, with_use=with_use) for one in self._folder.regions()}
        return {one: got for one, got in found.items() if got is not None}

    def _take_look(self, look: _FolderLook | None) -> None:
        """Take in a look, and say what is new in it."""
        if look is None:
            return
        before = self.report()
        self._works, self._trouble = look.works, look.trouble
        if look.warning and look.warning != self._said:
            decision_log.warn("hami-core", message=look.warning)
        self._said = look.warning
        for path, why in look.stays.items():
            if self._stays.get(path) != why:
                decision_log.warn("hami-core-not-removed", folder=path.name, message=why)
        self._stays = look.stays
        unreadable = {one: got for one, got in look.found.items() if isinstance(got, str)}
        for one, why in unreadable.items():
            if self._unreadable.get(one) != why:
                decision_log.warn("hami-core-region", folder=one.path.name, message=why)
        self._unreadable = unreadable
        self.regions = {
            one: got for one, got in look.found.items() if isinstance(got, SharedRegion)
        }
        if self.report() != before:
            self.on_report()

    def _tell(self, all_told: Mapping[RegionFolder, Feedback], regions: Regions) -> None:
        """Write into regions what the library is to do."""
        for one, told in all_told.items():
            region = regions[one]
            if (told.recent_kernel, told.is_limiting) != (region.recent_kernel, region.is_limiting):
                try:
                    tell(one.path, region, told)
                except OSError as error:
                    # Its container has ended, or it made its file one that cannot be written.
                    why = error.strerror or "it cannot be written"
                    decision_log.detail("hami-core", folder=one.path.name, message=why)

    def unix_now(self) -> float:
        """Unix time (s)."""
        return self._unix_clock()


# HAMi's metrics of the node at the port of its own monitor, for its dashboards.


#: HAMi's `--metrics-bind-address`.
PORT = 9394
#: A page that is not older (s) is the answer: regions may be full, and clients many.
PAGE_S = 5.0


@asynccontextmanager
async def hami_metrics(
    agent: NodeAgent, settings: HamiCoreSettings | None, address: str
) -> AsyncIterator[None]:
    """Serve the page of this agent while entered, if the settings have a port for it.

    `address` "" is all. Raises CannotListen.
    """
    if settings is None or settings.metrics_port is None:
        yield
        return
    part = next(one for one in agent.parts if isinstance(one, HamiPart))
    page = HamiPage(agent.sampler, part, legacy=settings.legacy_metrics)
    async with page.served(address, settings.metrics_port):
        yield


class HamiPage:
    """The page of one node, whose cards `sampler` reads and whose regions `part` does."""

    def __init__(self, sampler: CardSampler, part: HamiPart, *, legacy: bool) -> None:
        self._sampler = sampler
        self._part = part
        self._legacy = legacy
        self._turn = asyncio.Lock()
        self._page = b""
        self._made_at = -math.inf

    @asynccontextmanager
    async def served(self, address: str, port: int) -> AsyncIterator[str]:
        """Serve while entered; yields the URL of the root. Raises CannotListen."""
        routes, about = [web.get("/metrics", self._answer)], {"page": "hami"}
        async with served_routes("kubeshare-node-agent", routes, address, port, about) as root:
            yield root

    async def _answer(self, request: web.Request) -> web.Response:
        clock = asyncio.get_running_loop().time
        async with self._turn:
            if clock() >= self._made_at + PAGE_S:
                # Of a driver that does not answer, nothing is known.
                cards = () if self._sampler.unread() else self._sampler.cards()
                tenants = self._part.state.tenants or {}
                self._page = await asyncio.to_thread(self._made, cards, tenants)
                self._made_at = clock()
        return web.Response(body=self._page, headers={"Content-Type": CONTENT_TYPE})

    def _made(self, judged: Sequence[JudgedCard], tenants: Mapping[PodUid, NodeTenant]) -> bytes:
        """The page of these cards and pods, with the regions as they are now."""
        uses = [*_uses(self._part.read(), tenants, self._part.unix_now())]
        text = hami_page(self._sampler.node, _cards(judged), uses, legacy=self._legacy)
        return (text + hami_build_text(running_build())).encode()


def _uses(regions: Regions, tenants: Mapping[PodUid, NodeTenant], now: float) -> Iterator[HamiUse]:
    """What containers of the node's pods use, by pod and container; `now` is Unix time (s)."""
    for folder, region in regions.items():
        tenant = tenants.get(folder.uid)
        if tenant is None or folder.is_init:
            continue
        last = region.last_kernel_at
        for card in region.cards:
            yield HamiUse(
                pod=tenant.key,
                container=folder.container,
                number=card.number,
                uuid=card.uuid,
                limit_bytes=card.limit_bytes,
                used_bytes=card.used_bytes,
                context_bytes=card.context_bytes,
                module_bytes=card.module_bytes,
                buffer_bytes=card.buffer_bytes,
                busy_percent=card.busy_percent,
                idle_s=None if last is None else max(int(now) - last, 0),
            )


def _cards(judged: Sequence[JudgedCard]) -> list[HamiCard]:
    """The whole cards; HAMi's monitor lists no instances."""
    return [
        HamiCard(
            index=one.reading.index,
            uuid=one.reading.uuid,
            model=one.reading.model,
            used_bytes=_used_bytes(one.reading),
            busy_percent=one.reading.busy_percent,
            copying_percent=one.reading.copying_percent,
        )
        for one in judged
        if one.is_read and not one.is_gone and one.reading.parent is None
    ]


def _used_bytes(card: CardReading) -> int | None:
    """With the driver's own part, as HAMi has it."""
    return None if card.used_bytes is None else card.used_bytes + (card.reserved_bytes or 0)
