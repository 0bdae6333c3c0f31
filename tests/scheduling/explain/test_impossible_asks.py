"""Pods and gangs that could never start are told so, and wait for what would change it."""

from kubeshare_py.domain.events import InventoryRead, NodeSeen
from kubeshare_py.domain.identity import NodeName, PodKey
from kubeshare_py.scheduling.explain.explanation import why
from kubeshare_py.views.view import NodeWhy
from tests.making import (
    GIB,
    Driver,
    a_claim,
    a_gpu,
    a_group,
    a_node,
    a_pod,
    a_shape,
    a_share,
    members,
    names,
    some_gpus,
    whole,
)

IMPOSSIBLE = "impossible: no node has 16 GPUs: the largest has 8 (node n2). "


def test_a_pod_is_told_the_largest_there_is_and_why_says_it_too() -> None:
    driver = Driver({"n1": 4, "n2": 8})
    driver.show(a_pod("big", a_shape(whole(16))))
    said = f"{IMPOSSIBLE}0/2 nodes are available: 2 too few GPUs."
    assert driver.told == {"big": said}
    view = why(driver.machine, PodKey("default", "big"))
    assert view is not None
    assert view.message == said


def test_it_is_possible_again_when_cards_come() -> None:
    driver = Driver({"n1": 4, "n2": 8})
    driver.show(a_pod("big", a_shape(whole(16))))
    assert names(driver.later(100)) == []
    driver.tell(InventoryRead(((NodeName("n1"), some_gpus("n1", 16)),)))
    assert names(driver.turn()) == ["big"]


def test_a_larger_one_that_is_too_small_still_is_named_in_a_while() -> None:
    driver = Driver({"n1": 4, "n2": 8})
    driver.show(a_pod("big", a_shape(whole(16))))
    driver.tell(InventoryRead(((NodeName("n1"), some_gpus("n1", 12)),)))
    driver.later(61)
    assert "the largest has 12 (node n1)" in driver.told["big"]


def test_what_others_hold_is_not_impossible() -> None:
    driver = Driver({"n1": 4})
    driver.show(a_pod("first", a_shape(whole(2))))
    driver.show(a_pod("second", a_shape(whole(4))))
    assert driver.told["second"] == "0/1 nodes are available: 1 Insufficient GPU."


def test_a_gang_that_asks_for_more_than_the_cluster_has_is_told_how_much_it_has() -> None:
    driver = Driver({"n1": 8, "n2": 8, "n3": 8, "n4": 8})
    driver.show(*members(a_group(5), 5, whole(8)))
    assert driver.told["g-0"] == (
        'pod group "g" needs 5 pods to start together; room for 4 of them; impossible: they ask '
        "for 40 GPUs in all; the cluster has 32. 0/4 nodes are available: 4 Insufficient GPU."
    )
    driver.tell(NodeSeen(a_node("n5")), InventoryRead(((NodeName("n5"), some_gpus("n5", 16)),)))
    assert len(driver.later(120)) == 5


def test_a_gang_whose_members_do_not_fit_beside_each_other_is_told_how_many_would() -> None:
    driver = Driver({"n1": 8, "n2": 8, "n3": 8})
    driver.show(*members(a_group(4), 4, whole(5)))
    said = "impossible: if no pod held anything the cluster has room for 3 of them."
    assert said in driver.told["g-0"]


def test_a_member_that_fits_no_node_is_told_of_the_largest_node() -> None:
    driver = Driver({"n1": 8, "n2": 8, "n3": 8})
    driver.show(*members(a_group(2), 2, whole(10)))
    assert "impossible: no node has 10 GPUs: the largest has 8 (node n1)." in driver.told["g-0"]


def test_a_gang_counts_cards_of_its_models_and_memory_only() -> None:
    driver = Driver({"n1": 4, "n2": 4})
    small = tuple(a_gpu(f"s{n}", index=n, model="T4", memory_bytes=16 * GIB) for n in range(4))
    driver.tell(InventoryRead(((NodeName("n2"), small),)))
    driver.show(*members(a_group(6), 6, a_claim(1000, memory_bytes=30 * GIB)))
    said = "impossible: they ask for 6 GPUs in all; the cluster has 4 that they may be put on."
    assert said in driver.told["g-0"]


def test_shares_of_a_gang_are_added_up() -> None:
    driver = Driver({"n1": 2})
    driver.show(*members(a_group(5), 5, a_claim(500)))
    assert "they ask for 2.5 GPUs in all; the cluster has 2." in driver.told["g-0"]
    driver.show(*members(a_group(3, "h"), 3, a_claim(600)))
    said = "if no pod held anything the cluster has room for 2 of them."
    assert said in driver.told["h-0"]


def names_of(node: NodeWhy) -> list[str]:
    return [node.name, *node.alike]


def test_why_of_a_gang_counts_the_room_on_each_node() -> None:
    driver = Driver({"n1": 4, "n2": 2, "n3": 3, "n4": 0})
    driver.show(a_pod("held", a_shape(whole(2))))
    driver.show(*members(a_group(9), 9))
    view = why(driver.machine, PodKey("default", "g-0"))
    assert view is not None
    held = driver.machine.records[a_pod("held").uid].node
    room = {"n1": 4, "n2": 2, "n3": 3, "n4": 0}
    assert held is not None
    room[held] -= 2
    assert {name: node.headroom for node in view.nodes for name in names_of(node)} == room
    single = why(driver.machine, PodKey("default", "held"))
    assert single is not None
    assert all(node.headroom is None for node in single.nodes)


def test_why_counts_members_of_several_shapes_together() -> None:
    driver = Driver({"n1": 4, "n2": 4})
    group = a_group(9)
    driver.show(*members(group, 2, whole(3)), *members(group, 7, a_claim(500), start=2))
    view = why(driver.machine, PodKey("default", "g-3"))
    assert view is not None
    assert [(names_of(node), node.headroom) for node in view.nodes] == [(["n1", "n2"], 3)]


def test_a_card_of_another_model_is_not_said_to_lack_a_share_as_well() -> None:
    driver = Driver({"n1": 1, "n2": 1})
    driver.show(a_share("a", 800))
    driver.show(a_pod("waits", a_shape(a_claim(500, models=("H900",)))))
    assert driver.told["waits"].endswith("0/2 nodes are available: 2 no GPU of model H900.")
    found = why(driver.machine, PodKey("default", "waits"))
    assert found is not None
    assert {node.reasons for node in found.nodes} == {("no GPU of model H900",)}
