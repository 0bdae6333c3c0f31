"""New shapes of one namespace do not keep the pods of others waiting."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.events import BindSlotsFree, PodGone, PodSeen
from kubeshare_py.domain.identity import PodKey, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.scheduling.fair_share import A_NAMESPACE, A_TURN, FairShare
from kubeshare_py.scheduling.pod_records import State
from tests.builders import a_claim, a_pod, a_shape
from tests.scheduling.driver import Driver
from tests.scheduling.test_turn_budget import with_terms

FLOOD = 300


def of(namespace: str, name: str, created: str, pod: Pod) -> Pod:
    return replace(pod, key=PodKey(namespace, name), created=created)


def hostile(number: int, salt: int = 0) -> Pod:
    """Older than the victim, and of a shape of its own that costs a lot."""
    pod = a_pod(f"p{number}", with_terms(number + salt, 100))
    return of("hostile", f"p{number}", "2026-01-01T00:00:00Z", pod)


def flooded() -> Driver:
    driver = Driver({"n1": 2})
    for number in range(FLOOD):
        driver.tell(PodSeen(hostile(number)))
    return driver


def turns_until_bound(driver: Driver, most: int) -> int:
    victim = of("victim", "v", "2026-01-01T00:00:01Z", a_pod("v", a_shape(a_claim(100))))
    driver.tell(PodSeen(victim))
    for turn in range(1, most):
        if any(isinstance(one, Bind) for one in driver.tell(BindSlotsFree(64))):
            return turn
    return most


def until_quiet(driver: Driver) -> None:
    while (wake_at := driver.machine.wake_at(driver.now)) is not None and wake_at <= driver.now:
        driver.tell(BindSlotsFree(64))


def test_a_pod_passes_a_flood_of_older_pods_of_another_namespace() -> None:
    assert turns_until_bound(flooded(), 100) <= 2


def test_every_pod_of_a_flood_is_tried_in_the_end() -> None:
    driver = flooded()
    until_quiet(driver)
    records = driver.machine.records.values()
    assert {record.state for record in records} == {State.WAITING}
    assert sum(line.blocked for line in driver.machine.queue.lines()) == FLOOD


def test_edits_while_a_pod_waits_for_its_turn_cost_nothing() -> None:
    driver = flooded()
    work = driver.machine.askers["kubeshare-scheduler"].work
    before = work.cost
    for salt in range(1, 20):
        for number in range(FLOOD - 30, FLOOD):
            driver.tell(PodSeen(hostile(number, salt * FLOOD)))
    assert work.cost == before
    until_quiet(driver)
    last = driver.machine.records[PodUid(f"uid-p{FLOOD - 1}")]
    assert last.pod.shape == hostile(FLOOD - 1, 19 * FLOOD).shape
    assert driver.machine.queue.line_of(last.pod.uid) is not None


def test_pods_that_go_while_they_wait_for_their_turn_are_forgotten() -> None:
    driver = flooded()
    for number in range(FLOOD):
        driver.tell(PodGone(hostile(number).uid))
    until_quiet(driver)
    assert not driver.machine.records
    assert not len(driver.machine.queue)


def test_a_pod_of_a_known_shape_need_not_wait() -> None:
    driver = flooded()
    until_quiet(driver)
    same = a_pod("same", with_terms(FLOOD - 1, 100))
    for number in range(5):
        driver.tell(PodSeen(hostile(FLOOD + number)))
    driver.tell(PodSeen(of("hostile", "same", "2026-01-01T00:00:09Z", same)))
    assert driver.machine.queue.line_of(same.uid) is not None


_costs = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(1, 2 * A_TURN)), min_size=1, max_size=60
)


@given(_costs)
def test_all_that_waits_is_taken_in_order_and_no_namespace_takes_more_than_its_part(
    costs: list[tuple[str, int]],
) -> None:
    fair, waiting = FairShare(), {}
    brought = dict.fromkeys("abc", 0)
    for number, (namespace, cost) in enumerate(costs):
        uid = PodUid(f"{namespace}{number:03}")
        if fair.admits(namespace, cost):
            assert not brought[namespace] or brought[namespace] + cost <= A_NAMESPACE
            brought[namespace] += cost
        else:
            fair.put(namespace, (number,), uid, cost)
            waiting[uid] = cost
    order: list[PodUid] = []
    while fair.more:
        names = {uid[0] for uid in waiting}
        taken = fair.portion()
        assert taken
        for name in names:
            mine = [waiting[uid] for uid in taken if uid[0] == name]
            assert len(mine) <= 1 or sum(mine) <= A_TURN // len(names)
        for uid in taken:
            del waiting[uid]
        order += taken
    assert not waiting
    for name in "abc":
        came = [uid for uid in order if uid[0] == name]
        assert came == sorted(came)
