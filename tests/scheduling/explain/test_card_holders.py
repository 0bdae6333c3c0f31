"""What a pod waits for, in one sentence, if it is nothing but cards that other pods hold."""

import pytest

from kubeshare_py.domain.events import InventoryRead, NodeSeen
from kubeshare_py.domain.identity import NodeName, PodKey
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.explain.explanation import why
from tests.making import MODEL, Driver, a_claim, a_node, a_pod, a_shape, a_share, some_gpus, whole


def waits_for(driver: Driver, name: str, *seen: str) -> str:
    """What `why` says first to a reader who sees pods of these namespaces, of all without any."""
    found = why(driver.machine, PodKey("default", name), *([{*seen}.__contains__] if seen else []))
    assert found is not None
    return found.waits_for


def test_the_cards_and_the_pods_that_hold_them_are_named() -> None:
    driver = Driver({"n1": 2, "n2": 0})
    driver.show(a_pod("render", a_shape(whole(2))))
    driver.show(a_pod("waits", a_shape(a_claim(800, models=(MODEL,)))))
    assert waits_for(driver, "waits") == (
        f"a card of {MODEL}: both (n1) are held by default/render; "
        "1 other node has other cards or none"
    )
    assert waits_for(driver, "waits", "other").startswith(
        f"a card of {MODEL}: both (n1) are held by a pod of another namespace"
    )


def test_of_many_nodes_and_pods_the_first_are_named() -> None:
    driver = Driver({f"n{number}": 1 for number in range(5)})
    for number in range(5):
        driver.show(a_pod(f"p{number}", a_shape(whole(1))))
    driver.show(a_pod("waits", a_shape(whole(1, models=(MODEL,)))))
    assert waits_for(driver, "waits") == (
        f"a card of {MODEL}: all 5 (n0, n1, n2 and 2 more nodes) are held by default/p0, "
        "default/p1, default/p2 and 2 more pods"
    )


@pytest.mark.parametrize("claim", [a_claim(800), a_claim(100, models=(MODEL,)), whole(3)])
def test_nothing_is_said_of_other_pods(claim: object) -> None:
    driver = Driver({"n1": 2})
    for name in ("a", "b"):
        driver.show(a_share(name, 500))
    driver.show(a_pod("waits", a_shape(claim)))  # type: ignore[arg-type]
    assert waits_for(driver, "waits") == ""


def test_nothing_is_said_where_a_card_is_free_on_a_node_that_is_cordoned() -> None:
    driver = Driver({"n1": 1, "n2": 1})
    driver.show(a_pod("a", a_shape(whole(1))))
    driver.tell(NodeSeen(replace(a_node("n2"), unschedulable=True)))
    driver.show(a_pod("waits", a_shape(a_claim(800, models=(MODEL,)))))
    assert waits_for(driver, "waits") == ""


def test_nothing_is_said_of_cards_that_would_not_be_free_without_their_pods() -> None:
    driver = Driver({"n1": 1})
    driver.show(a_pod("a", a_shape(whole(1))))
    faulty = replace(some_gpus("n1", 1)[0], healthy=False)
    driver.tell(InventoryRead(((NodeName("n1"), (faulty,)),)))
    driver.show(a_pod("waits", a_shape(a_claim(800, models=(MODEL,)))))
    assert waits_for(driver, "waits") == ""
