"""Advice is only given when it is true: whoever follows it sees the pod fit."""

import random
import re
from typing import Any

import pytest

from kubeshare_py.cluster.columns import CHARGED_COLUMNS
from kubeshare_py.domain.events import (
    InventoryRead,
    NodeSeen,
    NodesListed,
    PodGone,
    PodSeen,
    PodsListed,
)
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.pod import Pod, Shape
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.explain.advice import MAX_TRIED
from kubeshare_py.scheduling.explain.explanation import why
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.queue.pod_records import PodState
from tests.making import (
    GIB,
    MODEL,
    Driver,
    a_claim,
    a_gpu,
    a_group,
    a_node,
    a_pod,
    a_shape,
    a_share,
    members,
    whole,
)
from tests.scale import scaled, seeds

#: For each seed.
WORLDS = scaled(60, least=10)
LEAVES = re.compile(r"it fits on (?P<node>\S+) when (?P<pod>\S+) ends( \(it holds .*\))?")
SMALLER = re.compile(
    r"it fits on (?P<node>\S+) \(\S+\) now with \S+ (?P<share>\S+) or less(, without \S+)?"
)


def a_world(rng: random.Random) -> Machine:
    """Some nodes, cards of all kinds, pods that fit and pods that wait."""
    driver = Driver(None)
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
    driver.tell(PodsListed((), 0.0), NodesListed(nodes), InventoryRead(tuple(cards.items())))
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
        for bind in driver.seen(pod):
            driver.tell(PodSeen(replace(pod, node_name=bind.node, allocation=bind.allocation)))
    if rng.random() < 0.4:
        node = rng.choice(sorted(cards))
        driver.tell(InventoryRead(((node, cards[node][1:]),)))
    return driver.machine


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


def advice_of(driver: Driver, name: str) -> tuple[str, ...]:
    return advice(driver.machine, PodKey("default", name))


def without(number: int, uid: PodUid) -> Machine:
    """The world of this number after a pod ended."""
    machine = a_world(random.Random(number))
    machine.handle(PodGone(uid), 0.0)
    return machine


@pytest.mark.slow
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


@pytest.mark.slow
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
    driver = one_holder()
    driver.seen(a_share("waits", 500))
    assert advice_of(driver, "waits") == (
        "it fits on n1 when default/holder ends (it holds 0.6 of GPU-n1-0)",
        "it fits on n1 (GPU-n1-0) now with sharedgpu/gpu_request 0.4 or less",
    )


def one_holder(**node_fields: Any) -> Driver:
    """A node with one card, 0.6 of which is held."""
    driver = Driver({"n1": 1}, **node_fields)
    driver.seen(a_share("holder", 600))
    return driver


def test_nothing_helps_on_a_node_where_the_pod_may_not_be() -> None:
    driver = one_holder()
    driver.seen(a_pod("waits", a_shape(a_claim(500), node_selector=(("disk", "fast"),))))
    assert advice_of(driver, "waits") == ()


def test_pods_with_several_gpus_or_none_are_named_too() -> None:
    driver = Driver({"n1": 2}, cpu=1000)
    for name, shape in (
        ("trains", a_shape(whole(2), cpu=400)),
        ("serves", a_shape(cpu=600)),
        ("waits", a_shape(a_claim(500), cpu=400)),
    ):
        driver.seen(a_pod(name, shape))
    ends = ("it fits on n1 when default/trains ends (it holds 2 GPUs)",)
    assert advice_of(driver, "waits") == ends
    driver.tell(PodGone(PodUid("uid-trains")))
    driver.tell(PodSeen(a_pod("big", a_shape(a_claim(500), cpu=1000))))
    assert advice_of(driver, "big") == ("it fits on n1 when default/serves ends",)


def test_only_so_many_pods_are_tried() -> None:
    driver = one_holder(pods=2 * MAX_TRIED)
    driver.tell(PodSeen(a_share("waits", 500)))
    ends = "when default/holder ends (it holds 0.6 of GPU-n1-0)"
    for number in range(MAX_TRIED):
        assert number % 500 or ends in advice_of(driver, "waits")[0]
        filler = a_pod(f"before-holder-{number}", a_shape(cpu=0), node_name=NodeName("n1"))
        driver.tell(PodSeen(filler))
    assert ends not in advice_of(driver, "waits")[0]


def test_a_card_that_would_be_held_back_when_it_is_idle_helps_nobody() -> None:
    driver = one_holder()
    native = a_pod(
        "native",
        Shape(resources=(("nvidia.com/gpu", 1),)),
        node_name=NodeName("n1"),
        scheduler_name="default-scheduler",
    )
    driver.tell(PodSeen(native))
    driver.seen(a_share("waits", 500))
    assert advice_of(driver, "waits") == ()
    driver.tell(PodGone(PodUid("uid-holder")))
    assert driver.states("waits") == [PodState.WAITING]


def remembered_by(machine: Machine) -> object:
    """All that the scheduler has worked out: change numbers, columns, and answers by shape."""
    ledger, [evaluator] = machine.ledger, machine.evaluators.values()
    logs = [log.end for log in (ledger.changed, ledger.improved, ledger.relabelled)]
    columns = [getattr(ledger.columns, name).tolist() for name in CHARGED_COLUMNS]
    answers = {
        shape: (one.seen, one.seen_labels, one.layout, one.row_scores.tolist(), one.slots.tolist())
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


def test_a_gang_that_lacks_members_is_advised_to_have_them_created() -> None:
    driver = Driver({"n1": 2})
    driver.show(a_pod("holds", a_shape(whole(2))))
    driver.show(*members(a_group(3), 1, a_claim(600)))
    assert advice_of(driver, "g-0") == (
        "it can start when its pod group has 2 more members: create them",
    )
    driver.show(*members(a_group(3), 2, a_claim(600), start=1))
    assert advice_of(driver, "g-0") == ()  # what would help one member does not help the gang


def test_a_pod_that_holds_only_memory_is_said_to_hold_that() -> None:
    driver = Driver({"n1": 1})
    driver.show(a_pod("holds", a_shape(a_claim(0, memory_bytes=15 * GIB))))
    driver.show(a_pod("waits", a_shape(a_claim(0, memory_bytes=1000 * GIB))))
    driver.show(a_pod("big", a_shape(whole(1))))
    assert advice_of(driver, "waits") == ()
    assert advice_of(driver, "big")[:1] == (
        "it fits on n1 when default/holds ends (it holds 15 GiB of GPU-n1-0)",
    )


def test_too_many_gpus_are_answered_by_how_many_would_fit() -> None:
    driver = Driver({"n1": 2, "n2": 3})
    driver.show(a_pod("many", a_shape(whole(9))))
    assert advice_of(driver, "many") == ("it fits on n2 now with 3 GPUs in place of 9",)


def test_a_model_that_is_not_there_is_answered_by_those_that_would_fit() -> None:
    driver = Driver({"n1": 1})
    driver.show(a_pod("odd", a_shape(a_claim(500, models=("H900",)))))
    assert advice_of(driver, "odd") == (f"it fits on n1 now with the model {MODEL}",)
    driver.show(a_pod("too-much", a_shape(a_claim(500, memory_bytes=1 << 47, models=("H900",)))))
    assert advice_of(driver, "too-much") == ()


def test_a_cordoned_node_that_would_take_the_pod_is_named() -> None:
    driver = Driver({"n1": 1, "n2": 1})
    for name in ("n1", "n2"):
        driver.tell(NodeSeen(replace(a_node(name), unschedulable=True)))
    driver.show(a_share("a", 500))
    assert advice_of(driver, "a") == tuple(
        f"it fits on {name} when that node is no longer cordoned: kubectl uncordon {name}"
        for name in ("n1", "n2")
    )


def test_a_rolling_update_that_waits_for_its_own_pods_is_told_so() -> None:
    driver = Driver({"n1": 1})

    def replica(name: str, template: str) -> Pod:
        labels = (("app", "web"), ("pod-template-hash", template))
        return a_pod(name, a_shape(whole(1)), labels=labels)

    driver.show(replica("old", "1"))
    driver.show(replica("new", "2"), replica("same", "1"))
    (first, *_) = advice_of(driver, "new")
    assert first.startswith("it fits on n1 when default/old ends (it holds 1 of GPU-n1-0), which")
    assert "maxSurge: 0" in first
    assert "maxSurge" not in advice_of(driver, "same")[0]
