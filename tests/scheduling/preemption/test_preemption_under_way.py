"""A preemption that is being carried out: who leaves and who does not, and what nominees say."""

from kubeshare_py.domain.events import Bound, PodSeen, PodsListed
from kubeshare_py.domain.values import replace
from tests.making import (
    PREEMPTION,
    Driver,
    a_group,
    a_pod,
    a_shape,
    a_share,
    members,
    names,
    whole,
)


def test_what_leaves_anyhow_is_waited_for_first(cluster: Driver) -> None:
    cluster.leaves("five")
    cluster.show(a_share("urgent", 1000, 9))
    assert cluster.evicted == []
    assert names(cluster.gone("five")) == ["urgent"]


def test_one_plan_at_a_time_and_nobody_is_asked_twice(cluster: Driver) -> None:
    cluster.show(a_share("urgent", 1000, 9))
    cluster.leaves("one")
    cluster.leaves("two")
    cluster.later(60)
    assert cluster.evicted == ["two", "one"]
    assert len(cluster.plans) == 1


def test_who_was_not_deleted_is_asked_again(cluster: Driver) -> None:
    cluster.show(a_share("urgent", 1000, 9))
    cluster.leaves("two")
    cluster.later(15)
    assert cluster.evicted == ["two", "one", "one"]


def test_victims_that_do_not_leave_in_time_are_given_up(cluster: Driver) -> None:
    cluster.show(a_share("urgent", 500, 9))
    cluster.leaves("one")
    cluster.later(125)
    assert cluster.evicted == ["one", "two"]
    assert len(cluster.plans) == 2


def test_a_nominee_that_is_gone_holds_nothing(cluster: Driver) -> None:
    urgent = a_share("urgent", 1000, 9)
    cluster.show(urgent)
    cluster.gone(urgent)
    cluster.gone("one")
    assert names(cluster.show(a_share("small", 500))) == ["small"]


def test_a_victim_whose_binding_was_never_stored_is_waited_for_no_longer() -> None:
    cluster, five = Driver({"n1": 2}, PREEMPTION), a_share("five", 1000, 5)
    low, urgent = a_share("low"), a_pod("urgent", a_shape(whole(2)), priority=9)
    (held,) = cluster.show(five)
    five = replace(five, node_name=held.node, allocation=held.allocation)
    cluster.tell(PodSeen(five))
    (bind,) = cluster.show(low)
    cluster.answer(bind, Bound())
    cluster.show(urgent)
    assert sorted(cluster.evicted) == ["five", "low"]
    cluster.now += 1
    cluster.tell(PodsListed((five, low, urgent), cluster.now))
    cluster.later(15)
    assert sorted(cluster.evicted) == ["five", "five", "low"]
    assert names(cluster.gone("five")) == ["urgent"]


def test_a_nomination_of_a_scheduler_before_is_taken_back(cluster: Driver) -> None:
    cluster.show(a_share("left-over", 1000, 0, nominated=True))
    assert cluster.nominated == {"left-over": None}


def test_the_echo_of_a_nomination_changes_nothing(cluster: Driver) -> None:
    urgent = a_share("urgent", 1000, 9)
    cluster.show(urgent)
    cluster.tell(PodSeen(replace(urgent, nominated=True, stale_results=("sharedgpu/earmark",))))
    cluster.turn()
    assert cluster.nominated == {"urgent": "n1"}
    assert len(cluster.plans) == 1


def test_who_did_not_go_may_be_asked_for_another(cluster: Driver) -> None:
    cluster.show(a_share("urgent", 1000, 9))
    assert names(cluster.gone("five")) == ["urgent"]
    cluster.later(15)
    assert cluster.evicted == ["two", "one"]
    cluster.show(a_share("again", 500, 8))
    assert cluster.evicted == ["two", "one", "one"]


def test_whom_another_waits_for_and_who_stays_is_not_waited_for(cluster: Driver) -> None:
    cluster.show(a_share("urgent", 1000, 9))
    assert names(cluster.gone("five")) == ["urgent"]
    cluster.show(a_share("again", 500, 8))
    assert cluster.evicted == ["two", "one"]
    cluster.later(15)
    assert cluster.evicted == ["two", "one", "one"]


def test_who_stays_is_not_waited_for_whoever_else_is_bound(cluster: Driver) -> None:
    cluster.fill(a_pod("least", a_shape(cpu=1), priority=-9))
    urgent = a_share("urgent", 1000, 9)
    cluster.show(urgent)
    cluster.gone(urgent)
    cluster.show(a_share("again", 500, 8))
    assert cluster.evicted == ["two", "one"]
    cluster.later(15)
    assert cluster.evicted == ["two", "one", "one"]


def test_a_gang_of_which_some_have_left_goes_whole() -> None:
    cluster = Driver({"n1": 3}, PREEMPTION)
    cluster.fill(*members(a_group(3), 3))
    cluster.show(a_share("urgent", 1000, 9))
    assert cluster.evicted == ["g-0", "g-1", "g-2"]
    assert names(cluster.gone("g-1")) == ["urgent"]
    cluster.leaves("g-2")
    cluster.later(15)
    assert cluster.evicted == ["g-0", "g-1", "g-2", "g-0"]
    cluster.gone("g-0", "g-2")
    cluster.later(30)
    assert cluster.evicted == ["g-0", "g-1", "g-2", "g-0"]


def test_a_gang_of_which_nobody_left_stays() -> None:
    cluster = Driver({"n1": 4}, PREEMPTION)
    cluster.fill(*members(a_group(3), 3), a_share("free", 1000, 9))
    urgent = a_share("urgent", 1000, 9)
    cluster.show(urgent)
    cluster.gone(urgent)
    cluster.later(30)
    assert cluster.evicted == ["g-0", "g-1", "g-2"]
    gang = cluster.machine.gangs.of(a_share("g-0").uid)
    assert gang is not None
    assert gang.placed == 3


def test_a_nomination_that_is_still_shown_is_taken_back_again(cluster: Driver) -> None:
    cluster.show(a_share("low", 1000, 0, nominated=True))
    assert cluster.nominated == {"low": None}
    cluster.nominated.clear()
    cluster.later(15)
    assert cluster.nominated == {"low": None}
    cluster.show(a_share("low", 1000, 0))
    cluster.nominated.clear()
    cluster.later(60)
    assert cluster.nominated == {}


def test_a_nomination_that_arrives_late_is_taken_back(cluster: Driver) -> None:
    urgent = a_share("urgent", 1000, 9)
    cluster.show(urgent)
    binds = cluster.gone("five")
    bound = replace(urgent, node_name=binds[0].node, allocation=binds[0].allocation)
    cluster.bound(binds, urgent)
    cluster.nominated.clear()
    cluster.show(replace(bound, nominated=True))
    assert cluster.nominated == {"urgent": None}
    cluster.show(bound)
    cluster.nominated.clear()
    cluster.later(60)
    assert cluster.nominated == {}
