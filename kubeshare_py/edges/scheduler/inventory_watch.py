"""Watches nodes, reads the cards on them, and delivers both to a decision loop."""

import asyncio
import gc
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import replace

from kubeshare_py.configuration.inventory import Inventory
from kubeshare_py.dialects.dialects import SHAREDGPU_ALONE, Dialects
from kubeshare_py.domain.events import InventoryFailed, InventoryRead
from kubeshare_py.domain.gpu import scaled
from kubeshare_py.domain.node import Node
from kubeshare_py.edges.inventory.annotated_nodes import AnnotatedNodes, CollectorReports
from kubeshare_py.edges.inventory.auto_source import AutoSource
from kubeshare_py.edges.inventory.collector_scrape import CollectorTargets
from kubeshare_py.edges.inventory.hami_nodes import HamiLocks, HamiNodes, locks_of, plugins_of
from kubeshare_py.edges.inventory.inventory_source import (
    OF_NODES,
    OF_TARGETS,
    CellsInventory,
    readings,
)
from kubeshare_py.edges.inventory.unhealthy_cards import UnhealthyCards
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.process.run_until_signal import StartModule, module_process
from kubeshare_py.edges.scheduler.decision_loop import DecisionLoop
from kubeshare_py.inventory.changes import CARDS_A_PORTION, portions
from kubeshare_py.manifests.events import node_events
from kubeshare_py.manifests.node import NodeFields
from kubeshare_py.manifests.watch import Changes, Codec, ListResult
from kubeshare_py.scheduling.explain.figures import ledger_figures

NODES = "/api/v1/nodes"


class InventoryWatch:
    """Follows the nodes and the inventory for one decision loop."""

    def __init__(
        self,
        loop: DecisionLoop,
        settings: Inventory,
        dialects: Dialects = SHAREDGPU_ALONE,
        start: StartModule = module_process,
    ) -> None:
        """`settings` choose the source of the inventory; `start` starts the process that asks."""
        self._start = start
        self._loop = loop
        locks = locks_of(settings.plugin_resource) if settings.locks_nodes else None
        self._node_events = node_events(dialects, locks)
        self._settings = settings
        self._hami: HamiNodes | None = None
        self._annotated: AnnotatedNodes | None = None
        if settings.source == "annotation":
            self._annotated = AnnotatedNodes(CollectorReports())
        elif settings.source == "hami":
            self._hami = HamiNodes(plugins_of(settings.plugin_resource))
            self._annotated = AnnotatedNodes(self._hami)
        self._targets = CollectorTargets()
        self._auto: AutoSource | None = None
        if settings.source == "auto":
            health = loop.health
            self._auto = AutoSource(
                settings,
                self._targets,
                health.inventory_read,
                health.inventory_from,
                on_used=health.cards_used,
            )
        self._locks = HamiLocks() if settings.locks_nodes else None
        self._cells = CellsInventory()
        self._unhealthy = UnhealthyCards() if settings.unhealthy_config_maps else None
        self._rules = settings.rules()
        self._nodes_listed = asyncio.Event()
        self._nodes_changed = asyncio.Event()
        self._has_logged_found = False

    async def watch_nodes(self, client: KubeClient) -> None:
        """Follow the nodes for ever."""

        def reduce(node: NodeFields) -> Node:
            # The observers see a listed node here, because of whole nodes only the results are kept
            # until the list is complete. They may see a node twice, or one of a list that breaks
            # off: taking the same annotations again changes nothing, and the next complete list
            # drops the nodes that it does not have.
            if self._annotated is not None:
                self._annotated.seen(node)
            if self._locks is not None:
                self._locks.seen(node)
            return self._node_events.reduce(node)

        def on_update(update: ListResult[Node] | Changes[NodeFields]) -> None:
            if self._annotated is not None:
                self._annotated.changed(update)
            if self._locks is not None:
                self._locks.changed(update)
            self._nodes_changed.set()
            if isinstance(update, ListResult):
                self._nodes_listed.set()
                self._log_found()

        codec = Codec(NodeFields)
        await self._loop.watch(
            client, NODES, codec, self._node_events, reduce=reduce, on_update=on_update
        )

    async def follow(self, client: KubeClient) -> None:
        """Follow the inventory for ever."""
        settings = self._settings
        if settings.source in OF_NODES:
            # Otherwise every waiting pod would be reported as "no card anywhere".
            await self._nodes_listed.wait()
        source = self._readings()
        async with asyncio.TaskGroup() as group:
            if self._auto is not None:
                group.create_task(self._auto.try_prometheus(client))
            if settings.source in OF_TARGETS:
                connected = self._loop.health.watching("collectors")
                where = settings.namespace, settings.pod_selector
                group.create_task(self._targets.follow(client, *where, connected))
            if settings.cells_file:
                self._cells.path = settings.cells_file
                await self._cells.load()
                group.create_task(self._cells.follow(self.take))
            if self._unhealthy is not None:
                lock = self._cells.lock
                group.create_task(self._unhealthy.follow(client, lock, self._take_health))
                await self._unhealthy.known.wait()
            if self._hami is not None:
                group.create_task(self._hami.ask_for_ever(client, lambda: self._loop.leads))
            if self._locks is not None:
                group.create_task(self._locks.keep(client, lambda: self._loop.leads))
            async with aclosing(source) as stream:
                async for event in stream:
                    async with self._cells.lock:
                        await self.take(event)

    def _readings(self) -> AsyncGenerator[InventoryRead | InventoryFailed, None]:
        """The inventory from the configured source."""
        if self._auto is not None:
            return self._auto.readings()
        settings, health = self._settings, self._loop.health
        health.inventory_from(settings.source)
        if self._annotated is not None:
            return self._annotated.readings(self._nodes_read, settings.interval_seconds)
        nodes = self._loop.machine.node_names
        return readings(
            settings,
            nodes,
            self._targets,
            health.inventory_read,
            health.cards_used,
            self._sleep,
            self._start,
        )

    async def take(self, event: InventoryRead | InventoryFailed) -> None:
        """Hand a reading to the machine; a long one in several iterations."""
        if isinstance(event, InventoryFailed):
            decision_log.warn("inventory", message=event.message)
            await self._loop.deliver([event])
            return
        for part in portions(event):
            # Earlier work has used its time of this iteration.
            await asyncio.sleep(0)
            await self._deliver(self._cells.join(part))
        self._log_found()
        if sum(len(cards) for _, cards in event.changed) >= CARDS_A_PORTION:
            # These cards stay, like the objects of a list.
            gc.freeze()

    async def _take_health(self, event: InventoryRead) -> None:
        """Hand cards to the machine whose health is declared otherwise now."""
        for part in portions(event):
            await asyncio.sleep(0)
            await self._deliver(part)

    async def _deliver(self, read: InventoryRead) -> None:
        """Hand a portion, which has its cells, to the machine."""
        if self._unhealthy is not None:
            read = self._unhealthy.join(read)
        await self._loop.deliver([self._scaled(read)])

    def _scaled(self, read: InventoryRead) -> InventoryRead:
        """The reading with the capacities that the configuration gives its cards."""
        if not self._rules:
            return read
        changed = tuple((node, scaled(self._rules, node, gpus)) for node, gpus in read.changed)
        return replace(read, changed=changed)

    def _log_found(self) -> None:
        """Log one line, once nodes and cards are known."""
        if self._has_logged_found or not self._nodes_listed.is_set():
            return
        if self._loop.machine.inventory_read:
            self._has_logged_found = True
            figures = ledger_figures(self._loop.machine)
            decision_log.inform("found", nodes=figures.nodes, cards=figures.cards)

    def _nodes_read(self) -> None:
        """An inventory from nodes is as new as their watch."""
        if not self._loop.health.lost_s("nodes"):
            self._loop.health.inventory_read()

    async def _sleep(self, seconds: float) -> None:
        """Sleep; shorter if nodes come or go."""
        known = self._loop.machine.node_names()
        count = len(known)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while len(known) == count:
                    self._nodes_changed.clear()
                    await self._nodes_changed.wait()
