"""Short histories of odd objects, fed into a machine with a small cluster, against own books."""

import json
from random import Random
from typing import Any

import msgspec

from kubeshare_py.configuration.scheduler import SCHEDULER_NAME
from kubeshare_py.dialects.allocation import read_allocation, write_allocation
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.cluster_objects import GroupApi
from kubeshare_py.domain.effects import (
    Bind,
    Effect,
    Evict,
    ReportCardChange,
    ReportOvercommit,
    ReportPodWarning,
    ReportWaiting,
)
from kubeshare_py.domain.events import (
    BindAnswered,
    BindSlotsFree,
    Bound,
    Event,
    NodesListed,
    PodsListed,
    TimePassed,
)
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.node import Node
from kubeshare_py.inventory.node_annotations import ANNOTATION, NodeAnnotations, write_cards
from kubeshare_py.manifests import events, node
from kubeshare_py.manifests.binding import annotation_problem, binding_annotations
from kubeshare_py.manifests.node import NodeFields
from kubeshare_py.manifests.pods.pod_fields import PodFields
from kubeshare_py.manifests.reports import card_note, waiting_patch
from kubeshare_py.scheduling.explain.explanation import cluster_view, why
from kubeshare_py.scheduling.machine import Machine
from tests.fuzz import odd
from tests.fuzz.family import Family, said
from tests.fuzz.objects import BUDGETS, KEYS, NODES, POD_TEXTS, PODGROUPS, PODS
from tests.making import a_machine, some_gpus
from tests.scheduling.reference_model import Holding, ReferenceModel
from tests.valid_objects import BUDGET, GROUPS, NODE

_NODE, _BUDGET = json.dumps(NODE), json.dumps(BUDGET)
_GROUPS = {api: json.dumps(group) for api, group in GROUPS.items()}
_PLAIN = {**NODE, "spec": {}}
_ROUNDS = 40
_GOOD = "the-good"


class LedgerReference(ReferenceModel):
    """What pods hold, added up; a Bind must take what is there and free."""

    def effect(self, effect: Effect) -> None:
        if not isinstance(effect, Bind):
            return
        held = self.held.get(effect.uid)
        if held is not None:
            assert (held.node, held.allocation) == (effect.node, effect.allocation)
            return
        pod = self.pods[effect.uid]
        assert pod.scheduler_name == SCHEDULER_NAME
        held_back = pod.gates or pod.problem or pod.unsupported
        assert not held_back, f"a pod is placed that is held: {held_back}"
        assert self.node_refusal(pod, effect.node) is None
        self._takes_free_cards(effect.node, effect.allocation)
        claim = pod.shape.claim
        assert len(effect.allocation.cards) == (claim.count if claim else 0)
        cpu = dict(pod.shape.resources).get("cpu", 0)
        self.held[effect.uid] = Holding(effect.node, cpu, effect.allocation)

    def _takes_free_cards(self, where: NodeName, taken: Allocation) -> None:
        others = [
            one.allocation
            for one in self.held.values()
            if one.node == where and one.allocation is not None
        ]
        assert len({card.uuid for card in taken.cards}) == len(taken.cards), "one card twice"
        for card in taken.cards:
            gpu = self.cards[where][card.uuid]
            assert gpu.healthy
            there = [(one, of) for of in others for one in of.cards if one.uuid == card.uuid]
            assert not (there and taken.exclusive), "a card of others is taken whole"
            assert not any(of.exclusive for _, of in there), "a whole card is shared"
            assert sum(one.milli for one, _ in there) + card.milli <= 1000, "double booking"
            used = sum(one.memory_bytes for one, _ in there)
            assert used + card.memory_bytes <= gpu.memory_bytes, "memory is given twice"
        ports = {one.port for one in others}
        assert taken.port is None or taken.port not in ports, "one port twice"


class World:
    """A machine with two nodes and two cards each, and what it is told after that."""

    def __init__(self) -> None:
        self.machine: Machine = a_machine({})
        self.reference = LedgerReference()
        self.nodes = NodeAnnotations()
        self.now = 0.0
        self.bound: set[PodUid] = set()
        self.effects: list[Effect] = []
        plain = [_domain_node({**_PLAIN, "metadata": {"name": name}}) for name in ("n1", "n2")]
        self.handle(NodesListed(tuple(plain)), PodsListed((), 0.0))
        for name in ("n1", "n2"):
            self.cards(name, write_cards(some_gpus(name, 2)))

    def handle(self, *happened: Event | None) -> None:
        """Tell the machine and the books, and answer what the machine wants."""
        for event in happened:
            if event is None:
                continue
            self.reference.event(event, self.now)
            for effect in self.machine.handle(event, self.now):
                self.effects.append(effect)
                self.reference.effect(effect)
                self._take(effect)

    def cards(self, name: str, text: str) -> None:
        """A node's annotation, through the inventory's books."""
        self.nodes.take(NodeName(name), text)
        read = self.nodes.read()
        for sentence in self.nodes.diagnostics:
            said(sentence)
        self.handle(read)

    def settle(self) -> None:
        """Decide until nothing is bound any more, and let hours pass."""
        for _ in range(_ROUNDS):
            before = len(self.bound)
            self.handle(BindSlotsFree(8), TimePassed())
            self.now += 4000.0
            if len(self.bound) == before and self.now > 16_000.0:
                return

    def _take(self, effect: Effect) -> None:
        match effect:
            case Bind():
                self.bound.add(effect.uid)
                text = write_allocation(effect.allocation)
                assert read_allocation(text) == effect.allocation
                assert annotation_problem(binding_annotations(effect, "")) == ""
                self.handle(BindAnswered(effect.uid, effect.allocation.token, Bound()))
            case ReportWaiting():
                said(effect.diagnosis.message)
                told = waiting_patch(effect.uid, effect.diagnosis.message, None)
                message = told["status"]["conditions"][0]["message"]
                assert message.isprintable()
            case ReportPodWarning() | ReportOvercommit():
                said(effect.note)
            case ReportCardChange():
                said(card_note(effect))
            case Evict():
                said(effect.message)
            case _:
                pass


def judge(steps: list[list[Any]]) -> None:
    """The machine goes on, gives nothing away twice, and a good pod is bound beside all that."""
    world = _lived(steps)
    if len(steps) % 8 == 0:
        assert world.effects == _lived(steps).effects, "the same history leads to other decisions"


def _lived(steps: list[list[Any]]) -> World:
    world = World()
    for kind, written in steps:
        _step(world, kind, written)
        if kind == "pod":
            world.handle(BindSlotsFree(2))
    world.settle()
    world.handle(*_node_events({**_PLAIN, "metadata": {"name": "n9", "labels": {"zone": "a"}}}))
    world.cards("n9", write_cards(some_gpus("n9", 4)))
    good = events.POD_EVENTS.event("ADDED", msgspec.convert(_good_pod(), type=PodFields))
    world.handle(good)
    world.settle()
    pod = world.reference.pods[PodUid(_GOOD)]
    fits = world.reference.fits_somewhere(pod) if PodUid(_GOOD) not in world.bound else None
    assert fits is None, f"a good pod waits, although it fits on {fits}"
    view = cluster_view(world.machine)
    msgspec.json.encode(view)
    for one in [*world.reference.pods.values()][:5]:
        found = why(world.machine, one.key)
        assert found is None or len(found.message) <= 4096
    return world


def _step(world: World, kind: str, written: bytes) -> None:
    line = b'{"type":"ADDED","object":%s}' % written
    if kind in ("pod", "gone"):
        pod = PODS.line(line)
        if pod.item is not None:
            change = "ADDED" if kind == "pod" else "DELETED"
            world.handle(events.POD_EVENTS.event(change, pod.item))
    elif kind == "node":
        found = NODES.line(line)
        if found.item is not None:
            world.handle(events.NODE_EVENTS.event("MODIFIED", found.item))
            annotations = found.item.metadata.annotations or {}
            world.cards(found.item.metadata.name, annotations.get(ANNOTATION, ""))
    elif kind == "budget":
        budget = BUDGETS.line(line)
        if budget.item is not None:
            world.handle(events.BUDGET_EVENTS.event("ADDED", budget.item))
    else:
        group = PODGROUPS.line(line)
        if group.item is not None:
            world.handle(events.pod_group_events(GroupApi(kind)).event("ADDED", group.item))


def _node_events(fields: Any) -> list[Event | None]:
    return [events.NODE_EVENTS.event("ADDED", msgspec.convert(fields, type=NodeFields))]


def _domain_node(fields: Any) -> Node:
    return node.to_domain(msgspec.convert(fields, type=NodeFields))


def _good_pod() -> Any:
    labels = {"sharedgpu/gpu_limit": "0.3", "sharedgpu/gpu_request": "0.3"}
    metadata = {"name": _GOOD, "namespace": "good", "uid": _GOOD, "labels": labels}
    return {"metadata": metadata, "spec": {"schedulerName": SCHEDULER_NAME}}


def _history(rng: Random) -> list[list[Any]]:
    steps: list[list[Any]] = []
    for _ in range(rng.randint(10, 40)):
        way = rng.random()
        if way < 0.75:
            kind, made = ("pod" if way < 0.68 else "gone"), json.loads(rng.choice(POD_TEXTS))
            made["metadata"]["uid"] = made["metadata"]["name"] = f"u{rng.randint(0, 12)}"
            if rng.random() < 0.5:
                for name in ("group_name", "group_headcount", "group_threshold", "gpu_model"):
                    made["metadata"]["labels"].pop(f"sharedgpu/{name}", None)
                made["metadata"]["annotations"] = {}
                made["spec"].pop("nodeSelector", None)
                made["spec"].pop("affinity", None)
        elif way < 0.87:
            kind, made = "node", json.loads(_NODE)
            made["metadata"]["name"] = rng.choice(("n1", "n2", "n3"))
        elif way < 0.92:
            kind, made = "budget", json.loads(_BUDGET)
        else:
            api = rng.choice([*GroupApi])
            kind, made = api.value, json.loads(_GROUPS[api])
        made = odd.changed(rng, made, KEYS, 2) if rng.random() < 0.8 else made
        steps.append([kind, odd.as_bytes(made)])
    return steps


FAMILIES = (Family(name="clusters", make=_history, judge=judge, share=14, is_history=True),)
