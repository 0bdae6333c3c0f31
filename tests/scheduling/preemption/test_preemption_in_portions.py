"""A search for victims that takes long is done in several turns, and finds what it found in one."""

import pytest

from kubeshare_py.domain.events import BindSlotsFree, PodGone, PodSeen
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.scheduling.explain.question import completed
from kubeshare_py.scheduling.preemption.planner import preemptor_of
from kubeshare_py.scheduling.preemption.victim_search import CANDIDATES_AT_ONCE
from tests.making import PREEMPTION, Driver, a_pod, a_shape, a_share, whole

NODES = 3 * CANDIDATES_AT_ONCE + 10
#: The node of the pod that is to go.
BEST = f"n{2 * CANDIDATES_AT_ONCE + 5:04d}"
URGENT = a_share("urgent", 1000, 9)


def uid_on(driver: Driver, node: str) -> PodUid:
    (uid,) = (uid for uid, one in driver.machine.records.items() if one.node == node)
    return uid


def turns(driver: Driver) -> int:
    """How many turns it takes until there is a plan, or nothing to do."""
    count = 0
    while not driver.plans:
        wake_at = driver.machine.wake_at(driver.now)
        if wake_at is None or wake_at > driver.now:
            break
        driver.tell(BindSlotsFree(64))
        count += 1
        assert count < 20
    return count


@pytest.fixture
def full() -> Driver:
    """Every card is taken; the pod on one node is less important than all others."""
    driver = Driver({f"n{number:04d}": 1 for number in range(NODES)}, PREEMPTION)
    driver.fill(*(a_share(f"p{number}", 1000, 2) for number in range(NODES)))
    driver.tell(PodGone(uid_on(driver, BEST)))
    driver.fill(a_share("least", 1000, 1))
    assert turns(driver) < 20
    return driver


def seen(driver: Driver, urgent: Pod) -> None:
    driver.tell(PodSeen(urgent))


def test_several_turns_find_what_one_finds(full: Driver) -> None:
    seen(full, URGENT)
    record = full.machine.records[URGENT.uid]
    planner = full.machine.preemption.planner.for_reading(full.machine.reading())
    in_one = planner.plan(preemptor_of([record.pod]), [record])
    shown = completed(full.machine.preemption.dry_run(record, full.machine.reading))
    assert turns(full) >= 4
    assert in_one is not None
    assert full.plans[0].plan == in_one
    assert shown == (in_one, False)
    assert full.evicted == ["least"]


def test_what_became_free_meanwhile_is_used(full: Driver) -> None:
    seen(full, URGENT)
    for _ in range(3):
        full.tell(BindSlotsFree(64))
    full.tell(PodGone(uid_on(full, BEST)))
    turns(full)
    assert full.evicted == []
    assert full.binds[-1].key.name == "urgent"
    assert full.binds[-1].node == BEST


def test_the_best_node_is_looked_at_again_before_anything_goes(full: Driver) -> None:
    seen(full, URGENT)
    for _ in range(3):
        full.tell(BindSlotsFree(64))
    assert not full.plans
    # The least important pod is deleted, and one that is above all takes its place.
    full.tell(PodGone(uid_on(full, BEST)), PodSeen(a_share("above", 1000, 10)))
    turns(full)
    assert full.binds[-1].key.name == "above"
    full.now += 60.0
    turns(full)
    assert len(full.evicted) == 1
    assert full.evicted != ["above"]


@pytest.mark.slow
def test_a_pod_that_is_deleted_is_searched_for_no_more(full: Driver) -> None:
    seen(full, URGENT)
    full.tell(BindSlotsFree(64))
    full.tell(BindSlotsFree(64))
    full.tell(PodGone(URGENT.uid))
    assert turns(full) < 4
    assert full.evicted == []


def test_it_ends_where_no_eviction_helps(full: Driver) -> None:
    seen(full, a_pod("large", a_shape(whole(2)), priority=9))
    assert turns(full) < 10
    assert full.evicted == []
