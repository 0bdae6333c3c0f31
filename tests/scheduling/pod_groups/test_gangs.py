"""Gangs are placed whole or not at all, and told why they wait."""

import pytest

from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.events import (
    BindSlotsFree,
    FinishedMember,
    InventoryRead,
    NodeSeen,
    PodGone,
    PodSeen,
    PodsListed,
)
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import PodGroup
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.pod_groups.gang_cycles import MAX_SHAPES
from tests.making import (
    Driver,
    a_claim,
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


@pytest.mark.parametrize("minimum", [0, 1])
def test_a_minimum_of_one_or_less_lets_each_member_go_alone(minimum: int) -> None:
    driver = Driver({"n1": 1})
    group = PodGroup(name="g", headcount=5, min_available=minimum)
    assert driver.seen(a_share("p", 100, group=group))


def test_nobody_starts_before_enough_members_are_there() -> None:
    driver = Driver({"n1": 4})
    pods = members(a_group(3), 3)
    assert driver.show(*pods[:2]) == []
    assert names(driver.show(pods[2])) == ["g-0", "g-1", "g-2"]


def test_a_gang_that_does_not_fit_takes_nothing() -> None:
    driver = Driver({"n1": 2, "n2": 2})
    assert driver.show(*members(a_group(5), 5)) == []
    single = [a_share(f"s{number}") for number in range(4)]
    assert names(driver.show(*single)) == ["s0", "s1", "s2", "s3"]


def test_a_try_that_fails_improves_nothing() -> None:
    driver = Driver({"n1": 2, "n2": 2})
    improved = driver.machine.ledger.improved.end
    driver.show(*members(a_group(5), 5))
    assert driver.machine.ledger.improved.end == improved
    assert driver.machine.ledger.pods_on(NodeName("n1")) == {}


def test_all_members_are_told_how_many_are_missing() -> None:
    driver = Driver({"n1": 4})
    driver.show(*members(a_group(3), 2))
    driver.later(2)
    text = 'pod group "g" needs 3 pods to start together; there are 2'
    assert driver.told == {"g-0": text, "g-1": text}


def test_a_gang_of_too_many_shapes_is_not_tried_and_told_so() -> None:
    driver = Driver({"n1": 200})
    group = a_group(2, headcount=MAX_SHAPES + 1)
    shapes = [a_shape(a_claim(number + 1)) for number in range(MAX_SHAPES + 1)]
    pods = [a_pod(f"g-{number}", shape, group=group) for number, shape in enumerate(shapes)]
    driver.tell(*(PodSeen(pod) for pod in pods))
    driver.later(10)
    assert {*driver.told.values()} == {
        'pod group "g" needs 2 pods to start together, which differ in 129 ways in what they ask '
        "for and where they may go; at most 128 are tried together"
    }
    assert driver.gone(pods[0])


def test_all_members_are_told_what_there_is_no_room_for() -> None:
    driver = Driver({"n1": 3, "n2": 3})
    driver.show(*(a_share(f"s{number}") for number in range(2)))
    driver.show(*members(a_group(6), 6))
    text = (
        'pod group "g" needs 6 pods to start together; room for 4 of them, none for 2 that ask for '
        "1 GPU each: 0/2 nodes are available: 2 Insufficient GPU."
    )
    assert driver.told == dict.fromkeys([f"g-{number}" for number in range(6)], text)


def test_a_gang_larger_than_the_cluster_is_told_by_how_much() -> None:
    driver = Driver({"n1": 2})
    driver.show(*members(a_group(3), 3, whole(8)))
    assert driver.told["g-1"] == (
        'pod group "g" needs 3 pods to start together; impossible: no node has 8 GPUs: '
        "the largest has 2 (node n1). 0/1 nodes are available: 1 too few GPUs."
    )


def test_a_late_member_is_told_what_the_others_were_told() -> None:
    driver = Driver({"n1": 1})
    pods = members(a_group(2, headcount=3), 3)
    driver.show(*pods[:2])
    driver.later(30)
    driver.show(pods[2])
    assert set(driver.told) == {"g-0", "g-1", "g-2"}


def test_numbers_are_brought_up_to_date_now_and_then() -> None:
    driver = Driver({"n1": 1})
    driver.show(*members(a_group(3), 3))
    driver.tell(NodeSeen(a_node("n2")))
    driver.tell(InventoryRead(((NodeName("n2"), some_gpus("n2", 1)),)))
    driver.turn()
    assert "the cluster has 1." in driver.told["g-0"]
    driver.later(60)
    assert "the cluster has 2." in driver.told["g-0"]


def test_many_gangs_that_want_the_same_are_all_told() -> None:
    driver = Driver({"n1": 1})
    pods = [pod for name in "abcdef" for pod in members(a_group(2, name), 2)]
    driver.show(*pods)
    assert set(driver.told) == {pod.key.name for pod in pods}
    assert driver.told["f-1"].startswith('pod group "f" needs 2 pods')


def test_a_member_that_is_held_back_is_counted_apart() -> None:
    driver = Driver({"n1": 4})
    pods = members(a_group(3), 3)
    driver.show(*pods[:2], replace(pods[2], gates=("wait",)))
    driver.later(2)
    assert driver.told["g-0"].endswith("there are 3, 1 of them held back")
    assert "g-2" not in driver.told
    assert len(driver.show(pods[2])) == 3


def test_one_event_that_makes_room_is_enough() -> None:
    driver = Driver({"n1": 2})
    driver.show(*members(a_group(3), 3))
    driver.tell(NodeSeen(a_node("n2")))
    assert driver.turn() == []
    driver.tell(InventoryRead(((NodeName("n2"), some_gpus("n2", 1)),)))
    assert len(driver.turn()) == 3


def test_interleaved_gangs_do_not_block_each_other() -> None:
    driver = Driver({"n1": 2})
    first, second = members(a_group(2, "a"), 2), members(a_group(2, "b"), 2)
    binds = [
        bind for pod in (first[0], second[0], first[1], second[1]) for bind in driver.show(pod)
    ]
    assert names(binds) == ["a-0", "a-1"]
    driver.bound(binds, *first, *second)
    assert names(driver.gone(*first)) == ["b-0", "b-1"]


def test_the_more_important_gang_goes_first() -> None:
    driver = Driver({"n1": 2})
    driver.tell(*(PodSeen(pod) for pod in members(a_group(2, "low"), 2, created="1")))
    driver.tell(*(PodSeen(pod) for pod in members(a_group(2, "high"), 2, created="2", priority=1)))
    assert names(driver.turn()) == ["high-0", "high-1"]


def test_a_gang_stands_where_the_last_that_it_needs_would_stand() -> None:
    driver = Driver({"n1": 2})
    group = a_group(2, "g")
    urgent, ordinary = members(group, 2, created="1")
    between = a_share("s", created="2", priority=5)
    driver.tell(PodSeen(replace(urgent, priority=9)), PodSeen(ordinary), PodSeen(between))
    assert names(driver.turn()) == ["s"]


def test_a_gang_is_as_old_as_its_first_member() -> None:
    driver = Driver({"n1": 2})
    old, young = members(a_group(2, "g"), 2)
    single = a_share("s", created="2")
    driver.tell(PodSeen(single), PodSeen(replace(young, created="3")))
    driver.tell(PodSeen(replace(old, created="1")))
    assert names(driver.turn()) == ["g-0", "g-1"]


def test_urgent_members_are_the_ones_that_start() -> None:
    driver = Driver({"n1": 2})
    pods = members(a_group(2, headcount=4), 4)
    pods[1] = replace(pods[1], priority=1)
    pods[3] = replace(pods[3], priority=1)
    assert names(driver.show(*pods)) == ["g-1", "g-3"]


def test_members_above_the_minimum_follow_one_by_one() -> None:
    driver = Driver({"n1": 3})
    pods = members(a_group(2, headcount=5), 5)
    assert names(driver.show(*pods)) == ["g-0", "g-1", "g-2"]
    assert driver.told["g-3"] == "0/1 nodes are available: 1 Insufficient GPU."


def test_members_that_fit_make_up_for_those_that_do_not() -> None:
    driver = Driver({"n1": 2})
    group = a_group(2, headcount=3)
    large, *small = members(group, 1, whole(8)) + members(group, 2, start=1)
    assert names(driver.show(large, *small)) == ["g-1", "g-2"]


def test_members_with_little_choice_are_placed_first() -> None:
    driver = Driver({"n1": 1, "n2": 1})
    group = a_group(2)
    anywhere, picky = members(group, 2)
    picky = replace(picky, shape=a_shape(a_claim(1000), cpu=50_000))
    driver.tell(NodeSeen(a_node("n2", cpu=1000)))
    assert len(driver.show(anywhere, picky)) == 2


def test_members_that_fit_one_by_one_but_not_together_take_nothing() -> None:
    driver = Driver({"n1": 2})
    group = a_group(2)
    pods = members(group, 1, whole(2)) + members(group, 1, start=1)
    assert driver.show(*pods) == []
    assert driver.machine.ledger.pods_on(NodeName("n1")) == {}
    assert "they ask for 3 GPUs in all; the cluster has 2." in driver.told["g-0"]
    assert driver.later(120) == []


def test_of_different_minimums_the_largest_counts() -> None:
    driver = Driver({"n1": 4})
    one, two = a_group(2), a_group(3)
    pods = [*members(one, 2), *members(two, 1, start=2)]
    assert driver.show(pods[0], pods[2]) == []
    assert len(driver.show(pods[1])) == 3


def test_a_lowered_minimum_lets_those_go_that_are_there() -> None:
    driver = Driver({"n1": 4})
    pods = members(a_group(3), 2)
    driver.show(*pods)
    assert driver.show(replace(pods[0], group=a_group(2))) == []
    assert len(driver.show(replace(pods[1], group=a_group(2)))) == 2


def test_a_member_that_leaves_before_the_decision_is_not_waited_for() -> None:
    driver = Driver({"n1": 1})
    pods = members(a_group(2), 2)
    driver.show(*pods)
    driver.gone(pods[1])
    driver.later(2)
    assert driver.told["g-0"].endswith("there is 1")


def test_groups_of_two_namespaces_are_two() -> None:
    driver = Driver({"n1": 4})
    here, there = members(a_group(2), 2)
    key = replace(there.key, namespace="other")
    assert driver.show(here, replace(there, key=key)) == []


def test_a_gang_larger_than_the_slots_has_a_turn_of_its_own() -> None:
    driver = Driver({"n1": 8, "n2": 8})
    driver.tell(PodSeen(a_pod("s", a_shape(), priority=1)))
    driver.tell(*(PodSeen(pod) for pod in members(a_group(9), 9)))
    slots = [
        [e.key.name for e in driver.tell(BindSlotsFree(4)) if isinstance(e, Bind)] for _ in range(2)
    ]
    assert [len(binds) for binds in slots] == [1, 9]


def test_gangs_wait_for_the_inventory_as_others_do() -> None:
    driver = Driver({})
    driver.machine.synced.inventory = False
    driver.tell(NodeSeen(a_node("n1")))
    driver.show(*members(a_group(2), 2))
    driver.later(5)
    assert driver.told["g-0"] == "GPU inventory not read yet"
    driver.tell(InventoryRead(((NodeName("n1"), some_gpus("n1", 2)),)))
    assert len(driver.turn()) == 2


def test_a_member_in_a_pause_between_edits_counts_with_the_minimum_that_it_asks_for() -> None:
    driver = Driver({"n1": 3})
    first, *others = members(a_group(2, headcount=4), 3)
    driver.show(first)
    for minimum in (4, 3):
        group = PodGroup(name="g", headcount=4, min_available=minimum)
        driver.show(replace(first, group=group))
    assert driver.show(*others) == []
    assert names(driver.later(20)) == ["g-0", "g-1", "g-2"]


def test_a_gang_is_not_as_old_as_another_of_its_name_that_is_gone() -> None:
    driver = Driver({"n1": 2})
    [old] = members(a_group(2), 1, created="000000")
    driver.tell(PodSeen(old), PodGone(old.uid))
    gang = members(a_group(2), 2, start=1, created="000002")
    singles = [a_share(f"s{number}", created="000001") for number in range(2)]
    assert names(driver.show(*gang, *singles)) == ["s0", "s1"]


@pytest.mark.parametrize("in_a_list", [False, True])
def test_a_gang_is_as_old_as_a_member_whose_work_is_done(in_a_list: bool) -> None:
    driver = Driver({"n1": 2})
    [old] = members(a_group(1), 1, created="000000", owner="job")
    driver.bound(driver.show(old), old)
    done = FinishedMember(uid=old.uid, namespace="default", group="g", owner="job", succeeded=True)
    over = PodsListed((), driver.now, finished=(done,)) if in_a_list else PodGone(old.uid, done)
    driver.tell(over)
    gang = members(a_group(2), 2, start=1, created="000002", owner="job")
    singles = [a_share(f"s{number}", created="000001") for number in range(2)]
    assert names(driver.show(*gang, *singles)) == ["g-1", "g-2"]
