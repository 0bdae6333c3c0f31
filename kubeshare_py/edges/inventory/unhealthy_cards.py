"""gpushare's ConfigMaps of unhealthy cards beside an inventory: followed for ever.

While they may not be read, what was read last counts, and they are asked for again every minute.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from http import HTTPStatus

from kubeshare_py.domain.events import InventoryRead
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.edges.kube.watch import follow
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.process.backoff import Sleep
from kubeshare_py.inventory.node_annotations import NAMESPACE, UnhealthyConfigMaps
from kubeshare_py.manifests.api_paths import CORE, collection_path
from kubeshare_py.manifests.partial_objects import UnhealthyConfigMap
from kubeshare_py.manifests.watch import DELETED, Changes, Codec, ListResult

PATH = collection_path(CORE, "configmaps", NAMESPACE)
#: Seconds between tries while they may not be read.
LOOK_S = 60.0

Take = Callable[[InventoryRead], Awaitable[None]]


@dataclass(slots=True)
class UnhealthyCards:
    """Marks cards of an inventory; before the ConfigMaps were read it changes nothing."""

    #: Whether the ConfigMaps were read, or may not be read.
    known: asyncio.Event = field(default_factory=asyncio.Event)
    _maps: UnhealthyConfigMaps = field(default_factory=UnhealthyConfigMaps)
    #: The cards of all nodes, as the inventory reported them.
    _cards: dict[NodeName, tuple[Gpu, ...]] = field(default_factory=dict)
    _silent: tuple[NodeName, ...] = ()
    _has_read: bool = False
    _logged: frozenset[str] = frozenset()

    def join(self, read: InventoryRead) -> InventoryRead:
        """The reading, a portion or all, with its unhealthy cards marked."""
        self._cards.update(read.changed)
        if not read.more:
            self._silent, self._has_read = read.silent, True
        marked = tuple((node, self._maps.applied(node, cards)) for node, cards in read.changed)
        return InventoryRead(marked, read.silent, more=read.more)

    async def follow(
        self, client: KubeClient, lock: asyncio.Lock, take: Take, sleep: Sleep = asyncio.sleep
    ) -> None:
        """Follow the ConfigMaps for ever; `take` gets the cards of nodes whose ConfigMap changed.

        `lock` is held meanwhile, so that readings are taken in in order.
        """
        refusals = frozenset({HTTPStatus.FORBIDDEN})
        while True:
            stream = follow(client, PATH, Codec(UnhealthyConfigMap), gives_up_at=refusals)
            try:
                async with aclosing(stream) as updates:
                    async for update in updates:
                        await self._take(self._changed_by(update), lock, take)
            except KubeError as error:
                decision_log.warn("unhealthy cards", message=f"{PATH}: {error}")
            self.known.set()
            await sleep(LOOK_S)

    async def _take(self, changed: Iterable[NodeName], lock: asyncio.Lock, take: Take) -> None:
        self._log()
        self.known.set()
        for node in sorted(changed):
            indices = sorted(self._maps.nodes.get(node, ()))
            decision_log.inform("unhealthy cards", node=node, indices=indices)
        async with lock:
            cards = tuple(
                (node, self._cards[node]) for node in sorted(changed) if node in self._cards
            )
            if cards and self._has_read:
                await take(InventoryRead(cards, self._silent))

    def _changed_by(
        self, update: ListResult[UnhealthyConfigMap] | Changes[UnhealthyConfigMap]
    ) -> set[NodeName]:
        """The nodes of which other cards are unhealthy now.

        One that cannot be decoded keeps its meaning until it is deleted.
        """
        texts: dict[str, str | None] = {}
        if isinstance(update, ListResult):
            texts.update((one.metadata.name, one.gpus) for one in update.items)
            there = {*texts, *(problem.name for problem in update.problems)}
            texts.update(dict.fromkeys(self._maps.others(there)))
        else:
            for line in update.changed:
                found = line.item.metadata if line.item is not None else line.problem
                if line.type == DELETED and found is not None:
                    texts[found.name] = None
                elif line.item is not None:
                    texts[line.item.metadata.name] = line.item.gpus
        nodes = (self._maps.put(name, text) for name, text in texts.items())
        return {node for node in nodes if node is not None}

    def _log(self) -> None:
        """Log the odd texts, each once while it lasts."""
        found = frozenset(self._maps.problems())
        for problem in sorted(found - self._logged):
            decision_log.warn("unhealthy cards", message=problem)
        self._logged = found
