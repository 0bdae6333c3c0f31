"""The inventory from the annotations that HAMi's device plugins write on their Nodes.

They are read from the scheduler's own watch of nodes. A plugin that is silent is asked for a sign
of life by its handshake annotation, as HAMi's scheduler does it.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    VendorKeys,
)
from kubeshare_py.dialects.hami.register import RegisteredCard, write_json
from kubeshare_py.domain.bounds import CARDS_OF_NODE
from kubeshare_py.domain.events import InventoryRead
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.quantity import BadQuantity, Quantity, amount
from kubeshare_py.edges.inventory.hami_locks import LOCKS
from kubeshare_py.edges.kube.client import MERGE_PATCH, KubeClient
from kubeshare_py.edges.kube.errors import KubeError, KubeFailure
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.process.backoff import Sleep
from kubeshare_py.inventory.hami.handshake import ALIVE_S, requesting
from kubeshare_py.inventory.hami.node_plugins import PluginKeys, PluginNode
from kubeshare_py.inventory.hami.plugin_nodes import PluginNodes
from kubeshare_py.manifests.api_paths import node_path
from kubeshare_py.manifests.node import NodeFields

#: Seconds until the same plugin is asked again, if the Node does not show that it was asked.
AGAIN_S = ALIVE_S
#: Seconds between looks at which plugins are silent.
LOOK_S = 5.0
TIMEOUT_S = 6.0


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
        lock=next((annotations[name] for name in LOCKS if annotations.get(name)), ""),
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
    """What nodes with these plugins report, as `CardReports`; `ask` asks plugins that are silent.

    `now_s` is Unix time.
    """

    kinds: Sequence[PluginKeys]
    now_s: Callable[[], float] = time.time
    plugins: PluginNodes = field(init=False)
    _asked: dict[tuple[NodeName, str], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.plugins = PluginNodes(self.kinds)

    @property
    def diagnostics(self) -> tuple[str, ...]:
        """See `CardReports`, as all others."""
        return self.plugins.diagnostics

    def take(self, node: NodeFields) -> bool:
        """The node's annotations, and what its kubelet advertises."""
        name = NodeName(node.metadata.name)
        return self.plugins.take(name, plugin_node(node, self.kinds), self.now_s())

    def gone(self, name: NodeName) -> None:
        """The node is gone."""
        self.plugins.gone(name)

    def only(self, names: Iterable[NodeName]) -> None:
        """Forget all others."""
        self.plugins.only(names)

    def read(self) -> InventoryRead:
        """The nodes whose cards changed."""
        return self.plugins.read(self.now_s())

    def left_s(self) -> float:
        """Plugins that are silent for too long are dead."""
        return self.plugins.next_at - self.now_s()

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
        for node, annotation in [*self.plugins.silent]:
            if (node, annotation) in self._asked:
                continue
            self._asked[node, annotation] = now
            body = {"metadata": {"annotations": {annotation: requesting(now)}}}
            try:
                await client.request(
                    "PATCH",
                    node_path(node),
                    body=msgspec.json.encode(body),
                    content_type=MERGE_PATCH,
                    timeout_s=TIMEOUT_S,
                )
            except (KubeError, KubeFailure) as error:
                decision_log.warn("handshake", node=node, message=str(error))
