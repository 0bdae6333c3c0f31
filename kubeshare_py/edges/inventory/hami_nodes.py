"""The inventory from the annotations that HAMi's device plugins write on their Nodes.

They are read from the scheduler's own watch of nodes. A plugin that is silent is asked for a sign
of life by its handshake annotation, as HAMi's scheduler does it.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import msgspec

from kubeshare_py.dialects.cambricon.keys import MLU, MLU_KEYS, MLUNUM, SMLU, mlu_uuid_problem
from kubeshare_py.dialects.hami.keys import (
    CARD_CORES,
    HAMI,
    MIB,
    MOST,
    NVIDIA_KEYS,
    SEED,
    SYSTEMS,
    VendorKeys,
)
from kubeshare_py.dialects.hami.register import RegisteredCard, write_json
from kubeshare_py.domain.bounds import CARDS_OF_NODE
from kubeshare_py.domain.events import InventoryFailed, InventoryRead
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.quantity import BadQuantity, Quantity, amount
from kubeshare_py.edges.kube.client import MERGE_PATCH, KubeClient
from kubeshare_py.edges.kube.errors import KubeError, KubeFailure
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.process.backoff import Sleep
from kubeshare_py.inventory.hami.handshake import ALIVE_S, requesting
from kubeshare_py.inventory.hami.node_plugins import PluginKeys, PluginNode
from kubeshare_py.inventory.hami.plugin_nodes import PluginNodes
from kubeshare_py.manifests.node import NodeFields
from kubeshare_py.manifests.watch import DELETED, Changes, ListResult

#: Seconds until the same plugin is asked again, if the Node does not show that it was asked.
AGAIN_S = ALIVE_S
#: Seconds between looks at which plugins are silent.
LOOK_S = 5.0
TIMEOUT_S = 6.0
_LOCKS = tuple(system.lock for system in SYSTEMS.values())


def plugins_of(resource: str) -> tuple[PluginKeys, ...]:
    """The plugins that are known; `resource` is what NVIDIA's advertises."""
    mlus = _plugin(MLU_KEYS, MLUNUM.count)
    smlus = PluginKeys(registers=(SMLU.count,), handshakes=("",), resource=SMLU.cores)
    return (
        _plugin(NVIDIA_KEYS, resource),
        *(replace(one, problem_of_uuid=mlu_uuid_problem, vendor=MLU) for one in (mlus, smlus)),
    )


def _plugin(keys: Mapping[str, VendorKeys], resource: str) -> PluginKeys:
    """The plugins of both systems for the cards of one vendor."""
    both = (keys[HAMI], keys[SEED])
    return PluginKeys(
        registers=tuple(one.register for one in both),
        handshakes=tuple(one.handshake for one in both),
        resource=resource,
    )


def plugin_node(node: NodeFields, kinds: Sequence[PluginKeys]) -> PluginNode:
    """What counts of a Node for plugins of these kinds; never raises."""
    annotations = node.metadata.annotations or {}
    offered = node.status.allocatable or {}
    annotations = {**annotations, SMLU.count: _smlu_cards(node.metadata.name, offered)}
    names = (name for kind in kinds for name in (*kind.registers, *kind.handshakes))
    return PluginNode(
        annotations={name: annotations[name] for name in names if annotations.get(name)},
        offered={
            kind.resource: _amount(kind.resource, offered[kind.resource])
            for kind in kinds
            if kind.resource in offered
        },
        lock=next((annotations[name] for name in _LOCKS if annotations.get(name)), ""),
    )


def _smlu_cards(node: str, offered: Mapping[str, Quantity]) -> str:
    """The MLUs that Cambricon's plugin advertises by their cores and memory, as a register text.

    It does not register them: HAMi's scheduler makes cards of 100 percent of cores, by number, and
    each has an equal part of the memory.
    """
    if SMLU.cores not in offered:
        return ""
    cores = _amount(SMLU.cores, offered[SMLU.cores])
    units = _amount(SMLU.memory, offered.get(SMLU.memory, 0))
    count = min(-(-cores // CARD_CORES), CARDS_OF_NODE.most)
    each_mib = min(units * SMLU.unit // MIB * CARD_CORES // max(cores, 1), MOST)
    cards = [
        RegisteredCard(
            uuid=f"{node}-cambricon-mlu-{index}", index=index, count=CARD_CORES, type=MLU,
            memory_mib=each_mib, cores=CARD_CORES, health=True,
        )
        for index in range(count)
    ]  # fmt: skip
    return write_json(cards) if cards else ""


def _amount(name: str, quantity: Quantity) -> int:
    try:
        return amount(name, quantity)
    except BadQuantity:
        return 0


@dataclass(slots=True)
class HamiNodes:
    """Reads the annotations, and asks silent plugins once it `follow`s. `now_s` is Unix time."""

    kinds: Sequence[PluginKeys]
    now_s: Callable[[], float] = time.time
    reported: PluginNodes = field(init=False)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _asked: dict[tuple[NodeName, str], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.reported = PluginNodes(self.kinds)

    def seen(self, node: NodeFields) -> None:
        """Take a node, from a list or a change."""
        name = NodeName(node.metadata.name)
        if self.reported.take(name, plugin_node(node, self.kinds), self.now_s()):
            self._changed.set()

    def changed(self, update: ListResult[Node] | Changes[NodeFields]) -> None:
        """Take a list, whose nodes were all seen, or changes.

        A node that cannot be decoded keeps its cards until it is deleted.
        """
        if isinstance(update, ListResult):
            unreadable = (NodeName(problem.name) for problem in update.problems)
            self.reported.only((*(node.name for node in update.items), *unreadable))
            self._changed.set()
            return
        for line in update.changed:
            if line.type == DELETED:
                found = line.item.metadata if line.item is not None else line.problem
                if found is not None:
                    self.reported.gone(NodeName(found.name))
                    self._changed.set()
            elif line.item is not None:
                self.seen(line.item)

    async def readings(
        self, on_reading: Callable[[], None], interval_s: float
    ) -> AsyncGenerator[InventoryRead | InventoryFailed, None]:
        """Yield all cards now, then only changes; problems are logged once.

        `on_reading` is called with each reading, and at least once per interval.
        """
        logged: tuple[str, ...] = ()
        while True:
            self._changed.clear()
            read = self.reported.read(self.now_s())
            for line in self.reported.diagnostics:
                if line not in logged:
                    decision_log.warn("inventory", message=line)
            logged = self.reported.diagnostics
            on_reading()
            yield read
            while not self._changed.is_set() and self.reported.next_at > self.now_s():
                on_reading()
                left_s = min(interval_s, self.reported.next_at - self.now_s())
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(left_s, 0.0)):
                        await self._changed.wait()

    async def ask_for_ever(
        self, client: KubeClient, leads: Callable[[], bool], sleep: Sleep = asyncio.sleep
    ) -> None:
        """Ask silent plugins, while this process leads: the leader's words are enough."""
        while True:
            await sleep(LOOK_S)
            if leads():
                await self.ask(client)

    async def ask(self, client: KubeClient) -> None:
        """Ask the plugins that were found silent; never raises for errors of the server."""
        now = self.now_s()
        self._asked = {key: at for key, at in self._asked.items() if now < at + AGAIN_S}
        for node, annotation in [*self.reported.silent]:
            if (node, annotation) in self._asked:
                continue
            self._asked[node, annotation] = now
            body = {"metadata": {"annotations": {annotation: requesting(now)}}}
            try:
                await client.request(
                    "PATCH",
                    f"/api/v1/nodes/{node}",
                    body=msgspec.json.encode(body),
                    content_type=MERGE_PATCH,
                    timeout_s=TIMEOUT_S,
                )
            except (KubeError, KubeFailure) as error:
                decision_log.warn("handshake", node=node, message=str(error))
