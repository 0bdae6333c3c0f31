"""PodGroups that are edited again and again cost their own gang, and no turn much."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from kubeshare_py.domain.cluster_objects import GroupApi, GroupReference, PodGroupObject
from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.events import BindSlotsFree, PodGone, PodGroupGone, PodGroupSeen, PodSeen
from kubeshare_py.domain.pod import Pod
from kubeshare_py.scheduling.pod_groups.gang_repair import MAX_RENEWED
from kubeshare_py.scheduling.queue.pod_records import POD_GROUP_CHANGED, PodState
from tests.making import Driver, a_machine, a_pod, a_shape, a_share, names, whole

APIS = pytest.mark.parametrize("api", list(GroupApi))
X = GroupApi.COSCHEDULING
MANY = 4 * MAX_RENEWED


def an_object(minimum: int, api: GroupApi = X) -> PodGroupSeen:
    return PodGroupSeen(PodGroupObject(api=api, namespace="default", name="g", min_member=minimum))


def member(number: int, api: GroupApi = X, cards: int = 1, priority: int = 0) -> Pod:
    reference = GroupReference(api, "g")
    return a_pod(f"g-{number}", a_shape(whole(cards)), group_reference=reference, priority=priority)


class Edits(Driver):
    """Notes the most members that one event moved."""

    most = 0

    def moves(self) -> int:
        counts = self.machine.moves.counts()
        return sum(pods for (_, event), pods in counts if event == POD_GROUP_CHANGED)

    def edit(self, minimum: int, api: GroupApi = X) -> None:
        before = self.moves()
        self.tell(an_object(minimum, api))
        self.most = max(self.most, self.moves() - before)

    def until_quiet(self) -> list[Bind]:
        binds = []
        while (wake_at := self.machine.wake_at(self.now)) is not None and wake_at <= self.now:
            before = self.moves()
            binds += self.decide()
            self.most = max(self.most, self.moves() - before)
        return binds

    def later(self, seconds: float) -> list[Bind]:
        self.now += seconds
        return self.until_quiet()

    def all_states(self) -> set[PodState]:
        return {record.state for record in self.machine.records.values()}


@APIS
def test_the_first_edit_of_a_pod_group_is_heeded_at_once_and_the_next_after_a_pause(
    api: GroupApi,
) -> None:
    driver = Edits({"n1": 2})
    driver.tell(an_object(4, api), *(PodSeen(member(n, api)) for n in range(2)))
    driver.until_quiet()
    driver.edit(3, api)
    driver.edit(2, api)
    assert driver.all_states() == {PodState.BACKOFF}
    assert driver.until_quiet() == []
    assert driver.later(0.9) == []
    assert names(driver.later(0.2)) == ["g-0", "g-1"]


def test_pauses_between_edits_grow_to_ten_seconds_and_end_when_it_is_left_alone() -> None:
    driver = Edits({"n1": 1})
    driver.tell(an_object(3), *(PodSeen(member(n)) for n in range(3)))
    heeded = []
    for tenth in range(400):
        before = driver.moves()
        driver.edit(3 + tenth % 2)
        driver.later(0.1)
        if driver.all_states() == {PodState.WAITING}:
            heeded.append(tenth)
        assert driver.moves() - before <= 6
    gaps = [later - earlier for earlier, later in pairwise(heeded)]
    assert driver.moves() < 3 * 2 * 8
    assert gaps == sorted(gaps)
    driver.later(10.0)
    driver.later(25.0)
    before = driver.moves()
    driver.edit(2)
    assert driver.moves() == before + 3
    assert driver.all_states() == {PodState.WAITING}


@pytest.mark.slow
@APIS
def test_a_large_gang_is_enqueued_anew_over_several_events(api: GroupApi) -> None:
    driver = Edits({"n1": 1})
    driver.tell(an_object(MANY, api), *(PodSeen(member(n, api)) for n in range(MANY)))
    driver.until_quiet()
    for minimum in (MANY - 1, MANY, 1, MANY - 2):
        driver.edit(minimum, api)
        driver.until_quiet()
    assert driver.all_states() == {PodState.BACKOFF}
    driver.later(1.1)
    assert driver.all_states() == {PodState.WAITING}
    assert 0 < driver.most <= MAX_RENEWED
    assert driver.moves() == 3 * MANY


def test_no_member_starts_by_what_the_group_said_before_while_others_are_yet_to_be_enqueued() -> (
    None
):
    driver = Edits({"n1": 8})
    driver.tell(an_object(MANY), *(PodSeen(member(n)) for n in range(MANY)))
    driver.until_quiet()
    driver.edit(4)
    assert driver.tell(BindSlotsFree(64)) == []
    binds = driver.until_quiet()
    # It was gathered with all that wait: those above the minimum follow one by one.
    assert names(binds) == [f"g-{number}" for number in range(8)]
    assert {bind.allocation.min_available for bind in binds} == {4}


@pytest.mark.parametrize("count", [MAX_RENEWED // 2, MANY])
def test_in_which_order_members_go_does_not_depend_on_how_many_there_are(count: int) -> None:
    driver = Edits({"n1": 2})
    pods = [member(n, priority=n // (count - 2)) for n in range(count)]
    driver.tell(an_object(count), *(PodSeen(pod) for pod in pods))
    driver.until_quiet()
    driver.edit(1)
    assert names(driver.until_quiet()) == [f"g-{count - 2}", f"g-{count - 1}"]


def test_pods_that_join_while_their_group_pauses_come_back_with_the_others() -> None:
    driver = Edits({"n1": 4})
    driver.tell(an_object(3), PodSeen(member(0)))
    driver.edit(4)
    driver.edit(2)
    driver.tell(*(PodSeen(member(n)) for n in (1, 2, 3)))
    driver.tell(PodGone(member(3).uid))
    assert driver.until_quiet() == []
    assert names(driver.later(1.1)) == ["g-0", "g-1", "g-2"]


def test_a_group_that_is_deleted_in_a_pause_holds_its_pods() -> None:
    driver = Edits({"n1": 4})
    driver.tell(an_object(3), PodSeen(member(0)), PodSeen(member(1)))
    driver.edit(4)
    driver.edit(2)
    driver.tell(PodGroupGone(X, "default", "g"))
    assert driver.later(1.1) == []
    assert driver.all_states() == {PodState.GATED}
    driver.edit(2)
    assert driver.all_states() == {PodState.BACKOFF}  # also one that is made anew
    assert names(driver.later(2.1)) == ["g-0", "g-1"]


def test_a_gang_that_goes_while_it_pauses_leaves_nothing_to_the_next_of_its_name() -> None:
    driver = Edits({"n1": 4})
    driver.decide()
    driver.tell(an_object(2), *(PodSeen(member(n)) for n in range(MANY)))
    driver.edit(4)
    driver.edit(2)
    driver.tell(*(PodGone(member(n).uid) for n in range(MANY)))
    driver.tell(BindSlotsFree(64))
    driver.tell(PodSeen(member(0)), PodSeen(member(1)))
    assert names(driver.until_quiet()) == ["g-0", "g-1"]
    assert driver.later(20.0) == []
    # It is still the gang of those, and needs no second one to start.
    gang = driver.machine.gangs.of(member(0).uid)
    driver.tell(PodSeen(member(2)))
    assert driver.machine.gangs.of(member(2).uid) is gang


def test_what_pods_of_a_deleted_group_once_asked_for_is_of_no_account_in_a_pause() -> None:
    driver = Edits({"n1": 3})
    driver.tell(an_object(3), *(PodSeen(member(n)) for n in range(5)))
    assert len(driver.until_quiet()) == 3
    driver.edit(1)
    driver.edit(3)
    driver.tell(PodGroupGone(X, "default", "g"))
    driver.until_quiet()
    gang = driver.machine.gangs.of(member(0).uid)
    assert gang is not None
    assert gang.min_member == 3  # as those were promised that have places


def test_a_scheduler_that_begins_to_decide_finds_all_members_of_a_large_gang() -> None:
    driver = Edits({"n1": 1})
    driver.tell(*(PodSeen(member(n, priority=n)) for n in range(MANY)), an_object(1))
    assert names(driver.decide()) == [f"g-{MANY - 1}"]


def others() -> Iterator[Pod]:
    for number in range(20):
        yield a_share(f"other-{number}", 10)


def test_pods_of_others_are_placed_while_a_pod_group_is_edited_without_end() -> None:
    driver = Edits({"n1": 1}, machine=a_machine(reservation_after_s=60.0))
    driver.tell(an_object(MANY), *(PodSeen(member(n, cards=8)) for n in range(MANY)))
    driver.until_quiet()
    for number, pod in enumerate(others()):
        for minimum in range(5):
            driver.edit(MANY - minimum % 2 - number % 2)
        assert names(driver.seen(pod)) == [f"other-{number}"]
        driver.now += 0.05
