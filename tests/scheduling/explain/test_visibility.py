"""A reader of some namespaces is told no name of a pod of another, whatever the state is."""

import random

import msgspec
import pytest

from kubeshare_py.domain.identity import PodKey
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.explain.explanation import cluster_portions, pod_portions, why
from kubeshare_py.scheduling.explain.question import UNNAMED, namespaces
from tests.making import (
    PREEMPTION,
    Driver,
    a_claim,
    a_group,
    a_pod,
    a_shape,
    a_share,
    members,
    whole,
)
from tests.scale import seeds
from tests.scheduling.test_reservations import AFTER_S, a_driver, small


def other(of: Pod, namespace: str = "theirs") -> Pod:
    """The same pod in another namespace."""
    return replace(of, key=PodKey(namespace, of.key.name))


def own(namespace: str) -> bool:
    return namespace == "default"


def shared_card() -> Driver:
    """A card with a pod of either namespace."""
    driver = Driver({"n1": 1})
    driver.place(a_share("mine", 500))
    driver.place(other(a_share("secret", 300)))
    return driver


def test_a_pod_of_another_namespace_is_an_amount_without_a_name() -> None:
    portions = list(cluster_portions(shared_card().machine, sees=own))
    [card] = [card for one in portions for node in one.nodes for card in node.cards]
    assert card.used_milli == 800
    assert [(one.namespace, one.name, one.milli) for one in card.tenants] == [
        ("", "", 300),
        ("default", "mine", 500),
    ]
    assert [pod.name for one in portions for pod in one.pods] == ["mine"]


def test_pods_of_a_namespace_come_with_the_cards_that_they_hold() -> None:
    driver = Driver({"n1": 2, "n2": 1})
    bind = driver.place(a_share("mine"))
    driver.place(other(a_share("secret")))
    first, *portions = pod_portions(driver.machine, "default", own)
    assert (first.ready, first.inventory, first.nodes, first.pods) == (True, "read", (), ())
    assert [pod.name for one in portions for pod in one.pods] == ["mine"]
    [node] = [node for one in portions for node in one.nodes]
    assert node.name == bind.node
    assert [card.uuid for card in node.cards] == [card.uuid for card in bind.allocation.cards]
    everything = list(pod_portions(driver.machine))
    assert {pod.name for one in everything for pod in one.pods} == {"mine", "secret"}
    assert namespaces(driver.machine) == {"default", "theirs"}


def test_the_pod_whose_end_would_help_is_not_named() -> None:
    driver = shared_card()
    waits = a_share("waits", 400)
    driver.show(waits)
    shown, full = why(driver.machine, waits.key, own), why(driver.machine, waits.key)
    assert shown is not None
    assert full is not None
    assert any("theirs/secret" in sentence for sentence in full.advice)
    assert any(f"when {UNNAMED} ends" in sentence for sentence in shown.advice)
    assert b"secret" not in msgspec.json.encode(shown)


def reserved() -> tuple[Driver, Pod]:
    """A gang of another namespace has the reservations; a pod of ours waits because of them."""
    driver = a_driver({"n1": 2})
    tenant, waits = small(0, a_claim(1000)), small(1)
    driver.bound(driver.show(tenant), tenant)
    driver.show(*(other(one) for one in members(a_group(2, "secret"), 2, created="1")))
    driver.later(AFTER_S)
    driver.show(waits)
    return driver, waits


def test_the_gang_that_has_the_reservations_is_not_named() -> None:
    driver, waits = reserved()
    found = why(driver.machine, waits.key, own)
    assert found is not None
    assert any(f"reserved for {UNNAMED}" in sentence for sentence in found.advice)
    nodes = [node for one in cluster_portions(driver.machine, sees=own) for node in one.nodes]
    assert {name for card in nodes[0].cards for name in card.reserved_for} == {UNNAMED}


def test_victims_are_not_named() -> None:
    cluster = Driver({"n1": 1}, PREEMPTION)
    cluster.fill(a_share("secret", 1000, 1))
    urgent = a_share("urgent", 300, 9, preempts=False)
    cluster.show(urgent)
    found = why(cluster.machine, urgent.key, lambda namespace: False)
    assert found is not None
    assert found.preemption is not None
    assert [(one.namespace, one.name) for one in found.preemption.victims] == [("", "")]


@pytest.mark.parametrize("seed", seeds(20))
def test_no_answer_names_a_pod_that_may_not_be_seen(seed: int) -> None:
    rng = random.Random(seed)
    driver = Driver({f"n{number}": rng.randrange(1, 3) for number in range(3)})
    mine = []
    for number in range(12):
        shape = a_shape(whole(2) if rng.random() < 0.2 else a_claim(rng.choice([300, 500, 1000])))
        if rng.random() < 0.5:
            mine.append(a_pod(f"mine-{number}", shape))
            driver.show(mine[-1])
        else:
            driver.show(other(a_pod(f"secret-{number}", shape)))
    answers = [
        *cluster_portions(driver.machine, topology=True, sees=own),
        *pod_portions(driver.machine, "default", own),
        *(why(driver.machine, one.key, own) for one in mine),
    ]
    text = msgspec.json.encode(answers)
    assert b"secret" not in text
    assert b"theirs" not in text
    assert all(one.key.name.encode() in text for one in mine)
