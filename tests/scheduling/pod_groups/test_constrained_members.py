"""A later member that must be where its gang is waits for room there, and for nothing else."""

import pytest

from kubeshare_py.domain.events import InventoryRead, NodeSeen, PodSeen
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.values import replace
from tests.making import (
    PREEMPTION,
    Driver,
    a_claim,
    a_cluster,
    a_group,
    a_machine,
    a_node,
    a_share,
    members,
    names,
    some_gpus,
)
from tests.scheduling.pod_groups.test_gang_places import ZONE, cluster, nodes_of
from tests.scheduling.pod_groups.test_gang_within import within

TOLD = f"no room where its group must be: in one {ZONE}"


def tied(count: int, milli: int = 1000, name: str = "g") -> list[Pod]:
    """Members that go one by one, to one zone."""
    return members(replace(a_group(1, name, 9), within=ZONE), count, a_claim(milli))


def two_zones(driver: Driver, *cards: int) -> None:
    """Zones a and b, with so many cards each."""
    driver.tell(*a_cluster({}))
    for zone, count in zip("ab", cards, strict=True):
        driver.tell(NodeSeen(a_node(f"{zone}1", labels={ZONE: zone})))
        driver.tell(InventoryRead(((NodeName(f"{zone}1"), some_gpus(f"{zone}1", count)),)))


def full(driver: Driver) -> list[Pod]:
    """Two members fill zone a; a third, of a headcount of nine, is kept out though b has room."""
    pods = within(ZONE, 2, 2, headcount=9)
    driver.bound(driver.show(*pods), *pods)
    assert driver.show(*within(ZONE, 2, 1, start=2, headcount=9)) == []
    assert driver.told["g-2"] == TOLD
    return pods


@pytest.fixture
def driver() -> Driver:
    """Zone a with two cards, zone b with four."""
    return cluster({"a1": ("a", "", 2), "b1": ("b", "", 4)})


def test_room_in_its_place_is_its_at_once(driver: Driver) -> None:
    pods = full(driver)
    assert nodes_of(driver.gone(pods[0])) == {"a1"}


def test_so_is_a_new_node_there(driver: Driver) -> None:
    full(driver)
    driver.tell(NodeSeen(a_node("a2", labels={ZONE: "a"})))
    driver.tell(InventoryRead(((NodeName("a2"), some_gpus("a2", 1)),)))
    assert nodes_of(driver.turn()) == {"a2"}


def test_it_is_not_tried_because_of_room_elsewhere(driver: Driver) -> None:
    full(driver)
    other = a_share("other")
    driver.bound(driver.show(other), other)
    record = driver.machine.records[within(ZONE, 2, 3)[2].uid]
    before = record.attempts
    assert driver.gone(other) == []
    assert driver.later(30) == []
    assert record.attempts == before


def test_those_of_its_shape_are_not_kept_out_with_it(driver: Driver) -> None:
    full(driver)
    assert nodes_of(driver.show(a_share("other"))) == {"b1"}
    assert names(driver.show(*tied(1, name="h"))) == ["h-0"]


def test_all_that_are_kept_out_are_told_and_served_in_their_order(driver: Driver) -> None:
    pods = full(driver)
    assert driver.show(*within(ZONE, 2, 2, start=3, headcount=9)) == []
    assert [driver.told[f"g-{number}"] for number in (2, 3, 4)] == [TOLD] * 3
    assert names(driver.gone(pods[0])) == ["g-2"]
    assert names(driver.gone(pods[1])) == ["g-3"]


def test_room_elsewhere_is_no_news_for_who_fitted_nowhere(driver: Driver) -> None:
    fillers = [a_share(f"s{n}") for n in range(5)]
    driver.bound(driver.show(*fillers), *fillers)
    (first,) = binds = driver.show(*tied(1))
    driver.bound(binds)
    assert driver.show(*tied(2)[1:]) == []
    assert driver.told["g-1"].startswith("0/2 nodes are available")
    elsewhere = [one for one in fillers if driver.machine.records[one.uid].node != first.node]
    assert driver.gone(elsewhere[0]) == []
    assert driver.told["g-1"].startswith("0/2 nodes are available"), "it was not tried"
    assert driver.show(*tied(3)[2:]) == []
    assert {driver.told[f"g-{number}"] for number in (1, 2)} == {driver.told["g-1"]}


def test_where_its_gang_leaves_it_may_go_anywhere() -> None:
    driver = cluster({"a1": ("a", "", 1), "b1": ("b", "", 1)})
    pods = tied(2)
    (first,) = binds = driver.show(*pods)
    driver.bound(binds, *pods)
    assert driver.told["g-1"] == TOLD
    bound = driver.machine.records[first.uid].pod
    driver.tell(PodSeen(replace(bound, deleting=True)))
    assert nodes_of(driver.turn()) == {"a1", "b1"} - {str(first.node)}


def test_where_its_gang_leaves_while_nothing_fits_it_waits_for_room_anywhere() -> None:
    driver = cluster({"a1": ("a", "", 1), "b1": ("b", "", 1)})
    filler = a_share("s")
    driver.bound(driver.show(filler), filler)
    pods = tied(2)
    binds = driver.show(*pods)
    driver.bound(binds, *pods)
    bound = driver.machine.records[binds[0].uid].pod
    driver.tell(PodSeen(replace(bound, deleting=True)))
    assert driver.turn() == []
    assert names(driver.gone(filler)) == ["g-1"]


def test_where_labels_of_nodes_change_its_place_is_another_one(driver: Driver) -> None:
    full(driver)
    driver.tell(NodeSeen(a_node("a1", labels={ZONE: "b"})))
    assert nodes_of(driver.turn()) == {"b1"}


def test_nothing_is_left_of_it(driver: Driver) -> None:
    pods = full(driver)
    driver.gone(*within(ZONE, 2, 3, headcount=9), *pods)
    assert list(driver.machine.queue.queues()) == []
    other = a_share("other")
    assert names(driver.show(other)) == ["other"]


def test_it_gets_reservations_where_it_must_be() -> None:
    driver = Driver({})
    driver.machine = a_machine(reservation_after_s=60)
    two_zones(driver, 2, 4)
    full(driver)
    driver.later(60)
    assert [charge.node for charge in driver.machine.ledger.reservations.values()] == ["a1"]


def test_it_evicts_nobody_in_vain() -> None:
    driver = Driver({}, PREEMPTION)
    two_zones(driver, 2, 2)
    pods = [replace(pod, priority=9) for pod in within(ZONE, 2, 3, headcount=3)]
    driver.fill(*pods[:2])
    driver.fill(*(a_share(f"s{n}") for n in range(2)))
    driver.show(pods[2])
    assert driver.evicted == []
