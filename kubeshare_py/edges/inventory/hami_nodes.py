"""The inventory from the annotations that HAMi's device plugins write on their Nodes.

They are read from the scheduler's own watch of nodes. A plugin that is silent is asked for a sign
of life by its handshake annotation, as HAMi's scheduler does it.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus

import msgspec

from kubeshare_py.dialects.cambricon import (
    DSMLU_LOCK,
    MLU,
    MLU_KEYS,
    MLUNUM,
    SMLU,
    dsmlu_locks,
    mlu_uuid_problem,
)
from kubeshare_py.dialects.hami.annotations import (
    CARD_CORES,
    HAMI,
    MIB,
    MOST,
    NVIDIA_KEYS,
    SEED,
    SYSTEMS,
    RegisteredCard,
    VendorKeys,
    node_locks,
    write_json,
)
from kubeshare_py.domain.events import InventoryRead
from kubeshare_py.domain.identity import NodeName, PodKey
from kubeshare_py.domain.node import Node, NodeLock
from kubeshare_py.domain.quantity import CARDS_OF_NODE, BadQuantity, Quantity, amount
from kubeshare_py.edges.inventory.annotated_nodes import take_update
from kubeshare_py.edges.kube.client import JSON_PATCH, MERGE_PATCH, KubeClient
from kubeshare_py.edges.kube.errors import KubeError, KubeFailure
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.process.backoff import Sleep
from kubeshare_py.inventory.hami_locks import KnownLock, LockAges, LockOwner
from kubeshare_py.inventory.hami_plugins import (
    ALIVE_S,
    PluginKeys,
    PluginNode,
    PluginNodes,
    requesting,
)
from kubeshare_py.manifests.api_paths import node_path, pod_path
from kubeshare_py.manifests.decoding import UNDECODABLE
from kubeshare_py.manifests.node import NodeFields, ReadLocks, unlock_patch
from kubeshare_py.manifests.watch import Changes, ListResult

# Locks of nodes whose device plugins give devices to one pod at a time, as HAMi's do.
#
# Those that the plugins do not free any more are freed: see `lock_ages`.


TIMEOUT_S = 6.0
#: Seconds between looks while this process does not lead, or no lock is held.
IDLE_S = 5.0
LOCKS = (*(system.lock for system in SYSTEMS.values()), DSMLU_LOCK)
_PHASES = tuple(system.bind_phase for system in SYSTEMS.values())


class _OwnerMetadata(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _OwnerSpec(msgspec.Struct):
    nodeName: str = ""


class _OwnerStatus(msgspec.Struct):
    phase: str = ""


class _OwnerPod(msgspec.Struct):
    metadata: _OwnerMetadata = msgspec.field(default_factory=_OwnerMetadata)
    spec: _OwnerSpec = msgspec.field(default_factory=_OwnerSpec)
    status: _OwnerStatus = msgspec.field(default_factory=_OwnerStatus)


_decoder = msgspec.json.Decoder(_OwnerPod)


def locks_of(resource: str) -> ReadLocks:
    """Reads the locks of nodes; `resource` is what HAMi's plugin for NVIDIA advertises."""

    def read(annotations: Mapping[str, str], offered: Collection[str]) -> tuple[NodeLock, ...]:
        return node_locks(annotations, resource) + dsmlu_locks(annotations, offered)

    return read


@dataclass(slots=True)
class HamiLocks:
    """Follows the locks by the watch of nodes. `now_s` is Unix time."""

    now_s: Callable[[], float] = time.time
    ages: LockAges = field(default_factory=LockAges)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def seen(self, node: NodeFields) -> None:
        """Take a node, from a list or a change."""
        annotations = node.metadata.annotations or {}
        for key in LOCKS:
            if self.ages.take(
                NodeName(node.metadata.name), key, annotations.get(key, ""), self.now_s()
            ):
                self._news.set()

    def gone(self, name: NodeName) -> None:
        """Forget a node."""
        self.ages.gone(name)

    def only(self, names: Iterable[NodeName]) -> None:
        """Forget all nodes but these."""
        self.ages.only(names)

    def changed(self, update: ListResult[Node] | Changes[NodeFields]) -> None:
        """Take a list, whose nodes were all seen, or changes: see `take_update`."""
        take_update(self, update)

    async def keep(self, client: KubeClient, leads: Callable[[], bool]) -> None:
        """Free locks for ever, while this process leads."""
        while True:
            self._news.clear()
            if leads():
                for lock in self.ages.due(self.now_s()):
                    await self.look(client, lock)
            pause_s = self.ages.next_at - self.now_s() if leads() else IDLE_S
            with suppress(TimeoutError):
                async with asyncio.timeout(min(max(pause_s, 0.0), IDLE_S)):
                    await self._news.wait()

    async def look(self, client: KubeClient, lock: KnownLock) -> None:
        """Free a lock if its pod does not need it; never raises for errors of the server."""
        owner = lock.held.owner if lock.held is not None else None
        try:
            found = await _owner(client, owner) if owner is not None else None
            if self.ages.judge(lock, found, self.now_s()):
                decision_log.warn("unlock", node=lock.node, annotation=lock.key, text=lock.text)
                await client.request(
                    "PATCH",
                    node_path(lock.node),
                    body=unlock_patch(lock.key, lock.text),
                    content_type=JSON_PATCH,
                    timeout_s=TIMEOUT_S,
                    patient=False,
                )
        except (KubeError, KubeFailure) as error:
            decision_log.warn("unlock", node=lock.node, annotation=lock.key, message=str(error))


async def _owner(client: KubeClient, key: PodKey) -> LockOwner | None:
    """The pod that a lock names; None if it does not exist."""
    path = pod_path(key)
    try:
        answer = await client.request("GET", path, timeout_s=TIMEOUT_S, patient=False)
    except KubeError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return None
        raise
    try:
        pod = _decoder.decode(answer.body)
    except UNDECODABLE:
        return LockOwner()
    annotations = pod.metadata.annotations or {}
    return LockOwner(
        node=pod.spec.nodeName,
        phase=next((annotations[key] for key in _PHASES if annotations.get(key)), ""),
        is_over=pod.status.phase in ("Succeeded", "Failed"),
    )


#: Seconds until the same plugin is asked again, if the Node does not show that it was asked.
AGAIN_S = ALIVE_S
#: Seconds between looks at which plugins are silent.
LOOK_S = 5.0


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
