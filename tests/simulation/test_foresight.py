"""Capacity and deadlines, each compared with a plainer way; nodes, volumes and claims supposed."""

from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest

from kubeshare_py.domain.cluster_objects import GroupApi, GroupReference, PodGroupObject
from kubeshare_py.domain.events import (
    InventoryRead,
    NodeSeen,
    PodGone,
    PodGroupSeen,
    PodGroupsListed,
    PodSeen,
)
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.values import replace
from kubeshare_py.simulation.cluster import SimulatedCluster
from kubeshare_py.simulation.foresight import (
    Deadline,
    ImpossibleSupposition,
    KnownEnds,
    NewPod,
    Supposition,
    capacity,
    what_if,
    when,
)
from tests.making import FREE, PREEMPTION, Driver, a_gpu, a_group, a_machine, a_share, members
from tests.scale import seeds
from tests.simulation.test_cluster import GoesOn, copied, some_pods

BOARDS = {"n1": 2, "n2": 1, "n3": 3}


def filled(seed: int, pods: int = 6) -> Driver:
    """A cluster that goes on, with some pods."""
    driver = Driver(BOARDS, PREEMPTION)
    GoesOn(driver).create(some_pods(seed, "old-", pods))
    return driver


def cluster_of(driver: Driver) -> SimulatedCluster:
    return copied(driver.machine, driver.now, a_machine(PREEMPTION))


def alone(*pods: Pod) -> tuple[NewPod, ...]:
    return tuple(NewPod(pod, pod.key.name) for pod in pods)


@pytest.mark.parametrize("seed", seeds(60))
def test_as_many_fit_as_come_one_by_one(seed: int) -> None:
    driver, milli = filled(seed), 100 + seed % 7 * 100
    view = capacity(cluster_of(driver), lambda number: alone(a_share(f"new-{number}", milli)))
    for number in count():
        bound = driver.show(a_share(f"more-{number}", milli, preempts=False))
        if not bound:
            break
        driver.bound(bound)
    assert view.more == number
    assert sum(one.count for one in view.nodes) == number
    assert view.scarce[0].reason == "Insufficient GPU"
    assert not view.is_limit


def test_no_pod_is_evicted_to_count_how_many_fit() -> None:
    driver = Driver({"n1": 1}, PREEMPTION)
    driver.fill(a_share("old", 600))
    cluster = cluster_of(driver)
    view = capacity(cluster, lambda number: alone(a_share(f"u-{number}", 200, priority=9)))
    assert (view.more, cluster.evicted) == (2, [])


@pytest.mark.parametrize("by_object", [False, True])
def test_gangs_are_counted_whole(by_object: bool) -> None:
    driver = Driver({"n1": 5}, PREEMPTION)
    group = PodGroupObject(api=GroupApi.COSCHEDULING, namespace="default", name="g", min_member=2)
    driver.tell(PodGroupsListed(GroupApi.COSCHEDULING, ()))
    named: dict[str, Any] = {"group": a_group(2)}
    if by_object:
        named = {"group_reference": GroupReference(GroupApi.COSCHEDULING, "g")}

    def make(number: int) -> Sequence[NewPod]:
        return alone(*(a_share(f"g-{number}-{one}", 1000, **named) for one in range(2)))

    view = capacity(cluster_of(driver), make, [PodGroupSeen(group)] if by_object else [])
    assert (view.more, view.pods_each) == (2, 2)
    assert [(one.name, one.count) for one in view.nodes] == [("n1", 4)]


@pytest.mark.parametrize("seed", seeds(60))
def test_a_pod_is_placed_by_the_first_end_that_makes_room(seed: int) -> None:
    driver = filled(seed, pods=9)
    late = a_share("late", 1000, preempts=False)
    running = [uid for uid, one in driver.machine.records.items() if one.node is not None]
    ends = {uid: float(100 + (at * 7 + seed) % 11 * 10) for at, uid in enumerate(running)}
    driver.show(late)
    known = KnownEnds(
        at=lambda in_s: f"{in_s:.0f}",
        deadlines={uid: Deadline(in_s=at, by="a deadline") for uid, at in ends.items()},
    )
    view = when(cluster_of(driver), late.key, known)
    if driver.machine.records[late.uid].node is not None:
        assert view.state == "placed"
        return
    gone = []
    for uid in sorted(ends, key=lambda one: (ends[one], one)):
        gone.append(uid)
        again = cluster_of(driver)
        again.tell([PodGone(one, stopped=True) for one in gone])
        again.settle()
        if again.machine.records[late.uid].node is not None:
            break
    assert (view.state, view.at) == ("by", f"{ends[gone[-1]]:.0f}")
    assert {one.name for one in view.ends} <= {uid.removeprefix("uid-") for uid in gone}
    assert view.ends


def test_without_deadlines_it_is_said_what_the_pod_waits_for() -> None:
    driver = Driver({"n1": 1}, PREEMPTION)
    driver.fill(a_share("a", 600), a_share("b", 300))
    driver.show(a_share("late", 800))
    ends = KnownEnds(at=str, deadlines={PodUid("uid-b"): Deadline(in_s=5.0, by="x")})
    view = when(cluster_of(driver), PodKey("default", "late"), ends)
    assert (view.state, view.with_deadline, view.without_deadline) == ("unknown", 1, 1)
    assert "Insufficient GPU" in view.message
    with pytest.raises(ImpossibleSupposition, match="no pod default/x"):
        when(cluster_of(driver), PodKey("default", "x"), ends)


def test_new_nodes_are_like_the_one_and_empty() -> None:
    driver = Driver({"n1": 2}, PREEMPTION)
    driver.fill(a_share("a", 1000), a_share("b", 1000))
    node = driver.machine.ledger.columns.nodes[0]
    assert node is not None
    driver.tell(NodeSeen(replace(node, labels={"kubernetes.io/hostname": "n1", "zone": "z"})))
    cluster = cluster_of(driver)
    pods = alone(*(a_share(f"c-{number}", 1000) for number in range(5)))
    view = what_if(cluster, Supposition(added=2, like=NodeName("n1"), pods=pods))
    assert [one.node for one in view.pods if one.outcome == "placed"] == [
        *["n1-like-1"] * 2,
        *["n1-like-2"] * 2,
    ]
    assert len({card.uuid for one in view.pods for card in one.cards}) == 4
    assert view.changes == ("2 nodes are added, like n1",)
    columns = cluster.machine.ledger.columns
    added = columns.nodes[columns.row_of[NodeName("n1-like-2")]]
    assert added is not None
    assert added.labels == {"kubernetes.io/hostname": "n1-like-2", "zone": "z"}


def test_the_parts_of_a_card_in_mig_mode_are_as_many_on_a_new_node() -> None:
    driver = Driver({"n1": 1}, PREEMPTION)
    card = GpuUuid("GPU-6b5a1d3e-93a1-4fd2-8e0c-6c9d2f1b7a55")
    # As drivers before R470 name them, and as newer ones do.
    parts = (*(f"MIG-{card}/{number}/0" for number in range(1, 4)), "MIG-0", "MIG-1")
    gpus = tuple(a_gpu(uuid, index=at, parent=card) for at, uuid in enumerate(parts))
    driver.tell(InventoryRead(((NodeName("n1"), gpus),)))
    pods = alone(*(a_share(f"c-{number}", 1000) for number in range(11)))
    view = what_if(
        cluster_of(driver),
        Supposition(cordoned=(NodeName("n1"),), added=1, like=NodeName("n1"), pods=pods),
    )
    placed = [one for one in view.pods if one.outcome == "placed"]
    assert [one.node for one in placed] == ["n1-like-1"] * 5
    assert len({held.uuid for one in placed for held in one.cards}) == 5


def test_new_nodes_take_no_name_that_a_node_has() -> None:
    driver = Driver({"n1": 1, "n1-like-2": 1}, PREEMPTION)
    given = Supposition(added=3, like=NodeName("n1"))
    cluster = cluster_of(driver)
    what_if(cluster, given)
    names = {f"n1-like-{number}" for number in range(1, 5)}
    assert set(cluster.machine.ledger.columns.row_of) == {"n1", *names}


def test_what_cannot_be_supposed_is_named() -> None:
    driver = Driver({"n1": 1}, PREEMPTION)
    for given, said in (
        (Supposition(cordoned=(NodeName("n9"),)), "no node n9"),
        (Supposition(added=1, like=NodeName("n9")), "no node n9"),
        (Supposition(without=(PodKey("default", "x"),)), "no pod default/x"),
    ):
        with pytest.raises(ImpossibleSupposition, match=said):
            what_if(cluster_of(driver), given)


def test_pods_take_their_turns_at_the_lock_of_a_node() -> None:
    driver = Driver({"n1": 1}, PREEMPTION, locks=(FREE,))
    pods = alone(*(a_share(f"a-{number}", 300) for number in range(3)))
    view = what_if(cluster_of(driver), Supposition(pods=pods))
    assert [one.outcome for one in view.pods] == ["placed"] * 3
    assert [one.message for one in view.pods] == [""] * 3


def test_a_pod_of_a_gang_that_is_too_small_waits_with_its_reason() -> None:
    driver = Driver({"n1": 2}, PREEMPTION)
    pods = alone(*members(a_group(3, headcount=4), 2))
    view = what_if(cluster_of(driver), Supposition(pods=pods))
    assert {one.outcome for one in view.pods} == {"waits"}
    assert all(one.message for one in view.pods)


def test_pods_that_wait_anyhow_are_apart_from_those_that_would_start() -> None:
    driver = Driver({"n1": 1}, PREEMPTION)
    driver.fill(a_share("old", 1000))
    driver.show(a_share("first", 600), a_share("second", 600))
    view = what_if(cluster_of(driver), Supposition(without=(PodKey("default", "old"),)))
    assert ([one.name for one in view.started], view.still_waiting) == (["first"], 1)
    cluster = cluster_of(driver)
    cluster.tell([PodGone(PodUid("uid-old"), stopped=True)])
    cluster.tell([PodSeen(a_share("third", 300))])
    view = what_if(cluster, Supposition())
    assert {one.name for one in view.soon} == {"first", "third"}
