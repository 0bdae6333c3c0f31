"""Who wants cards of one model has nobody evicted for cards of several."""

from kubeshare_py.domain.events import InventoryRead, NodesListed
from kubeshare_py.domain.identity import NodeName
from tests.making import (
    PREEMPTION,
    Driver,
    a_claim,
    a_gpu,
    a_group,
    a_node,
    a_pod,
    a_shape,
    members,
    whole,
)


def cluster(tenants: dict[str, int | None]) -> Driver:
    """Nodes of one card: the model is the name's first letter; their tenants' ranks."""
    return nodes_of({name: {name: priority} for name, priority in tenants.items()})


def nodes_of(nodes: dict[str, dict[str, int | None]]) -> Driver:
    driver = Driver({}, PREEMPTION)
    cards = [
        (NodeName(node), tuple(a_gpu(f"GPU-{one}", index=at, model=one[0]) for at, one in row))
        for node, row in ((node, [*enumerate(held)]) for node, held in nodes.items())
    ]
    driver.tell(NodesListed(tuple(a_node(name) for name in nodes)), InventoryRead(tuple(cards)))
    for held in nodes.values():
        for card, priority in held.items():
            if priority is not None:
                shape = a_shape(a_claim(1000, models=(card[0],)))
                driver.fill(a_pod(f"on-{card}", shape, priority=priority))
    return driver


def on_cards(driver: Driver) -> list[str]:
    """The cards that the last plan gives."""
    plan = driver.plans[-1].plan
    return sorted(uuid for place in plan.nominations for uuid in place.cards)


ONE_MODEL = a_claim(1000, one_model=True)


def test_victims_of_a_gang_of_one_model_hold_cards_of_one_model() -> None:
    driver = cluster({"a1": 1, "a2": 5, "b1": 2, "b2": 2})
    driver.show(*members(a_group(2), 2, ONE_MODEL, priority=9))
    assert sorted(driver.evicted) == ["on-b1", "on-b2"]
    assert on_cards(driver) == ["GPU-b1", "GPU-b2"]


def test_nobody_goes_where_no_model_has_enough() -> None:
    driver = cluster({"a1": 1, "b1": 1, "c1": None})
    driver.show(*members(a_group(2), 2, ONE_MODEL, priority=9))
    assert driver.evicted == []


def test_what_is_free_of_a_model_is_counted_on() -> None:
    driver = cluster({"a1": 1, "a2": 1, "b1": 2, "b2": None})
    driver.show(*members(a_group(2), 2, ONE_MODEL, priority=9))
    assert sorted(driver.evicted) == ["on-a1", "on-a2"]
    driver = cluster({"a1": 2, "a2": 2, "b1": 2, "b2": None})
    driver.show(*members(a_group(2), 2, ONE_MODEL, priority=9))
    assert driver.evicted == ["on-b1"]


def test_a_pod_of_several_cards_of_one_model_has_tenants_of_one_model_evicted() -> None:
    driver = nodes_of({"n": {"a1": 1, "a2": 5, "b1": 2, "b2": 2}})
    driver.show(a_pod("urgent", a_shape(whole(2, one_model=True)), priority=9))
    assert sorted(driver.evicted) == ["on-b1", "on-b2"]
