"""The scheduling cycles of gangs: when a gang joins the queue, waits for room, and is woken."""

from kubeshare_py.domain.events import InventoryRead, NodeSeen, PodGone, PodSeen
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.pod_groups.gang_cycles import GangCycles
from kubeshare_py.scheduling.queue.gangs import Gang
from tests.making import Driver, a_claim, a_group, a_node, members, names, some_gpus, whole


def cycles(driver: Driver) -> GangCycles:
    return driver.machine.gang_cycles


def gang(driver: Driver, name: str = "g") -> Gang:
    (found,) = (one for one in driver.machine.gangs.all() if one.name == name)
    return found


def waits_for_room(driver: Driver, name: str = "g") -> bool:
    return cycles(driver).queue.queue_of(gang(driver, name)) is not None


def searches_in_vain(driver: Driver) -> int:
    return sum(driver.machine.attempts.unschedulable.values())


def test_without_gangs_there_is_nothing_to_do() -> None:
    driver = Driver({"n1": 1})
    assert not driver.machine.gangs.by_key
    assert not cycles(driver).unfinished


def test_a_gang_joins_the_queue_with_the_last_member_that_it_needs() -> None:
    driver = Driver({"n1": 1})
    first, second = members(a_group(2), 2)
    driver.tell(PodSeen(first))
    assert driver.turn() == []
    assert not waits_for_room(driver)
    driver.tell(PodSeen(second))
    driver.turn()
    assert waits_for_room(driver)


def test_a_gang_that_loses_a_needed_member_leaves_the_queue() -> None:
    driver = Driver({"n1": 1})
    pods = members(a_group(2), 2)
    driver.show(*pods)
    assert waits_for_room(driver)
    driver.gone(pods[1])
    assert not waits_for_room(driver)


def test_its_members_are_not_in_shape_queues_while_it_waits_as_a_whole() -> None:
    driver = Driver({"n1": 1})
    pods = members(a_group(2), 2)
    driver.show(*pods)
    assert all(driver.machine.queue.queue_of(pod.uid) is None for pod in pods)


def test_once_its_quorum_is_bound_each_further_member_waits_in_a_shape_queue() -> None:
    driver = Driver({"n1": 2})
    pods = members(a_group(2), 2)
    driver.bound(driver.show(*pods), *pods)
    (late,) = members(a_group(2), 1, start=2)
    assert driver.show(late) == []
    assert driver.machine.queue.queue_of(late.uid) is not None
    assert not waits_for_room(driver)


def test_gangs_of_one_composition_share_a_queue_and_one_search() -> None:
    driver = Driver({"n1": 1})
    for name in "abc":
        driver.show(*members(a_group(2, name), 2))
    queues = {cycles(driver).queue.queue_of(gang(driver, name)) for name in "abc"}
    assert len(queues) == 1
    assert searches_in_vain(driver) == 1


def test_gangs_of_other_shapes_or_minimums_do_not() -> None:
    driver = Driver({"n1": 1})
    driver.show(*members(a_group(2, "a"), 2))
    driver.show(*members(a_group(3, "b"), 3))
    driver.show(*members(a_group(2, "c"), 2, a_claim(900)))
    queues = {cycles(driver).queue.queue_of(gang(driver, name)) for name in "abc"}
    assert len(queues) == 3


def test_a_node_with_room_for_the_gang_wakes_it() -> None:
    driver = Driver({"n1": 1})
    driver.show(*members(a_group(2), 2))
    n2 = NodeName("n2")
    driver.tell(NodeSeen(a_node("n2")), InventoryRead(((n2, some_gpus("n2", 1)),)))
    assert names(driver.turn()) == ["g-0", "g-1"]


def test_a_card_that_still_leaves_too_little_room_does_not() -> None:
    driver = Driver({"n1": 1})
    driver.show(*members(a_group(3), 3))
    tried = searches_in_vain(driver)
    n2 = NodeName("n2")
    driver.tell(NodeSeen(a_node("n2")), InventoryRead(((n2, some_gpus("n2", 1)),)))
    assert driver.turn() == []
    assert waits_for_room(driver)
    assert searches_in_vain(driver) == tried


def test_only_the_composition_that_fits_now_is_tried_again() -> None:
    driver = Driver({"n1": 1})
    driver.show(*members(a_group(4, "large"), 4))
    driver.show(*members(a_group(2, "small"), 2))
    n2 = NodeName("n2")
    driver.tell(NodeSeen(a_node("n2")), InventoryRead(((n2, some_gpus("n2", 1)),)))
    assert names(driver.turn()) == ["small-0", "small-1"]
    assert waits_for_room(driver, "large")


def test_a_pod_that_leaves_wakes_the_gang_that_its_card_completes() -> None:
    driver = Driver({"n1": 2})
    (single,) = members(a_group(1, "single"), 1)
    driver.bound(driver.show(single), single)
    driver.show(*members(a_group(2), 2))
    assert waits_for_room(driver)
    driver.tell(PodGone(single.uid))
    assert names(driver.turn()) == ["g-0", "g-1"]


def test_a_decided_gang_leaves_the_queue_with_one_bind_for_each_member() -> None:
    driver = Driver({"n1": 2})
    assert names(driver.show(*members(a_group(2), 2))) == ["g-0", "g-1"]
    assert not waits_for_room(driver)
    assert gang(driver).shortage is None


def test_a_gang_that_does_not_fit_knows_what_is_missing() -> None:
    driver = Driver({"n1": 2})
    driver.show(*members(a_group(3), 3))
    queue = cycles(driver).queue.queue_of(gang(driver))
    assert queue is not None
    assert queue.shortage is not None
    assert (queue.shortage.fitting, [count for _, count in queue.shortage.lacking]) == (2, [1])


def test_members_that_ask_for_cards_wait_until_the_inventory_is_read() -> None:
    driver = Driver({})
    driver.machine.synced.inventory = False
    driver.tell(NodeSeen(a_node("n1")))
    driver.show(*members(a_group(2), 2))
    queue = cycles(driver).queue.queue_of(gang(driver))
    assert queue is not None
    assert queue.shortage is None
    driver.tell(InventoryRead(((NodeName("n1"), some_gpus("n1", 2)),)))
    assert names(driver.turn()) == ["g-0", "g-1"]


def test_an_attempt_counts_for_every_waiting_member() -> None:
    driver = Driver({"n1": 1})
    pods = members(a_group(2), 3)
    driver.show(*pods)
    assert [driver.machine.records[pod.uid].attempts for pod in pods] == [1, 1, 1]


def test_changed_members_are_a_new_composition_and_are_tried_at_once() -> None:
    driver = Driver({"n1": 1})
    pods = members(a_group(2), 2, whole(1))
    driver.show(*pods)
    assert waits_for_room(driver)
    smaller = members(a_group(2), 2, a_claim(500))
    changed = [replace(pod, shape=new.shape) for pod, new in zip(pods, smaller, strict=True)]
    assert names(driver.show(*changed)) == ["g-0", "g-1"]
