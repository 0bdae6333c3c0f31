"""What is freed for a preemptor is taken for all others until it is bound or gives up."""

import pytest

from kubeshare_py.domain.identity import PodKey
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.values import replace
from tests.making import PREEMPTION, Driver, a_group, a_pod, a_shape, a_share, members, names


def low(count: int, **fields: object) -> list[Pod]:
    return [a_share(f"low-{number}", 1000, 0, **fields) for number in range(count)]


def polite(count: int, priority: int = 1000) -> list[Pod]:
    return [
        a_share(f"polite-{number}", 1000, priority, preempts=False, created=f"1-{number}")
        for number in range(count)
    ]


def in_b(one: Pod) -> Pod:
    return replace(one, key=PodKey("b", one.key.name))


def play_out(cluster: Driver, shown: list[Pod]) -> list[str]:
    """Whoever is evicted leaves, until nothing happens any more; the pods bound, in order."""
    bound: list[str] = []
    for _ in range(50):
        known = len(cluster.binds), len(cluster.evicted)
        cluster.bound(cluster.binds[len(bound) :], *shown)
        bound = [bind.key.name for bind in cluster.binds]
        left = [name for name in cluster.evicted if f"uid-{name}" in cluster.machine.records]
        cluster.gone(*left)
        if (len(cluster.binds), len(cluster.evicted)) == known and not left:
            return bound
    raise AssertionError("never at an end")


def test_older_pods_of_equal_priority_get_nothing_of_it() -> None:
    cluster = Driver({"n1": 8}, PREEMPTION)
    cluster.fill(*low(8))
    waiting = polite(5)
    cluster.show(*waiting)
    urgent = a_share("urgent", 1000, 1000, created="2")
    cluster.show(urgent)
    bound = play_out(cluster, [*waiting, urgent])
    assert len(cluster.evicted) == 1
    assert bound[8:] == ["urgent"]


def test_a_label_takes_nothing_for_another_namespace() -> None:
    cluster = Driver({"n1": 8}, PREEMPTION)
    cluster.fill(*low(8))
    waiting = [
        in_b(a_share(f"theirs-{number:02}", 1000, label_priority=9, created=f"1-{number:02}"))
        for number in range(12)
    ]
    cluster.show(*waiting)
    assert cluster.evicted == []
    ours = a_share("ours", 1000, label_priority=1, created="2")
    cluster.show(ours)
    bound = play_out(cluster, [*waiting, ours])
    assert len(cluster.evicted) == 1
    assert bound[8:] == ["ours"]


@pytest.mark.parametrize(
    ("others", "priority"),
    [
        pytest.param(3, 500, id="of lower priority"),
        pytest.param(2, 2000, id="of higher priority that never preempt"),
    ],
)
def test_pods_that_wait_get_nothing_of_it(others: int, priority: int) -> None:
    cluster = Driver({"n1": 2}, PREEMPTION)
    cluster.fill(*low(2))
    waiting = polite(others, priority=priority)
    cluster.show(*waiting)
    urgent = a_share("urgent", 1000, 1000)
    cluster.show(urgent)
    assert play_out(cluster, [*waiting, urgent])[2:] == ["urgent"]
    assert len(cluster.evicted) == 1


def test_a_pod_of_higher_priority_that_may_evict_takes_over_and_the_other_plans_anew() -> None:
    cluster = Driver({"n1": 3}, PREEMPTION)
    cluster.fill(*low(3))
    cluster.show(*polite(2))
    urgent = a_share("urgent", 1000, 1000, created="2")
    cluster.show(urgent)
    first = cluster.evicted[0]
    cluster.leaves(first)
    more = a_share("more", 1000, 2000)
    cluster.show(more)
    assert names(cluster.gone(first)) == ["more"]
    assert len(cluster.evicted) == 2
    assert names(cluster.gone(cluster.evicted[1])) == ["urgent"]


def test_one_that_may_take_over_does_not_wait_behind_one_that_may_not() -> None:
    cluster = Driver({"n1": 1}, PREEMPTION)
    cluster.fill(a_share("low-0", 500), a_share("low-1", 500))
    cluster.show(a_share("urgent", 1000, 1000))
    cluster.leaves("low-0")
    assert cluster.gone("low-0") == []
    cluster.show(a_share("polite", 500, 3000, preempts=False))
    assert names(cluster.show(a_share("more", 500, 2000))) == ["more"]


def test_without_cards_the_rule_is_that_of_kubernetes() -> None:
    for priority, never, bound in ((1000, True, "urgent"), (2000, True, "other")):
        cluster = Driver({"n1": 1}, PREEMPTION)
        cluster.fill(a_pod("low", a_shape(cpu=60_000)))
        other = a_pod("other", a_shape(cpu=50_000), priority=priority, preempts=not never)
        cluster.show(other)
        urgent = a_pod("urgent", a_shape(cpu=50_000), priority=1000, created="2")
        cluster.show(urgent)
        assert names(cluster.gone("low")) == [bound]


def test_what_a_victim_held_beyond_what_is_asked_for_is_kept_too() -> None:
    cluster = Driver({"n1": 1}, PREEMPTION)
    cluster.fill(*low(1))
    half = a_share("half", 500, 1000, preempts=False, created="1")
    cluster.show(half)
    urgent = a_share("urgent", 300, 1000, created="2")
    cluster.show(urgent)
    binds = cluster.gone("low-0")
    assert [bind.key.name for bind in binds] == ["urgent", "half"]


def test_members_that_go_with_the_one_in_the_way_leave_nothing_to_others() -> None:
    cluster = Driver({"n1": 2}, PREEMPTION)
    gang = members(a_group(2), 2)
    cluster.bound(cluster.show(*gang), *gang)
    waiting = polite(2)
    cluster.show(*waiting)
    urgent = a_share("urgent", 1000, 1000, created="2")
    cluster.show(urgent)
    assert sorted(cluster.evicted) == ["g-0", "g-1"]
    cluster.leaves("g-0")
    cluster.leaves("g-1")
    assert names(cluster.gone("g-1")) == ["urgent"]
    assert names(cluster.gone("g-0")) == ["polite-0"]


def test_what_is_free_already_goes_to_those_that_waited_longer() -> None:
    cluster = Driver({"n1": 2}, PREEMPTION)
    cluster.fill(*low(2))
    waiting = polite(1)
    cluster.show(*waiting)
    cluster.show(a_share("urgent", 1000, 1000, created="2"))
    victim = cluster.evicted[0]
    other = next(one.key.name for one in low(2) if one.key.name != victim)
    assert names(cluster.gone(other)) == ["polite-0"]
    assert names(cluster.gone(victim)) == ["urgent"]


class TestGangs:
    def test_older_gangs_of_equal_priority_get_nothing_of_it(self) -> None:
        cluster = Driver({"n1": 4, "n2": 4}, PREEMPTION)
        cluster.fill(*low(8))
        older = [
            members(a_group(2, f"polite-{number}"), 2, priority=9, preempts=False)
            for number in range(3)
        ]
        for gang in older:
            cluster.show(*gang)
        single = a_share("single", 1000, 9, preempts=False)
        cluster.show(single)
        urgent = members(a_group(4, "urgent"), 4, priority=9)
        cluster.show(*urgent)
        assert len(cluster.evicted) == 4
        for number, name in enumerate(cluster.evicted[:]):
            cluster.leaves(name)
            binds = cluster.gone(name)
            assert names(binds) == ([] if number < 3 else [one.key.name for one in urgent])
        assert len(cluster.evicted) == 4
        assert not cluster.machine.reservations

    def test_a_gang_gets_nothing_of_what_is_freed_for_a_pod(self) -> None:
        cluster = Driver({"n1": 2}, PREEMPTION)
        cluster.fill(*low(2))
        gang = members(a_group(2), 2, priority=9, preempts=False)
        cluster.show(*gang)
        cluster.show(a_share("urgent-1", 1000, 9), a_share("urgent-2", 1000, 9))
        assert sorted(cluster.evicted) == ["low-0", "low-1"]
        assert names(cluster.gone("low-0", "low-1")) == ["urgent-1", "urgent-2"]

    def test_another_member_takes_nothing_from_what_its_gang_was_promised(self) -> None:
        cluster = Driver({"n1": 2}, PREEMPTION)
        cluster.fill(*low(2))
        waiting = polite(2, priority=9)
        cluster.show(*waiting)
        gang = members(a_group(2, headcount=3), 3, priority=9, created="2")
        cluster.show(*gang[:2])
        cluster.leaves("low-0")
        cluster.gone("low-0")
        cluster.show(gang[2])
        cluster.leaves("low-1")
        assert names(cluster.gone("low-1")) == ["g-0", "g-1"]
        assert sorted(cluster.evicted) == ["low-0", "low-1"]

    def test_a_gang_from_which_one_place_is_taken_keeps_the_others(self) -> None:
        cluster = Driver({"n1": 4}, PREEMPTION)
        cluster.fill(*low(4))
        waiting = polite(4, priority=9)
        cluster.show(*waiting)
        gang = members(a_group(3), 3, priority=9, created="2")
        cluster.show(*gang)
        first = cluster.evicted[0]
        cluster.leaves(first)
        assert names(cluster.show(a_share("more", 1000, 20))) == []
        assert names(cluster.gone(first)) == ["more"]
        assert names(cluster.gone(*(set(cluster.evicted) - {first}))) == ["g-0", "g-1", "g-2"]
        assert len(cluster.evicted) == 4
