"""Which pods count for a gang: those of its own run, and what is remembered of them."""

import pytest

from kubeshare_py.domain.cluster_objects import GroupApi, GroupReference, PodGroupObject
from kubeshare_py.domain.effects import Bind, PodWarning, ReportPodWarning
from kubeshare_py.domain.events import (
    BindSlotsFree,
    FinishedMember,
    PodGone,
    PodGroupSeen,
    PodSeen,
    PodsListed,
)
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.values import replace
from tests.making import Driver, a_cluster, a_group, members, names

CARDS = {"n1": 6}


class RunDriver(Driver):
    """Keeps what the API server would show: bound pods, and finished ones."""

    def __init__(self, cards: dict[str, int] = CARDS) -> None:
        super().__init__(cards)
        self.cards = cards
        self.running: dict[PodUid, Pod] = {}
        self.waits: dict[PodUid, Pod] = {}
        self.finished: dict[PodUid, FinishedMember] = {}

    def start(self, *pods: Pod) -> list[str]:
        """These pods come; which pods are bound."""
        self.waits.update((pod.uid, pod) for pod in pods)
        return self.stored(self.show(*pods))

    def wait(self, seconds: float) -> list[str]:
        return self.stored(self.later(seconds))

    def stored(self, binds: list[Bind]) -> list[str]:
        for bind in binds:
            pod = self.waits.pop(bind.uid)
            self.running[bind.uid] = replace(pod, node_name=bind.node, allocation=bind.allocation)
        more = self.bound(binds, *self.running.values()) if binds else []
        return sorted([*names(binds), *(self.stored(more) if more else [])])

    def ends(self, *pods: Pod, succeeded: bool = True) -> list[str]:
        """These pods are over; which others are bound then."""
        for pod in pods:
            held = self.running.pop(pod.uid).allocation
            self.finished[pod.uid] = member = FinishedMember(
                uid=pod.uid,
                namespace="default",
                group=pod.group_reference.gang if pod.group_reference else "g",
                owner=pod.owner,
                succeeded=succeeded,
                group_owners=held.group_owners if held else (),
            )
            self.tell(PodGone(pod.uid, member, stopped=True))
        return self.stored(self.turn())

    def fails(self, *pods: Pod) -> list[str]:
        return self.ends(*pods, succeeded=False)

    def deleted(self, *pods: Pod) -> list[str]:
        for pod in pods:
            for known in (self.running, self.waits, self.finished):
                known.pop(pod.uid, None)
            self.tell(PodGone(pod.uid, stopped=True))
        return self.stored(self.turn())

    def restart(self) -> list[str]:
        """Another scheduler sees what the API server knows."""
        self.machine = Driver({}).machine
        pods = (*self.running.values(), *self.waits.values())
        _, nodes, cards = a_cluster(self.cards)
        self.tell(PodsListed(pods, self.now, finished=tuple(self.finished.values())), nodes, cards)
        return self.stored(self.turn())


def of(owner: str, count: int, minimum: int, headcount: int = 0) -> list[Pod]:
    """Pods of one owner of the group g."""
    pods = members(a_group(minimum, headcount=headcount), count, owner=owner)
    return [named(pod, f"{owner}-{number}") for number, pod in enumerate(pods)]


def named(pod: Pod, name: str) -> Pod:
    """The same pod made anew under another name."""
    key = replace(pod.key, name=name)
    return replace(pod, uid=PodUid(f"uid-{name}"), key=key, owner_title=f"job {pod.owner}")


def two_owners(driver: RunDriver) -> tuple[list[Pod], Pod]:
    """A gang of three: two workers and a driver, of two owners, which run."""
    workers, [leader] = of("w", 2, 3), of("d", 1, 3)
    assert driver.start(*workers, leader) == []
    assert driver.wait(3) == ["d-0", "w-0", "w-1"]
    return workers, leader


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("pods_stay", [False, True])
def test_the_last_member_of_several_owners_is_replaced_when_the_others_are_done(
    pods_stay: bool, restarts: bool
) -> None:
    driver = RunDriver()
    workers, leader = two_owners(driver)
    driver.ends(*workers)
    if not pods_stay:
        driver.deleted(*workers)
    driver.fails(leader)
    again = named(leader, "d-1")
    placed = driver.start(again) if not restarts else []
    if restarts:
        driver.waits[again.uid] = again
        placed = driver.restart()
    if not pods_stay and restarts:
        assert placed == []  # the workers' success is forgotten, not that the gang has run
        placed = driver.wait(10)
    assert placed == ["d-1"]
    assert driver.wait(600) == []
    assert driver.evicted == []


def test_members_that_succeeded_count_when_their_pods_are_deleted() -> None:
    driver = RunDriver()
    pods = of("job", 3, 3)
    assert len(driver.start(*pods)) == 3
    driver.ends(*pods[:2])
    driver.deleted(*pods[:2])
    driver.fails(pods[2])
    driver.deleted(pods[2])
    assert driver.wait(300) == []  # no pod of the gang is left
    assert driver.start(named(pods[2], "job-3")) == ["job-3"]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_gang_that_lost_members_for_good_goes_on_after_a_pause(restarts: bool) -> None:
    driver = RunDriver()
    pods = of("job", 3, 3)
    driver.start(*pods)
    driver.fails(pods[0])
    driver.ends(pods[1])
    driver.deleted(pods[2])
    assert driver.start(named(pods[2], "job-3")) == []
    if restarts:
        assert driver.restart() == []
    assert driver.wait(9) == []
    assert driver.wait(1) == ["job-3"]
    driver.fails(named(pods[2], "job-3"))
    assert driver.start(named(pods[2], "job-4")) == []
    assert driver.wait(10) == ["job-4"]
    assert driver.evicted == []


def test_members_that_were_all_lost_start_together_again() -> None:
    driver = RunDriver({"n1": 4})
    pods = of("job", 3, 3)
    driver.start(*pods)
    driver.deleted(*pods)
    others = members(a_group(2, "other"), 2, owner="other")
    assert len(driver.start(*others)) == 2
    again = [named(pod, f"{pod.key.name}-again") for pod in pods]
    assert driver.start(*again[:2]) == []
    assert driver.wait(5) == []
    assert driver.start(again[2]) == []
    assert driver.wait(60) == []  # there is room for two
    assert len(driver.deleted(*others)) == 3


def test_a_member_that_is_made_anew_is_not_done() -> None:
    driver = RunDriver({"n1": 3})
    pods = of("job", 3, 3)
    driver.start(*pods)
    driver.ends(*pods[:2])
    driver.deleted(*pods)
    others = members(a_group(1, "other"), 1)
    driver.start(*others)
    assert driver.start(*[named(pod, f"{pod.key.name}-again") for pod in pods]) == []
    assert driver.wait(60) == []
    assert len(driver.deleted(*others)) == 3


def test_a_second_run_of_a_group_starts_whole_on_its_own() -> None:
    driver = RunDriver()
    first, second = of("night-1", 4, 4), of("night-2", 4, 4)
    assert len(driver.start(*first)) == 4
    assert driver.start(*second) == []
    assert driver.wait(600) == []
    assert driver.told["night-2-0"].startswith(
        'pod group "g" of job night-2 needs 4 pods to start together; room for 2 of them'
    )
    assert driver.restart() == []
    assert driver.wait(600) == []
    assert driver.deleted(first[0]) == []
    assert driver.deleted(first[1]) == ["night-2-0", "night-2-1", "night-2-2", "night-2-3"]
    assert driver.evicted == []


def test_runs_whose_pods_come_mixed_are_not_mixed() -> None:
    driver = RunDriver()
    first, second = of("a", 4, 4), of("b", 4, 4)
    mixed = [pod for pair in zip(first, second, strict=True) for pod in pair]
    for pod in mixed[:-1]:
        driver.start(pod)
        driver.now += 0.5
    assert {pod.owner for pod in driver.running.values()} == {"a"}
    assert driver.start(mixed[-1]) == []


def test_a_run_whose_pods_are_still_to_come_says_whose_it_is() -> None:
    driver = RunDriver()
    driver.start(*of("night-1", 4, 4))
    driver.start(*of("night-2", 2, 4))
    assert driver.wait(60) == []
    assert driver.told["night-2-0"] == (
        'pod group "g" of job night-2 needs 4 pods to start together; there are 2; '
        "the 4 pods of job night-1 are another run"
    )


def test_each_run_that_meets_another_is_warned_of_once() -> None:
    driver = RunDriver()
    driver.start(*of("night-1", 4, 4))
    driver.start(*of("night-2", 4, 4))
    driver.wait(60)
    driver.start(*of("night-3", 1, 4))
    driver.wait(60)
    driver.restart()
    assert driver.troubles[:2] == ["night-2-0", "night-3-0"]


def test_a_warning_says_which_runs_meet() -> None:
    driver = RunDriver()
    driver.start(*of("night-1", 4, 4))
    effects = driver.tell(*map(PodSeen, of("night-2", 4, 4)), BindSlotsFree(64), BindSlotsFree(64))
    [warning] = [effect for effect in effects if isinstance(effect, ReportPodWarning)]
    assert warning.warning is PodWarning.SAME_GROUP
    assert warning.note.startswith(
        'pod group "g" of job night-2 starts on its own; the 4 pods of job night-1 are another run'
    )


def test_owners_that_are_too_many_for_one_group_are_not_united() -> None:
    driver = RunDriver()
    driver.start(*of("a", 3, 4), *of("b", 2, 4))
    assert driver.wait(600) == []
    assert driver.start(named(of("a", 1, 4)[0], "a-3")) == ["a-0", "a-1", "a-2", "a-3"]


def test_a_late_owner_joins_a_run_that_started_without_it() -> None:
    driver = RunDriver()
    assert len(driver.start(*of("w", 3, 3, headcount=4))) == 3
    assert driver.start(*of("d", 1, 3, headcount=4)) == []
    assert driver.wait(2) == ["d-0"]


def test_owners_of_a_running_gang_are_known_after_a_restart() -> None:
    driver = RunDriver()
    workers, leader = two_owners(driver)
    allocations = [pod.allocation for pod in driver.running.values()]
    assert [one.group_owners for one in allocations if one] == [("w", "d")] * 3
    driver.deleted(workers[1], leader)
    driver.restart()
    assert driver.start(named(leader, "d-1")) == ["d-1"]


def test_pods_without_an_owner_form_a_new_run_once_all_are_done() -> None:
    driver = RunDriver({"n1": 3})
    pods = of("", 3, 3)
    driver.start(*pods)
    driver.ends(*pods)
    other = members(a_group(1, "other"), 1)
    driver.start(*other)
    again = [named(pod, f"again{pod.key.name}") for pod in pods]
    assert driver.start(*again) == []
    assert driver.wait(60) == []
    assert len(driver.deleted(*other)) == 3


def described(pods: list[Pod]) -> list[Pod]:
    reference = GroupReference(GroupApi.COSCHEDULING, "g")
    return [replace(pod, group=None, group_reference=reference) for pod in pods]


def test_all_pods_of_one_pod_group_are_one_run() -> None:
    driver = RunDriver()
    described_group = PodGroupObject(
        api=GroupApi.COSCHEDULING, namespace="default", name="g", min_member=3
    )
    driver.tell(PodGroupSeen(described_group))
    workers, [leader] = described(of("w", 2, 3)), described(of("d", 1, 3))
    assert driver.start(*workers, leader) == ["d-0", "w-0", "w-1"]
    driver.ends(*workers)
    driver.fails(leader)
    assert driver.start(named(leader, "d-1")) == ["d-1"]
    # Later pods of another owner are a run of their own.
    driver.fails(named(leader, "d-1"))
    assert driver.start(*described(of("next", 2, 3))) == []
    assert driver.start(*described([named(of("next", 1, 3)[0], "next-2")])) == [
        *("next-0", "next-1", "next-2")
    ]


def test_a_gang_of_many_owners_names_some_of_them() -> None:
    driver = RunDriver({"n1": 20})
    pods = [pod for number in range(20) for pod in of(f"o{number}", 1, 20)]
    driver.start(*pods)
    assert len(driver.wait(3)) == 20
    [owners] = {pod.allocation.group_owners for pod in driver.running.values() if pod.allocation}
    assert len(owners) == 16
