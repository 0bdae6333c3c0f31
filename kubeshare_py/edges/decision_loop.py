"""One machine among its watches: events go in, effects are performed, decisions follow at once."""

import asyncio
from collections.abc import Iterable
from contextlib import aclosing, suppress
from dataclasses import dataclass

from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.events import BindSlotsFree, Event, InventoryFailed
from kubeshare_py.edges import decision_log
from kubeshare_py.edges.inventory_source import readings
from kubeshare_py.edges.kube_api import KubeApi
from kubeshare_py.edges.kube_client import KubeClient
from kubeshare_py.edges.kube_watch import follow
from kubeshare_py.edges.watched_events import T, Translation
from kubeshare_py.framework.configuration import Inventory
from kubeshare_py.manifests.watch import Codec
from kubeshare_py.scheduling.machine import MOST_UNANSWERED, Machine

#: Events handled before others get the loop.
BATCH = 200


@dataclass(slots=True)
class DecisionLoop:
    """One machine, told what the watches say; its effects are performed."""

    machine: Machine
    api: KubeApi
    group: asyncio.TaskGroup
    news: asyncio.Event

    async def tell(self, events: Iterable[Event]) -> None:
        """Hand events to the machine in order, and let others run between batches."""
        for number, event in enumerate(events, 1):
            self._handle(event)
            if number % BATCH == 0:
                await asyncio.sleep(0)
        self.news.set()

    async def decide(self) -> None:
        """Decide whenever something happened or the machine wants to be woken."""
        now = asyncio.get_running_loop().time
        while True:
            self.news.clear()
            self._handle(BindSlotsFree(MOST_UNANSWERED))
            wake_at = self.machine.wake_at(now())
            if wake_at is not None and wake_at <= now():
                await asyncio.sleep(0)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout_at(wake_at):
                    await self.news.wait()

    async def watch(
        self, client: KubeClient, path: str, codec: Codec[T], translate: Translation[T]
    ) -> None:
        """Follow one resource for ever."""
        async with aclosing(follow(client, path, codec)) as stream:
            async for news in stream:
                await self.tell(translate(news))

    async def read_inventory(self, settings: Inventory) -> None:
        """Follow the inventory for ever."""
        nodes = self.machine.ledger.columns.row_of.keys
        async with aclosing(readings(settings, nodes)) as stream:
            async for event in stream:
                if isinstance(event, InventoryFailed):
                    decision_log.warn("inventory", message=event.message)
                await self.tell([event])

    def _handle(self, event: Event) -> None:
        for effect in self.machine.handle(event, asyncio.get_running_loop().time()):
            decision_log.decided(effect)
            if isinstance(effect, Bind):
                self.group.create_task(self._bind(effect))
            else:
                self.api.report(effect)

    async def _bind(self, effect: Bind) -> None:
        self._handle(await self.api.bind(effect))
        self.news.set()
