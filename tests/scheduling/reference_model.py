"""Books of our own: what the machine was told and what it decided, added up the plain way.

Judges the machine without asking it anything.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations, product

from kubeshare_py.configuration.scheduler import SCHEDULER_NAME
from kubeshare_py.domain.allocation import Allocation, CardCharge, summed
from kubeshare_py.domain.effects import Bind, Effect
from kubeshare_py.domain.events import (
    BindAnswered,
    BindRefused,
    Bound,
    Event,
    InventoryRead,
    NodeGone,
    NodeSeen,
    NodesListed,
    PodGone,
    PodSeen,
    PodsListed,
)
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import DecisionToken, NodeName, PodUid
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.pod import HostPort, Pod
from kubeshare_py.domain.request import GpuClaim


@dataclass
class Holding:
    """What a pod holds as far as anybody was told."""

    node: NodeName
    cpu: int
    allocation: Allocation | None
    native: int = 0
    ports: tuple[HostPort, ...] = ()
    settled: bool = False
    answered_at: float | None = None


def charge_of(gpu: Gpu, claim: GpuClaim) -> CardCharge:
    """What one share of a claim takes of a card."""
    memory = claim.memory_bytes
    if claim.exclusive:
        memory = gpu.memory_bytes
    elif memory is None:
        memory = gpu.memory_bytes * claim.milli // 1000
    return CardCharge(gpu.uuid, claim.milli, memory, exclusive=claim.exclusive)


def is_taken(wanted: HostPort, taken: set[tuple[int, str, str]]) -> bool:
    """Whether a port is taken at its address, or at all of them."""
    same = {at for port, kind, at in taken if (port, kind) == (wanted.port, wanted.protocol)}
    return bool(same if wanted.address == "0.0.0.0" else same & {wanted.address, "0.0.0.0"})


@dataclass
class ReferenceModel:
    """Nodes, cards, pods and holdings, from the events and the Bind effects alone."""

    #: Whether a plugin looks at the models that a pod asks for, and at cordons.
    minds_models: bool = True
    minds_cordons: bool = True
    nodes: dict[NodeName, Node] = field(default_factory=dict)
    cards: dict[NodeName, dict[str, Gpu]] = field(default_factory=dict)
    pods: dict[PodUid, Pod] = field(default_factory=dict)
    held: dict[PodUid, Holding] = field(default_factory=dict)
    #: The last place of pods whose Binding was refused.
    refused: dict[PodUid, Holding] = field(default_factory=dict)
    #: How many pods the machine had heard of when it heard of this one, which counts.
    arrived: dict[PodUid, int] = field(default_factory=dict)

    def event(self, event: Event, now: float) -> None:
        """The machine is told this."""
        match event:
            case PodSeen(pod):
                self._seen(pod)
            case PodGone(uid):
                self._gone(uid)
            case PodsListed(pods, asked_at):
                listed = {pod.uid for pod in pods} | event.to_come
                for uid in self.pods.keys() - listed if not event.continues else ():
                    self._gone(uid)
                for pod in sorted(pods, key=lambda pod: pod.key):
                    self._listed(pod, asked_at)
            case BindAnswered():
                self._answered(event, now)
            case _:
                self._cluster(event)

    def _cluster(self, event: Event) -> None:
        match event:
            case NodeSeen(node):
                self.nodes[node.name] = node
            case NodeGone(name):
                self.nodes.pop(name, None)
            case NodesListed(nodes, unreadable):
                kept = {name: node for name, node in self.nodes.items() if name in unreadable}
                self.nodes = kept | {node.name: node for node in nodes}
            case InventoryRead(changed):
                for name, gpus in changed:
                    self.cards[name] = {gpu.uuid: gpu for gpu in gpus}
            case _:
                pass

    def _listed(self, pod: Pod, asked_at: float) -> None:
        held = self.held.get(pod.uid)
        answered = held.answered_at if held is not None and not held.settled else None
        if pod.node_name is None and answered is not None and asked_at > answered:
            del self.held[pod.uid]
        self._seen(pod)

    def _answered(self, event: BindAnswered, now: float) -> None:
        held = self.held.get(event.uid)
        if held is None or held.settled or held.allocation is None:
            return
        if held.allocation.token == event.token and held.answered_at is None:
            if isinstance(event.outcome, BindRefused):
                self.refused[event.uid] = self.held.pop(event.uid)
            elif isinstance(event.outcome, Bound):
                held.answered_at = now

    def effects(self, effects: list[Effect]) -> None:
        """All that one event led to."""
        for effect in effects:
            self.effect(effect)

    def effect(self, effect: Effect) -> None:
        """The machine wants this: is it allowed to?"""
        if not isinstance(effect, Bind):
            return
        held = self.held.get(effect.uid)
        if held is not None:
            assert held.allocation == effect.allocation, "sent again with other cards"
            assert held.node == effect.node, "sent again to another node"
            return
        refused = self.refused.get(effect.uid)
        if refused is not None and refused.allocation == effect.allocation:
            self.held[effect.uid] = refused  # of a gang: its place was kept for another try
            return
        pod = self.pods[effect.uid]
        assert not pod.gates, "a gated pod was placed"
        assert not pod.problem, "a malformed pod was placed"
        assert self.node_refusal(pod, effect.node) is None
        self._check_cards(pod, effect.node, effect.allocation)
        cpu = dict(pod.shape.resources).get("cpu", 0)
        ports = pod.shape.host_ports
        self.held[effect.uid] = Holding(effect.node, cpu, effect.allocation, ports=ports)

    def forgotten(self, pods: Iterable[Pod] | None = None) -> dict[str, NodeName]:
        """Those of the waiting pods, or of these, that fit: their names, and a node for each."""
        nodes = {
            pod.key.name: self.fits_somewhere(pod)
            for pod in (self.waiting() if pods is None else pods)
        }
        return {name: node for name, node in nodes.items() if node is not None}

    def fits_somewhere(self, pod: Pod) -> NodeName | None:
        """A node where the pod could go now, by trying them all."""
        for name in sorted(self.nodes):
            if self.node_refusal(pod, name) is None and self.places_on(pod, name) is not None:
                return name
        return None

    def places_on(self, pod: Pod, node: NodeName) -> list[tuple[str, ...]] | None:
        """Cards for each claim of the pod, by trying all; None if there are none."""
        cards = [*self.cards.get(node, {})]
        choices = []
        for claim in pod.shape.claims:
            fitting = [uuid for uuid in cards if self.card(node, uuid, claim)]
            if len(pod.shape.claims) == 1:
                fitting = fitting[: claim.count]  # any are as good as others
            choices.append([*combinations(fitting, claim.count)])
        return next(
            (
                [*places]
                for places in product(*choices)
                if self.take_what_is_free(pod, node, [*places])
            ),
            None,
        )

    def take_what_is_free(self, pod: Pod, node: NodeName, places: list[tuple[str, ...]]) -> bool:
        """Whether the claims, each of which fits alone, fit there together."""
        for uuid in {uuid for place in places for uuid in place}:
            on = [
                claim
                for claim, place in zip(pod.shape.claims, places, strict=True)
                if uuid in place
            ]
            if len(on) > 1 and any(claim.exclusive for claim in on):
                return False
            gpu = self.cards[node][uuid]
            held = [
                card
                for held in self.held.values()
                if held.node == node and held.allocation is not None
                for card in held.allocation.cards
                if card.uuid == uuid
            ]
            more = [charge_of(gpu, claim) for claim in on]
            if len(on) > 1 and (
                sum(card.milli for card in (*held, *more)) > 1000
                or sum(card.memory_bytes for card in (*held, *more)) > gpu.memory_bytes
            ):
                return False
        return True

    def holding(self, pod: Pod, node: NodeName) -> Holding:
        """What the pod would hold there, on the first cards that fit."""
        places = self.places_on(pod, node)
        assert places is not None
        return self.holding_there(pod, node, places)

    def holding_there(self, pod: Pod, node: NodeName, places: list[tuple[str, ...]]) -> Holding:
        """What the pod would hold of these cards."""
        allocation = None
        if places:
            cards = summed(
                charge_of(self.cards[node][uuid], claim)
                for claim, place in zip(pod.shape.claims, places, strict=True)
                for uuid in place
            )
            allocation = Allocation(token=DecisionToken(f"trial-{pod.uid}"), cards=cards)
        cpu, ports = dict(pod.shape.resources).get("cpu", 0), pod.shape.host_ports
        return Holding(node, cpu, allocation, ports=ports)

    def waiting(self) -> list[Pod]:
        """Pods of ours that nobody holds back and that have no place."""
        return [
            pod
            for uid, pod in self.pods.items()
            if uid not in self.held
            and pod.scheduler_name == SCHEDULER_NAME
            and not pod.gates
            and not pod.problem
            and not pod.deleting
        ]

    def node_refusal(self, pod: Pod, name: NodeName) -> str | None:
        """Why the pod may not go there, cards aside."""
        node = self.nodes.get(name)
        if node is None:
            return "no such node"
        if node.unschedulable and self.minds_cordons:
            return "cordoned"
        allocatable = dict(node.allocatable)
        there = [held for held in self.held.values() if held.node == name]
        cpu = dict(pod.shape.resources).get("cpu", 0)
        if cpu and sum(held.cpu for held in there) + cpu > allocatable.get("cpu", 0):
            return "cpu"
        if len(there) + 1 > allocatable.get("pods", 0):
            return "pods"
        taken = {(one.port, one.protocol, one.address) for held in there for one in held.ports}
        if any(is_taken(port, taken) for port in pod.shape.host_ports):
            return "ports"
        return None

    def card(self, node: NodeName, uuid: str, claim: GpuClaim) -> bool:
        """Whether a card takes one share of the claim."""
        gpu = self.cards.get(node, {}).get(uuid)
        if gpu is None or not gpu.healthy or uuid in self._held_back(node):
            return False
        if self.minds_models and claim.models and gpu.model not in claim.models:
            return False
        tenants = [
            (card, card.exclusive)
            for held in self.held.values()
            if held.node == node and held.allocation is not None
            for card in held.allocation.cards
            if card.uuid == uuid
        ]
        if claim.exclusive:
            return not tenants and (claim.memory_bytes or 0) <= gpu.memory_bytes
        if any(exclusive for _, exclusive in tenants):
            return False
        memory = claim.memory_bytes
        if memory is None:
            memory = gpu.memory_bytes * claim.milli // 1000
        milli_free = 1000 - sum(card.milli for card, _ in tenants)
        bytes_free = gpu.memory_bytes - sum(card.memory_bytes for card, _ in tenants)
        return claim.milli <= milli_free and memory <= bytes_free

    def _held_back(self, node: NodeName) -> set[str]:
        """Cards kept for pods whose cards the kubelet picks: idle ones, or all if those are few."""
        count = sum(held.native for held in self.held.values() if held.node == node)
        cards = self.cards.get(node, {})
        used = {
            card.uuid
            for held in self.held.values()
            if held.node == node and held.allocation is not None
            for card in held.allocation.cards
        }
        idle = sorted(uuid for uuid, gpu in cards.items() if uuid not in used and gpu.healthy)
        return set(cards) if count > len(idle) else set(idle[len(idle) - count :])

    def _check_cards(self, pod: Pod, node: NodeName, allocation: Allocation) -> None:
        claims = pod.shape.claims
        if not claims:
            assert not allocation.cards
            return
        parts = [one.cards for one in allocation.claims] if len(claims) > 1 else [allocation.cards]
        assert len(parts) == len(claims)
        for claim, cards in zip(claims, parts, strict=True):
            assert len(cards) == claim.count
            assert len({card.uuid for card in cards}) == claim.count, "one card twice"
            for card in cards:
                assert self.card(node, card.uuid, claim), f"{card} takes more than is free"
                right = charge_of(self.cards[node][card.uuid], claim)
                assert (card.milli, card.memory_bytes) == (right.milli, right.memory_bytes)
        places: list[tuple[str, ...]] = [tuple(card.uuid for card in cards) for cards in parts]
        assert self.take_what_is_free(pod, node, places), f"{places} are more than is free"
        amounts = [
            {card.uuid: (card.milli, card.memory_bytes) for card in cards}
            for cards in (allocation.cards, summed(card for cards in parts for card in cards))
        ]
        assert amounts[0] == amounts[1], "the sums are wrong"
        ports = [
            held.allocation.port
            for held in self.held.values()
            if held.node == node and held.allocation is not None and held.allocation.port
        ]
        assert allocation.port is None or allocation.port not in ports, "one port twice"
        assert (allocation.port is not None) == any(not claim.exclusive for claim in claims)

    def _seen(self, pod: Pod) -> None:
        self.arrived.setdefault(pod.uid, len(self.arrived) + 1)
        held = self.held.get(pod.uid)
        if pod.node_name is None:
            if held is None or not held.settled:
                self.pods[pod.uid] = pod
            return
        self.pods[pod.uid] = pod
        cpu = dict(pod.shape.resources).get("cpu", 0)
        native = dict(pod.shape.resources).get("nvidia.com/gpu", 0)
        if held is not None and held.settled and held.node == pod.node_name:
            # A resize; what it holds of cards was settled when it was bound.
            held.cpu, held.native = cpu, 0 if held.allocation else native
            # An API server lets no port change; what it shows counts all the same.
            held.ports = pod.shape.host_ports
            return
        if (
            held is None
            or held.node != pod.node_name
            or _token(held.allocation) != _token(pod.allocation)
        ):
            native = 0 if pod.allocation else native
            ports = pod.shape.host_ports
            held = Holding(pod.node_name, cpu, pod.allocation, native, ports)
            self.held[pod.uid] = held
        held.settled = True

    def _gone(self, uid: PodUid) -> None:
        self.pods.pop(uid, None)
        self.held.pop(uid, None)


def _token(allocation: Allocation | None) -> str | None:
    return allocation.token if allocation is not None else None
