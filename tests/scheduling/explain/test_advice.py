"""Advice is only given when it is true: whoever follows it sees the pod fit."""

import random
import re
from dataclasses import replace

import pytest

from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.events import (
    BindSlotsFree,
    InventoryRead,
    NodesListed,
    PodGone,
    PodSeen,
    PodsListed,
)
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.pod import Shape
from kubeshare_py.scheduling.explain.explanation import why
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.queue.pod_records import PodState
from tests.builders import GIB, a_claim, a_gpu, a_machine, a_node, a_pod, a_shape, whole
from tests.scale import scaled, seeds

#: For each seed.
WORLDS = scaled(100, least=25)
LEAVES = re.compile(r"it fits on (?P<node>\S+) when (?P<pod>\S+) ends \(it holds .*\)")
SMALLER = re.compile(r"it fits on (?P<node>\S+) \(\S+\) now with \S+ (?P<share>\S+) or less")


def a_world(rng: random.Random) -> Machine:
    """Some nodes, cards of all kinds, pods that fit and pods that wait."""
    machine = a_machine()
    nodes = tuple(a_node(f"n{number}") for number in range(rng.randrange(1, 4)))
    cards = {
        node.name: tuple(
            a_gpu(
                f"GPU-{node.name}-{index}",
                index=index,
                model=rng.choice(["A", "B"]),
                healthy=rng.random() > 0.15,
                memory_bytes=rng.choice([16, 40]) * GIB,
                max_tenants=rng.choice([0, 0, 0, 2]),
            )
            for index in range(rng.randrange(4))
        )
        for node in nodes
    }
    machine.handle(PodsListed((), 0.0), 0.0)
    machine.handle(NodesListed(nodes), 0.0)
    machine.handle(InventoryRead(tuple(cards.items())), 0.0)
    for number in range(rng.randrange(3, 14)):
        claim = a_claim(
            rng.choice([0, 100, 300, 500, 800, 1000]),
            memory_bytes=rng.choice([None, None, 2 * GIB, 12 * GIB]),
            models=rng.choice([(), (), ("A",)]),
        )
        pod = a_pod(f"p{number}", a_shape(whole(1) if rng.random() < 0.2 else claim))
        machine.handle(PodSeen(pod), 0.0)
        for effect in machine.handle(BindSlotsFree(64), 0.0):
            if isinstance(effect, Bind):
                bound = replace(pod, node_name=effect.node, allocation=effect.allocation)
                machine.handle(PodSeen(bound), 0.0)
    if rng.random() < 0.4:
        node = rng.choice(sorted(cards))
        machine.handle(InventoryRead(((node, cards[node][1:]),)), 0.0)
    return machine


def waiting(machine: Machine) -> list[tuple[PodKey, Shape]]:
    records = machine.records.values()
    return [(one.pod.key, one.pod.shape) for one in records if one.node is None]


def fits(machine: Machine, shape: Shape, node: str) -> bool:
    [evaluator] = machine.evaluators.values()
    return int(evaluator.masks(shape)[machine.ledger.columns.row_of[NodeName(node)]]) == 0


def advice(machine: Machine, key: PodKey) -> tuple[str, ...]:
    found = why(machine, key)
    assert found is not None
    return found.advice


@pytest.mark.parametrize("seed", seeds(4))
def test_it_is_true(seed: int) -> None:
    given = 0
    for number in range(seed * 100, seed * 100 + WORLDS):
        machine = a_world(random.Random(number))
        for key, shape in waiting(machine):
            for sentence in advice(machine, key):
                given += 1
                smaller, leaves = SMALLER.fullmatch(sentence), LEAVES.fullmatch(sentence)
                if smaller:
                    assert shape.claim is not None
                    milli = round(float(smaller["share"]) * 1000)
                    claim = replace(shape.claim, milli=milli, exclusive=False)
                    assert fits(machine, replace(shape, claim=claim), smaller["node"]), sentence
                else:
                    assert leaves is not None, sentence
                    after = a_world(random.Random(number))
                    [uid] = [u for u, r in after.records.items() if str(r.pod.key) == leaves["pod"]]
                    after.handle(PodGone(uid), 0.0)
                    assert fits(after, shape, leaves["node"]), (number, sentence)
    assert given > WORLDS


def test_who_waits_for_one_pod_is_told_its_name() -> None:
    machine = a_machine()
    machine.handle(PodsListed((), 0.0), 0.0)
    machine.handle(NodesListed((a_node("n1"),)), 0.0)
    machine.handle(InventoryRead(((NodeName("n1"), (a_gpu("GPU-a"),)),)), 0.0)
    for name, milli in (("holder", 600), ("waits", 500)):
        machine.handle(PodSeen(a_pod(name, a_shape(a_claim(milli)))), 0.0)
        machine.handle(BindSlotsFree(64), 0.0)
    assert advice(machine, PodKey("default", "waits")) == (
        "it fits on n1 when default/holder ends (it holds 0.6 of GPU-a)",
        "it fits on n1 (GPU-a) now with sharedgpu/gpu_request 0.4 or less",
    )


def one_holder(node: Node) -> Machine:
    """A node with one card, 0.6 of which is held."""
    machine = a_machine()
    machine.handle(PodsListed((), 0.0), 0.0)
    machine.handle(NodesListed((node,)), 0.0)
    machine.handle(InventoryRead(((NodeName("n1"), (a_gpu("GPU-a"),)),)), 0.0)
    machine.handle(PodSeen(a_pod("holder", a_shape(a_claim(600)))), 0.0)
    machine.handle(BindSlotsFree(64), 0.0)
    return machine


def test_nothing_helps_on_a_node_where_the_pod_may_not_be() -> None:
    machine = one_holder(a_node("n1"))
    elsewhere = a_shape(a_claim(500), node_selector=(("disk", "fast"),))
    machine.handle(PodSeen(a_pod("waits", elsewhere)), 0.0)
    machine.handle(BindSlotsFree(64), 0.0)
    assert advice(machine, PodKey("default", "waits")) == ()


def test_a_card_that_would_be_held_back_when_it_is_idle_helps_nobody() -> None:
    machine = one_holder(a_node("n1"))
    native = a_pod(
        "native",
        Shape(resources=(("nvidia.com/gpu", 1),)),
        node_name=NodeName("n1"),
        scheduler_name="default-scheduler",
    )
    machine.handle(PodSeen(native), 0.0)
    machine.handle(PodSeen(a_pod("waits", a_shape(a_claim(500)))), 0.0)
    machine.handle(BindSlotsFree(64), 0.0)
    assert advice(machine, PodKey("default", "waits")) == ()
    machine.handle(PodGone(PodUid("uid-holder")), 0.0)
    assert [one.state for one in machine.records.values() if one.pod.key.name == "waits"] == [
        PodState.WAITING
    ]
