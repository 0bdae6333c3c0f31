"""HAMi's metrics of the node at the port of its own monitor, for its dashboards."""

import asyncio
import math
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from aiohttp import web

from kubeshare_py.domain.card_reading import CardReading, JudgedCard
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.edges.node.agent import NodeAgent
from kubeshare_py.edges.node.card_sampler import CardSampler
from kubeshare_py.edges.node.collector_server import CannotListen
from kubeshare_py.edges.node.hami_core.hami_part import HamiPart, Regions
from kubeshare_py.edges.process.bounded_server import listening
from kubeshare_py.edges.process.build import running_build, say_listening, url
from kubeshare_py.exporters.build_info import hami_build_text
from kubeshare_py.exporters.hami_node_metrics import CONTENT_TYPE, HamiCard, HamiUse, hami_page
from kubeshare_py.node_agent.hami_core.container_limits import HamiCoreSettings
from kubeshare_py.node_agent.tenants import NodeTenant

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
        """Serve while entered; yields the URL of the root. Raises CannotListen.

        `address` "" is all, `port` 0 any free one.
        """
        application = web.Application()
        application.add_routes([web.get("/metrics", self._answer)])
        async with AsyncExitStack() as stack:
            try:
                found = await stack.enter_async_context(
                    listening(application, address, port, shutdown_s=1.0)
                )
            except OSError as error:
                where = f"{address or '*'}:{port}"
                why = error.strerror or error
                raise CannotListen(f"cannot listen on {where}: {why}") from error
            say_listening("kubeshare-node-agent", found, "http", page="hami")
            yield url("http", *found[0])

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
