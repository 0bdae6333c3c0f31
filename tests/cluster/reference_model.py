"""Books of our own about a ledger: nodes, cards and charges, added up the plain way."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.gpu import CardTag, Gpu
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.values import replace
from tests.topology.plain import first_for_shares

MAX_STRAYS = 16
Resources = tuple[tuple[str, int], ...]
Amounts = dict[str, int]
#: What a node has without saying so: ports, and room for what only scores count.
OF_EVERY_NODE = {
    "pod-manager ports": 511,
    "unrequested cpu": 1 << 60,
    "unrequested memory": 1 << 60,
}


@dataclass
class Held:
    """What one pod holds."""

    node: NodeName
    resources: Resources
    allocation: Allocation | None
    is_reservation: bool = False
    #: The pod is gone, and keeps its GPUs for a while.
    lingers: bool = False


@dataclass
class ReferenceModel:
    """What the ledger was told."""

    nodes: dict[NodeName, Node] = field(default_factory=dict)
    cards: dict[NodeName, dict[str, Gpu]] = field(default_factory=dict)
    held: dict[PodUid, Held] = field(default_factory=dict)
    #: Nodes that have a row: those that are shown, and that were and are not empty since.
    kept: set[NodeName] = field(default_factory=set)

    def settle(self) -> None:
        """Something happened: a node is kept once it is shown or reserved, until it is empty."""
        self.kept |= {*self.nodes} | {
            held.node for held in self.held.values() if held.is_reservation
        }
        self.kept &= self.names()

    def names(self) -> set[NodeName]:
        """Nodes that are shown or charged."""
        return {*self.nodes} | {held.node for held in self.held.values()}

    def pods_on(self, name: NodeName) -> list[Held]:
        """What is held of a node."""
        return [held for held in self.held.values() if held.node == name]

    def allocations(self, name: NodeName) -> list[Allocation]:
        """Those that come with cards or ports."""
        return [held.allocation for held in self.pods_on(name) if held.allocation is not None]

    def allocatable(self, name: NodeName) -> Amounts:
        """What a node offers; nothing while it is not shown."""
        if name not in self.nodes:
            return {}
        return {**dict(self.nodes[name].allocatable), **OF_EVERY_NODE}

    def offered(self) -> set[str]:
        """Resources that have a column."""
        fixed = {"cpu", "memory", "ephemeral-storage", "pods", *OF_EVERY_NODE}
        return fixed.union(*(dict(node.allocatable) for node in self.nodes.values()))

    def free(self, name: NodeName) -> Amounts:
        """What is left of it, below 0 where too much is held."""
        left = dict(self.allocatable(name))
        for held in self.pods_on(name):
            ported = held.allocation is not None and held.allocation.port is not None
            pods = int(not held.lingers)
            taken = {**dict(held.resources), "pods": pods, "pod-manager ports": int(ported)}
            for resource, amount in taken.items():
                left[resource] = left.get(resource, 0) - amount
        return {resource: amount for resource, amount in left.items() if amount}

    def uuids(self, name: NodeName) -> list[str]:
        """Cards that are known, and the first that are charged and are not known, in order."""
        strays = {uuid for uuid, *_ in self._charges(name)} - {*self.known(name)}
        return sorted([*self.known(name), *sorted(strays)[:MAX_STRAYS]])

    def known(self, name: NodeName) -> dict[str, Gpu]:
        """The cards of the inventory."""
        return self.cards.get(name, {})

    def look_up(self, name: NodeName) -> None:
        """Pods that name cards of this node by index hold those that have it, from now on."""
        of = {f"index {gpu.index}": gpu for gpu in self.known(name).values()}
        for held in self.pods_on(name):
            if held.allocation is not None:
                cards = tuple(
                    replace(card, uuid=of[card.uuid].uuid, model=of[card.uuid].model)
                    if card.uuid in of
                    else card
                    for card in held.allocation.cards
                )
                held.allocation = replace(held.allocation, cards=cards)

    def card(self, name: NodeName, uuid: str) -> Amounts:
        """Every column of one card."""
        mine = [charge for charge in self._charges(name) if charge[0] == uuid]
        milli, used = sum(c[1] for c in mine), sum(c[2] for c in mine)
        waited_for = [charge for charge in mine if charge[4]]
        reserved = {
            "reserved_milli": sum(charge[1] for charge in waited_for),
            "reserved_bytes": sum(charge[2] for charge in waited_for),
            "reservations": len(waited_for),
            "excluding": self.excluding(name, uuid),
        }
        if uuid not in self.known(name):
            return {
                "capacity_milli": 0,
                "capacity_bytes": 0,
                "share_bytes": 0,
                "free_milli": -milli,
                "free_bytes": -used,
                "tenants": len(mine),
                "flags": 1 + 4 * any(c[3] for c in mine) + 32 * (reserved["excluding"] > 0),
                "headroom": -1,
                "share_headroom": -1,
                "idle": 0,
                **reserved,
            }
        gpu = self.known(name)[uuid]
        crowded = 0 < gpu.max_tenants <= len(mine)
        flags = 2 * (not gpu.healthy) + 4 * any(c[3] for c in mine) + 8 * crowded
        flags += 32 * (reserved["excluding"] > 0)
        whole, memory = gpu.cores_scaling, gpu.memory_bytes * gpu.memory_scaling // 1000
        left = memory - used
        part = min(gpu.memory_bytes, memory)
        widest = bisect_right(range(1001), left, key=lambda m: part * m // 1000) - 1
        return {
            "capacity_milli": whole,
            "capacity_bytes": memory,
            "share_bytes": part,
            "free_milli": whole - milli,
            "free_bytes": left,
            "tenants": len(mine),
            "flags": flags,
            "headroom": -1 if flags else max(-1, min(whole - milli, widest)),
            "share_headroom": -1 if flags else whole - milli,
            "idle": int(not flags and not mine),
            **reserved,
        }

    def tags(self, name: NodeName, uuid: str) -> Counter[CardTag]:
        """How many pods of each tag are on a card."""
        parts = (card for one in self.allocations(name) for card in one.cards if card.uuid == uuid)
        return Counter(tag for card in parts for tag in card.tags)

    def excluding(self, name: NodeName, uuid: str) -> int:
        """How many pods with an exclusion tag are on a card."""
        parts = (card for one in self.allocations(name) for card in one.cards if card.uuid == uuid)
        return sum(any(str(tag).startswith("exclusion") for tag in card.tags) for card in parts)

    def joined(self, name: NodeName, uuid: str) -> Amounts:
        """Columns that say how one card is joined to the others."""
        cards = sorted(self.known(name).values(), key=lambda card: (card.index, card.uuid))
        idle = [
            at
            for at, card in enumerate(cards)
            if self.card(name, card.uuid)["idle"] and card.cores_scaling >= 1000
        ]
        order = first_for_shares(tuple(tuple(_speed(a, b) for b in cards) for a in cards), idle)
        at = next((at for at, card in enumerate(cards) if card.uuid == uuid), None)
        card = self.known(name).get(uuid)
        numa = None if card is None else card.numa_node
        return {
            "position_bit": 0 if at is None else 1 << at,
            "break_order": 1 + order.index(at) if at is not None and at in order else 0,
            "numa": -1 if numa is None else numa,
            "rdma": 0 if card is None else {None: 0, "SYS": 1, "PIX": 5}[card.rdma],
            "cell_priority": 0 if card is None else card.cell_priority,
        }

    def gpu_totals(self, name: NodeName) -> tuple[int, int, int]:
        """Cards known, thousandths free on them, percent in use."""
        known = self.known(name)
        free = sum(self.card(name, uuid)["free_milli"] for uuid in known)
        whole = sum(gpu.cores_scaling for gpu in known.values())
        return len(known), free, (whole - max(free, 0)) * 100 // whole if whole else 0

    def overcommitted(self) -> set[tuple[str, str]]:
        """Cards of which more is held than there is; a reservation is not held."""
        really = {uid: held for uid, held in self.held.items() if not held.is_reservation}
        reference = replace(self, held=really)
        return {
            (name, uuid)
            for name in self.kept
            for uuid in self.known(name)
            if min(reference.card(name, uuid)[c] for c in ("free_milli", "free_bytes")) < 0
        }

    def all_of(self, name: NodeName) -> tuple[Node | None, object, object]:
        """Everything about one node, to see whether it changed."""
        return (
            self.nodes.get(name),
            self.free(name),
            [(uuid, self.card(name, uuid)) for uuid in self.uuids(name)],
        )

    def _charges(self, name: NodeName) -> Iterator[tuple[str, int, int, bool, bool]]:
        for held in self.pods_on(name):
            exclusive = held.allocation is not None and held.allocation.exclusive
            for card in held.allocation.cards if held.allocation is not None else ():
                yield card.uuid, card.milli, card.memory_bytes, exclusive, held.is_reservation


def _speed(one: Gpu, other: Gpu) -> int:
    """As the histories of these tests have it: NVLink of a pair, or of one NUMA node."""
    if one is other:
        return 0
    if any(link.peer == other.index for link in one.links):
        return 200_000
    return int(one.numa_node is not None and one.numa_node == other.numa_node)
