"""Gangs that a PodGroup object describes, whenever it comes, changes or goes."""

from typing import Any

from kubeshare_py.domain.cluster_objects import GroupApi, GroupReference, PodGroupObject
from kubeshare_py.domain.events import (
    BindAnswered,
    Bound,
    FinishedMember,
    PodGone,
    PodGroupGone,
    PodGroupSeen,
    PodGroupsListed,
    PodSeen,
    PodsListed,
)
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.values import replace
from tests.making import Driver, a_claim, a_cluster, a_pod, a_shape, names

X = GroupApi.COSCHEDULING
MISSING = 'PodGroup "g" of scheduling.x-k8s.io is not there'


def an_object(minimum: int, name: str = "g", **fields: Any) -> PodGroupObject:
    given: dict[str, Any] = {"api": X, "namespace": "default", **fields}
    return PodGroupObject(name=name, min_member=minimum, **given)


def members(count: int, start: int = 0, **fields: Any) -> list[Pod]:
    """Pods that name the group."""
    shape, reference = a_shape(a_claim(1000)), GroupReference(X, "g")
    numbers = range(start, start + count)
    return [a_pod(f"g-{n}", shape, group_reference=reference, **fields) for n in numbers]


def listed(*objects: PodGroupObject, trouble: str = "") -> PodGroupsListed:
    return PodGroupsListed(X, objects, trouble)


def driver_with(cards: int, *objects: PodGroupObject) -> Driver:
    driver = Driver({"n1": cards})
    driver.tell(listed(*objects))
    return driver


def wait(driver: Driver, *pods: Pod) -> None:
    """They come, and none is placed."""
    for effect in driver.tell(*(PodSeen(pod) for pod in pods)):
        driver.told[effect.key.name] = effect.diagnosis.message  # type: ignore[union-attr]
    assert driver.turn() == []


def test_so_many_start_together_as_the_object_says() -> None:
    driver = driver_with(4, an_object(3))
    pods = members(3)
    wait(driver, *pods[:2])
    driver.later(2)
    assert driver.told["g-0"] == 'pod group "g" needs 3 pods to start together; there are 2'
    binds = driver.show(pods[2])
    assert names(binds) == ["g-0", "g-1", "g-2"]
    held = binds[0].allocation
    assert (held.group, held.min_available) == ("scheduling.x-k8s.io/g", 3)


def test_pods_may_come_before_their_object() -> None:
    driver = driver_with(4)
    wait(driver, *members(3))
    assert driver.told == dict.fromkeys(["g-0", "g-1", "g-2"], MISSING)
    driver.tell(PodGroupSeen(an_object(3)))
    assert len(driver.turn()) == 3


def test_nobody_is_told_anything_before_the_api_was_heard() -> None:
    driver = Driver({"n1": 4})
    wait(driver, *members(3))
    assert driver.told == {}
    driver.tell(listed(an_object(3)))
    assert len(driver.turn()) == 3


def test_an_api_that_is_not_there_is_named() -> None:
    driver = Driver({"n1": 4})
    driver.tell(listed(trouble="is not installed"))
    wait(driver, *members(2))
    assert driver.told["g-1"] == f"{MISSING}: its API is not installed"
    driver.tell(listed(an_object(2)))
    assert len(driver.turn()) == 2


def test_what_was_known_of_an_api_stays_while_it_cannot_be_read() -> None:
    driver = driver_with(4, an_object(2))
    driver.tell(PodGroupsListed(X, None, "may not be read"))
    assert len(driver.show(*members(2))) == 2


def test_an_unreadable_object_of_a_list_stays_as_it_was() -> None:
    driver = driver_with(4, an_object(2))
    driver.tell(PodGroupsListed(X, (), unreadable=frozenset({("default", "g"), ("new", "g")})))
    assert len(driver.show(*members(2))) == 2


def test_an_object_of_another_namespace_or_api_describes_nothing_here() -> None:
    other_api = an_object(2, api=GroupApi.KUBERNETES)
    driver = driver_with(4, an_object(2, namespace="other"), other_api)
    wait(driver, *members(2))
    assert driver.told["g-0"] == MISSING


def test_what_is_not_supported_of_an_object_holds_its_pods() -> None:
    driver = driver_with(4, an_object(2, unsupported=("spec.resourceClaims",)))
    wait(driver, *members(2))
    assert driver.told["g-0"] == (
        'PodGroup "g" of scheduling.x-k8s.io: not supported yet: spec.resourceClaims'
    )
    driver.tell(PodGroupSeen(an_object(2)))
    assert len(driver.turn()) == 2


def test_a_minimum_of_one_lets_each_go_for_itself() -> None:
    driver = driver_with(4, an_object(1))
    assert names(driver.show(*members(1))) == ["g-0"]


def test_a_lowered_minimum_counts_at_once() -> None:
    driver = driver_with(4, an_object(3))
    wait(driver, *members(2))
    driver.tell(PodGroupSeen(an_object(2)))
    assert len(driver.turn()) == 2


def test_a_raised_minimum_counts_at_once() -> None:
    driver = driver_with(1, an_object(2))
    wait(driver, *members(2))
    driver.tell(PodGroupSeen(an_object(3)), *a_cluster({"n1": 4}))
    driver.tell(*(PodSeen(pod) for pod in members(2)))
    assert driver.turn() == []
    assert len(driver.show(*members(1, start=2))) == 3


def test_a_minimum_lowered_to_what_is_bound_ends_a_repair() -> None:
    driver = driver_with(3, an_object(3))
    pods = members(3)
    binds = driver.show(*pods)
    driver.bound(binds[:2], *pods)
    driver.gone(pods[2])
    driver.tell(PodGroupSeen(an_object(2)))
    driver.later(300)
    assert driver.evicted == []


def test_when_the_object_is_deleted_who_waits_is_held_and_who_runs_stays() -> None:
    driver = driver_with(3, an_object(2))
    pods = members(2)
    driver.bound(driver.show(*pods), *pods)
    driver.tell(PodGroupGone(X, "default", "g"))
    wait(driver, *members(1, start=2))
    assert driver.told["g-2"] == MISSING
    driver.later(300)
    assert driver.evicted == []
    driver.tell(PodGroupSeen(an_object(2)))
    assert names(driver.turn()) == ["g-2"]


def test_when_the_object_goes_before_the_start_nobody_starts() -> None:
    driver = driver_with(1, an_object(2))
    wait(driver, *members(2))
    for effect in driver.tell(listed()):
        driver.told[effect.key.name] = effect.diagnosis.message  # type: ignore[union-attr]
    assert driver.told["g-0"] == MISSING
    driver.tell(*a_cluster({"n1": 4})[1:])
    assert driver.turn() == []


def test_a_pod_that_comes_back_under_its_name_is_another_member() -> None:
    driver = driver_with(4, an_object(2))
    [first] = members(1)
    wait(driver, first)
    again = replace(first, uid=type(first.uid)("uid-again"))
    driver.gone(first)
    wait(driver, again)
    driver.later(2)
    assert driver.told["g-0"].endswith("there is 1")
    assert len(driver.show(*members(1, start=1))) == 2


def test_a_restart_before_the_objects_are_heard_ends_with_the_whole_gang() -> None:
    driver = driver_with(3, an_object(3))
    pods = members(3)
    first, *_ = driver.show(*pods)
    seen = replace(pods[0], node_name=first.node, allocation=first.allocation)
    driver.machine = Driver({}).machine
    _, nodes, cards = a_cluster({"n1": 3})
    driver.tell(PodsListed((seen, *pods[1:]), driver.now), nodes, cards)
    assert driver.turn() == []
    driver.tell(listed(an_object(3)))
    binds = driver.turn()
    assert names(binds) == ["g-1", "g-2"]


def test_a_restart_in_the_middle_of_a_start_is_not_taken_for_a_gang_that_ran() -> None:
    driver = driver_with(3, an_object(3))
    pods = members(3)
    first, *_ = driver.show(*pods)
    seen = replace(pods[0], node_name=first.node, allocation=first.allocation)
    driver.machine = Driver({}).machine
    _, nodes, cards = a_cluster({"n1": 2})
    # Two more are needed, and there is room for one: it must not start alone.
    driver.tell(PodsListed((seen, *pods[1:]), driver.now), nodes, cards, listed(an_object(3)))
    assert driver.turn() == []
    driver.later(61)
    assert driver.evicted == ["g-0"]


def test_finished_members_of_a_described_gang_count() -> None:
    driver = driver_with(2, an_object(2))
    done = FinishedMember(
        uid=a_pod("d").uid,
        namespace="default",
        group="scheduling.x-k8s.io/g",
        owner="job",
        succeeded=True,
    )
    driver.tell(PodGone(done.uid, done, stopped=True))
    # A list in which it cannot be decoded changes nothing.
    driver.tell(PodsListed((), driver.now, unreadable=frozenset({done.uid})))
    pods = members(2, owner="job")
    binds = driver.show(pods[0])
    assert names(binds) == ["g-0"]
    driver.tell(BindAnswered(binds[0].uid, binds[0].allocation.token, Bound()))


def test_a_placement_that_was_never_stored_is_tried_again_as_a_member() -> None:
    driver = driver_with(2, an_object(2))
    pods = members(2)
    for bind in driver.show(*pods):
        driver.answer(bind, Bound())
    driver.now += 1
    driver.tell(PodsListed(tuple(pods), driver.now))
    again = driver.later(30)
    assert [bind.allocation.group for bind in again] == ["scheduling.x-k8s.io/g"] * 2
