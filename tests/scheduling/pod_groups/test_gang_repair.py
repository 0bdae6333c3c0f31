"""A gang of which a part is bound becomes whole, or is given up after its time."""

from kubeshare_py.domain.effects import Bind, ReportWaiting
from kubeshare_py.domain.events import (
    BindRefused,
    BindUnknown,
    Bound,
    FinishedMember,
    NodeSeen,
    PodGone,
    PodSeen,
    PodsListed,
    Refusal,
)
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.pod_groups.gang_repair import RepairRules
from tests.making import (
    Driver,
    a_cluster,
    a_group,
    a_node,
    a_pod,
    a_shape,
    a_share,
    members,
    names,
    of,
)

INVALID = BindRefused(Refusal.INVALID, "webhook said no")


def started(driver: Driver, minimum: int = 3, count: int = 3) -> list[Pod]:
    """A gang that runs."""
    pods = members(a_group(minimum, headcount=count), count)
    driver.bound(driver.show(*pods), *pods)
    return pods


def test_a_refused_member_is_sent_again_to_the_same_place() -> None:
    driver = Driver({"n1": 3})
    pods = members(a_group(3), 3)
    first, *others = driver.show(*pods)
    driver.answer(first, INVALID)
    driver.bound(others, *pods)
    assert driver.later(1) == [first]
    driver.answer(first, Bound())
    assert driver.later(300) == []
    assert driver.evicted == []


def test_a_gang_that_the_last_answers_completed_is_not_late() -> None:
    driver = Driver({"n1": 3})
    first, *others = driver.show(*members(a_group(2, headcount=3), 3))
    driver.answer(first, INVALID)
    driver.now += 61
    for bind in others:
        driver.answer(bind, Bound())
    assert driver.later(0) == [first]


def test_a_refused_member_gives_its_place_back_once_others_completed_its_gang() -> None:
    driver = Driver({"n1": 3})
    *others, last = driver.show(*members(a_group(2, headcount=3), 3))
    for bind in others:
        driver.answer(bind, Bound())
    driver.answer(last, INVALID)  # in the same turn
    [single] = driver.show(a_share("single"))
    assert single.allocation.cards == last.allocation.cards


def test_a_member_that_stays_refused_is_planned_anew_and_then_the_rest_is_given_up() -> None:
    driver = Driver({"n1": 3})
    pods = members(a_group(3), 3)
    first, *others = driver.show(*pods)
    driver.bound(others, *pods)
    tokens = set()
    while driver.now < 119:
        for bind in [first, *driver.later(1)]:
            tokens.add(bind.allocation.token)
            driver.answer(bind, INVALID)
    assert len(tokens) == 2
    assert driver.evicted == []
    driver.later(2)
    assert driver.evicted == ["g-1", "g-2"]


def test_members_that_stay_after_they_were_given_up_are_deleted_again() -> None:
    driver = Driver({"n1": 3})
    pods = members(a_group(3), 3)
    binds = driver.show(*pods)
    driver.bound(binds[:2], *pods)
    driver.gone(pods[2])
    driver.later(60)
    assert driver.evicted == ["g-0", "g-1"]
    driver.later(60)
    assert driver.evicted == ["g-0", "g-1"] * 2
    driver.gone(*pods)
    driver.later(300)
    assert len(driver.evicted) == 4


def test_instead_of_being_deleted_members_may_only_be_reported() -> None:
    driver = Driver({"n1": 3}, rules=RepairRules(after_s=10, release=False))
    pods = members(a_group(3), 3)
    binds = driver.show(*pods)
    driver.bound(binds[:2], *pods)
    driver.gone(pods[2])
    driver.later(300)
    assert (driver.evicted, driver.troubles) == ([], ["g-0", "g-1"])
    late = members(a_group(3), 1, start=3)
    assert names(driver.show(*late)) == ["g-3"]


def test_a_member_that_was_deleted_while_it_was_bound_is_replaced_alone() -> None:
    driver = Driver({"n1": 3})
    pods = members(a_group(3), 3)
    binds = driver.show(*pods)
    driver.bound(binds[:2], *pods)
    driver.gone(pods[2])
    assert names(driver.show(*members(a_group(3), 1, start=3))) == ["g-3"]


def test_a_dead_member_is_replaced_without_the_quorum_again() -> None:
    driver = Driver({"n1": 3})
    pods = started(driver)
    driver.gone(pods[0])
    driver.show(a_share("s", 500))
    assert driver.show(*members(a_group(3), 1, start=3)) == []
    assert driver.told["g-3"] == "0/1 nodes are available: 1 Insufficient GPU."
    assert driver.later(600) == []
    assert driver.evicted == []
    driver.gone(a_pod("s"))
    assert driver.machine.ledger.charge_of(a_pod("g-3").uid) is not None


def test_when_all_members_are_dead_the_quorum_is_needed_again() -> None:
    driver = Driver({"n1": 3})
    driver.gone(*started(driver))
    fresh = members(a_group(3), 3, start=3)
    assert driver.show(*fresh[:2]) == []
    assert len(driver.show(fresh[2])) == 3


def over(pod: Pod, succeeded: bool = True) -> PodGone:
    member = FinishedMember(
        uid=pod.uid, namespace="default", group="g", owner=pod.owner, succeeded=succeeded
    )
    return PodGone(pod.uid, member)


def test_members_that_did_their_work_count() -> None:
    driver = Driver({"n1": 3})
    pods = members(a_group(3), 3, owner="job")
    driver.bound(driver.show(*pods), *pods)
    driver.tell(over(pods[0]), over(pods[1]), over(pods[2], succeeded=False))
    assert driver.turn() == []
    again = members(a_group(3), 1, start=3, owner="job")
    assert names(driver.show(*again)) == ["g-3"]
    driver.later(300)
    assert driver.evicted == []


def test_work_that_an_earlier_run_did_does_not_count() -> None:
    driver = Driver({"n1": 3})
    pods = members(a_group(3), 3, owner="job-1")
    driver.bound(driver.show(*pods), *pods)
    driver.tell(*(over(pod) for pod in pods))
    again = members(a_group(3), 3, start=3, owner="job-2")
    assert driver.show(*again[:2]) == []
    assert len(driver.show(again[2])) == 3


def restarted(driver: Driver, *pods: Pod, finished: tuple[FinishedMember, ...] = ()) -> None:
    """Another scheduler is told what the API server knows."""
    fresh = Driver({})
    driver.machine = fresh.machine
    _, nodes, cards = a_cluster({"n1": 3})
    driver.tell(PodsListed(pods, driver.now, finished=finished), nodes, cards)


def seen_bound(pod: Pod, bind: Bind) -> Pod:
    return replace(pod, node_name=bind.node, allocation=bind.allocation)


def test_a_restart_in_the_middle_of_binding_ends_with_the_whole_gang() -> None:
    driver = Driver({"n1": 3})
    pods = members(a_group(3), 3)
    first, *_ = driver.show(*pods)
    restarted(driver, seen_bound(pods[0], first), *pods[1:])
    binds = driver.turn()
    assert names(binds) == ["g-1", "g-2"]
    driver.bound(binds, *pods)
    driver.later(300)
    assert driver.evicted == []


def test_what_a_restart_left_half_bound_is_given_up_if_the_rest_does_not_fit() -> None:
    driver = Driver({"n1": 3})
    pods = members(a_group(3), 3)
    first, *_ = driver.show(*pods)
    other = a_share("s", scheduler_name="other", node_name="n1")
    native = replace(other, shape=a_shape(resources=(("nvidia.com/gpu", 1),)))
    restarted(driver, seen_bound(pods[0], first), *pods[1:], native)
    assert driver.turn() == []
    assert driver.told["g-1"].startswith('pod group "g" needs 2 more pods to start together; ')
    driver.later(59)
    assert driver.evicted == []
    driver.later(1)
    assert driver.evicted == ["g-0"]


def test_a_gang_that_ran_before_a_restart_is_not_given_up() -> None:
    driver = Driver({"n1": 3})
    pods = members(a_group(3), 3)
    binds = driver.show(*pods)
    dead = FinishedMember(uid=pods[2].uid, namespace="default", group="g")
    running = [seen_bound(pod, bind) for pod, bind in zip(pods[:2], binds[:2], strict=True)]
    restarted(driver, *running, finished=(dead,))
    driver.later(300)
    assert driver.evicted == []


def test_a_gang_that_lost_members_before_a_restart_is_not_given_up() -> None:
    driver = Driver({"n1": 3})
    pods = members(a_group(3), 3)
    binds = driver.show(*pods)
    # The third was deleted, so that nothing is left of it, and nobody made another one.
    running = [seen_bound(pod, bind) for pod, bind in zip(pods[:2], binds[:2], strict=True)]
    restarted(driver, *running)
    driver.later(300)
    assert driver.evicted == []
    # One that comes later needs no quorum.
    again = driver.show(members(a_group(3), 1, start=3)[0])
    assert names(again) == ["g-3"]


def test_a_member_that_a_policy_refuses_on_a_node_is_placed_on_another_in_the_end() -> None:
    driver = Driver({"n1": 3, "n2": 1})
    pods = members(a_group(3), 3)
    binds = driver.show(*pods)
    assert {bind.node for bind in binds} == {"n1"}
    driver.bound(binds[:2], *pods)
    refused, denied = binds[2], BindRefused(Refusal.DENIED, "n1 is full of them")
    effects = driver.answer(refused, denied)
    assert [type(effect) for effect in effects] == [ReportWaiting]
    elsewhere = None
    while elsewhere is None:
        assert driver.now < 120
        again = of(Bind, driver.later(5))
        elsewhere = next((one for one in again if one.node == "n2"), None)
        for bind in again:
            if bind.node == "n1":
                assert bind == refused, "the same place is kept while the others wait for it"
                driver.answer(bind, denied)
    driver.bound([elsewhere], *pods)
    driver.later(300)
    assert driver.evicted == []


def test_members_whose_fate_is_unknown_are_waited_for() -> None:
    driver = Driver({"n1": 3})
    pods = members(a_group(3), 3)
    first, *others = driver.show(*pods)
    driver.answer(first, BindUnknown("timeout"))
    driver.bound(others, *pods)
    driver.later(90)
    assert driver.evicted == []
    driver.answer(first, Bound())
    driver.later(300)
    assert driver.evicted == []


def test_a_gang_that_others_bound_in_part_is_placed_around_them() -> None:
    driver = Driver({"n1": 3})
    pods = members(a_group(3), 3)
    driver.tell(NodeSeen(a_node("n1")))
    foreign = replace(pods[0], node_name=NodeName("n1"))
    assert driver.show(foreign, *pods[1:]) == []
    driver.tell(PodSeen(members(a_group(3), 1, start=3)[0]))
    assert names(driver.turn()) == ["g-1", "g-2", "g-3"]
