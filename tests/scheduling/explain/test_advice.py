"""Advice is only given when it is true: whoever follows it sees the pod fit."""

import random
import re
from dataclasses import replace

import pytest

from kubeshare_py.cluster.columns import CHARGED_COLUMNS
from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.events import (
    BindSlotsFree,
    InventoryRead,
    NodeSeen,
    NodesListed,
    PodGone,
    PodSeen,
    PodsListed,
)
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.pod import Pod, Shape
from kubeshare_py.scheduling.explain.advice import MAX_TRIED
from kubeshare_py.scheduling.explain.explanation import why
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.queue.pod_records import PodState
from tests.builders import GIB, MODEL, a_claim, a_gpu, a_machine, a_node, a_pod, a_shape, whole
from tests.scale import scaled, seeds
from tests.scheduling.gang_driver import GangDriver, a_group, members

#: For each seed.
WORLDS = scaled(60, least=20)
LEAVES = re.compile(r"it fits on (?P<node>\S+) when (?P<pod>\S+) ends( \(it holds .*\))?")
SMALLER = re.compile(
    r"it fits on (?P<node>\S+) \(\S+\) now with \S+ (?P<share>\S+) or less(, without \S+)?"
)


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
                cores_scaling=rng.choice([1000, 1000, 1500]),
                memory_scaling=rng.choice([1000, 1000, 500]),
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
        whole_cards = whole(rng.choice([1, 1, 2]))
        cpu = rng.choice([100, 100, 40_000])
        pod = a_pod(f"p{number}", a_shape(whole_cards if rng.random() < 0.2 else claim, cpu=cpu))
        if rng.random() < 0.1:
            native = Shape(resources=(("nvidia.com/gpu", 1),))
            pod = a_pod(f"p{number}", native, scheduler_name="default-scheduler")
            pod = replace(pod, node_name=rng.choice(nodes).name)
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


def without(number: int, uid: PodUid) -> Machine:
    """The world of this number after a pod ended."""
    machine = a_world(random.Random(number))
    machine.handle(PodGone(uid), 0.0)
    return machine


@pytest.mark.parametrize("seed", seeds(4))
def test_a_pod_whose_end_helps_is_named_and_no_other(seed: int) -> None:
    named = 0
    for number in range(seed * 100, seed * 100 + WORLDS):
        machine = a_world(random.Random(number))
        placed = {uid: one.node for uid, one in machine.records.items() if one.node is not None}
        after = {uid: without(number, uid) for uid in placed}
        for key, shape in waiting(machine):
            helpful = {
                (node, str(machine.records[uid].pod.key))
                for uid, node in placed.items()
                if fits(after[uid], shape, node) and not fits(machine, shape, node)
            }
            matches = [LEAVES.fullmatch(sentence) for sentence in advice(machine, key)]
            found = {(match["node"], match["pod"]) for match in matches if match is not None}
            named += len(found)
            assert found <= helpful, (number, key)
            assert len(found) == min(len(helpful), 3), (number, key)
    assert named > WORLDS // 2


@pytest.mark.parametrize("seed", seeds(4))
def test_the_share_that_fits_is_the_largest(seed: int) -> None:
    given = 0
    for number in range(seed * 100, seed * 100 + WORLDS):
        machine = a_world(random.Random(number))
        for key, shape in waiting(machine):
            for match in map(SMALLER.fullmatch, advice(machine, key)):
                if match is None:
                    continue
                given += 1
                assert shape.claim is not None
                milli = round(float(match["share"]) * 1000)
                fitting, larger = (
                    replace(shape, claims=(replace(shape.claim, milli=share, exclusive=False),))
                    for share in (milli, milli + 1)
                )
                assert fits(machine, fitting, match["node"]), (number, key)
                refusing = [
                    node for node in machine.ledger.columns.row_of if not fits(machine, shape, node)
                ]
                if milli + 1 < shape.claim.milli:
                    assert not any(fits(machine, larger, node) for node in refusing), (number, key)
    assert given > 0


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


def test_pods_with_several_gpus_or_none_are_named_too() -> None:
    machine = a_machine()
    machine.handle(PodsListed((), 0.0), 0.0)
    machine.handle(NodesListed((a_node("n1", cpu=1000),)), 0.0)
    gpus = tuple(a_gpu(f"GPU-{index}", index=index) for index in range(2))
    machine.handle(InventoryRead(((NodeName("n1"), gpus),)), 0.0)
    for name, shape in (
        ("trains", a_shape(whole(2), cpu=400)),
        ("serves", a_shape(cpu=600)),
        ("waits", a_shape(a_claim(500), cpu=400)),
    ):
        machine.handle(PodSeen(a_pod(name, shape)), 0.0)
        machine.handle(BindSlotsFree(64), 0.0)
    ends = ("it fits on n1 when default/trains ends (it holds 2 GPUs)",)
    assert advice(machine, PodKey("default", "waits")) == ends
    machine.handle(PodGone(PodUid("uid-trains")), 0.0)
    machine.handle(PodSeen(a_pod("big", a_shape(a_claim(500), cpu=1000))), 0.0)
    assert advice(machine, PodKey("default", "big")) == ("it fits on n1 when default/serves ends",)


def test_only_so_many_pods_are_tried() -> None:
    machine = one_holder(a_node("n1", pods=2 * MAX_TRIED))
    machine.handle(PodSeen(a_pod("waits", a_shape(a_claim(500)))), 0.0)
    waits, ends = PodKey("default", "waits"), "when default/holder ends (it holds 0.6 of GPU-a)"
    for number in range(MAX_TRIED):
        assert number % 500 or ends in advice(machine, waits)[0]
        filler = a_pod(f"before-holder-{number}", a_shape(cpu=0), node_name=NodeName("n1"))
        machine.handle(PodSeen(filler), 0.0)
    assert ends not in advice(machine, waits)[0]


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


def remembered_by(machine: Machine) -> object:
    """All that the scheduler has worked out: change numbers, columns, and answers by shape."""
    ledger, [evaluator] = machine.ledger, machine.evaluators.values()
    logs = [log.end for log in (ledger.changed, ledger.improved, ledger.relabelled)]
    columns = [getattr(ledger.columns, name).tolist() for name in CHARGED_COLUMNS]
    answers = {
        shape: (one.seen, one.seen_labels, one.layout, one.keys.tolist(), one.slots.tolist())
        for shape, one in evaluator.results._answers.items()
    }
    return logs, ledger.capacities, columns, answers, dict(evaluator.failed)


@pytest.mark.parametrize("seed", seeds(4))
def test_it_changes_nothing_that_the_scheduler_remembers(seed: int) -> None:
    given = 0
    for number in range(seed * 100, seed * 100 + WORLDS // 3):
        machine = a_world(random.Random(number))
        [evaluator] = machine.evaluators.values()
        for _, shape in waiting(machine):
            evaluator.masks(shape)  # as a scheduling cycle asks
        before = remembered_by(machine)
        for key, _ in waiting(machine):
            given += len(advice(machine, key))
        assert remembered_by(machine) == before
    assert given > 0


def advice_of(driver: GangDriver, name: str) -> tuple[str, ...]:
    found = why(driver.machine, PodKey("default", name))
    assert found is not None
    return found.advice


def test_a_gang_that_lacks_members_is_advised_to_have_them_created() -> None:
    driver = GangDriver({"n1": 2})
    driver.show(a_pod("holds", a_shape(whole(2))))
    driver.show(*members(a_group(3), 1, a_claim(600)))
    assert advice_of(driver, "g-0") == (
        "it can start when its pod group has 2 more members: create them",
    )
    driver.show(*members(a_group(3), 2, a_claim(600), start=1))
    assert advice_of(driver, "g-0") == ()  # what would help one member does not help the gang


def test_a_pod_that_holds_only_memory_is_said_to_hold_that() -> None:
    driver = GangDriver({"n1": 1})
    driver.show(a_pod("holds", a_shape(a_claim(0, memory_bytes=15 * GIB))))
    driver.show(a_pod("waits", a_shape(a_claim(0, memory_bytes=1000 * GIB))))
    driver.show(a_pod("big", a_shape(whole(1))))
    assert advice_of(driver, "waits") == ()
    assert advice_of(driver, "big")[:1] == (
        "it fits on n1 when default/holds ends (it holds 15 GiB of GPU-n1-0)",
    )


def test_too_many_gpus_are_answered_by_how_many_would_fit() -> None:
    driver = GangDriver({"n1": 2, "n2": 3})
    driver.show(a_pod("many", a_shape(whole(9))))
    assert advice_of(driver, "many") == ("it fits on n2 now with 3 GPUs in place of 9",)


def test_a_model_that_is_not_there_is_answered_by_those_that_would_fit() -> None:
    driver = GangDriver({"n1": 1})
    driver.show(a_pod("odd", a_shape(a_claim(500, models=("H900",)))))
    assert advice_of(driver, "odd") == (f"it fits on n1 now with the model {MODEL}",)
    driver.show(a_pod("too-much", a_shape(a_claim(500, memory_bytes=1 << 47, models=("H900",)))))
    assert advice_of(driver, "too-much") == ()


def test_a_cordoned_node_that_would_take_the_pod_is_named() -> None:
    driver = GangDriver({"n1": 1, "n2": 1})
    for name in ("n1", "n2"):
        driver.tell(NodeSeen(replace(a_node(name), unschedulable=True)))
    driver.show(a_pod("a", a_shape(a_claim(500))))
    assert advice_of(driver, "a") == tuple(
        f"it fits on {name} when that node is no longer cordoned: kubectl uncordon {name}"
        for name in ("n1", "n2")
    )


def test_a_rolling_update_that_waits_for_its_own_pods_is_told_so() -> None:
    driver = GangDriver({"n1": 1})

    def replica(name: str, template: str) -> Pod:
        labels = (("app", "web"), ("pod-template-hash", template))
        return a_pod(name, a_shape(whole(1)), labels=labels)

    driver.show(replica("old", "1"))
    driver.show(replica("new", "2"), replica("same", "1"))
    (first, *_) = advice_of(driver, "new")
    assert first.startswith("it fits on n1 when default/old ends (it holds 1 of GPU-n1-0), which")
    assert "maxSurge: 0" in first
    assert "maxSurge" not in advice_of(driver, "same")[0]
