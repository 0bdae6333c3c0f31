"""What one namespace does at great cost does not keep the pods of others waiting."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.effects import Bind, Evict
from kubeshare_py.domain.events import BindSlotsFree, PodGone, PodSeen
from kubeshare_py.domain.identity import PodKey, PodUid
from kubeshare_py.domain.pod import Pod, PodGroup
from kubeshare_py.domain.values import replace
from kubeshare_py.framework.result_cache import SHAPES_KEPT
from kubeshare_py.scheduling.iteration_budget import ROWS_PER_ITERATION
from kubeshare_py.scheduling.queue.pod_queue import (
    A_PLACE,
    A_SHARE,
    SPARE_ENTRIES,
    FairHeap,
    Shares,
)
from kubeshare_py.scheduling.queue.pod_records import PodState
from tests.making import Driver, a_claim, a_pod, a_shape, a_share, whole
from tests.scheduling.test_turn_budget import with_terms

FLOOD = 150


def of(namespace: str, name: str, created: str, pod: Pod) -> Pod:
    return replace(pod, key=PodKey(namespace, name), created=created)


def hostile(number: int, salt: int = 0) -> Pod:
    """Older than the victim, and of a shape of its own that costs a lot."""
    pod = a_pod(f"p{number}", with_terms(number + salt, 100))
    return of("hostile", f"p{number}", "2026-01-01T00:00:00Z", pod)


def victim(milli: int = 100) -> Pod:
    pod = a_share("v", milli)
    return of("victim", "v", "2026-01-01T00:00:01Z", pod)


def member(number: int, size: int = 2) -> Pod:
    """Of a gang that is complete and fits nowhere."""
    group = PodGroup(name=f"g{number // size}", headcount=size, min_available=size)
    return replace(hostile(number), group=group)


def flooded(*pods: Pod) -> Driver:
    driver = Driver({"n1": 2})
    driver.tell(*(PodSeen(pod) for pod in pods or map(hostile, range(FLOOD))))
    return driver


def turns_until_bound(driver: Driver, most: int) -> int:
    for turn in range(1, most):
        if any(isinstance(one, Bind) for one in driver.tell(BindSlotsFree(64))):
            return turn
    return most


def until_quiet(driver: Driver) -> int:
    turns = 0
    while (wake_at := driver.machine.wake_at(driver.now)) is not None and wake_at <= driver.now:
        driver.tell(BindSlotsFree(64))
        turns += 1
        assert turns < 10_000
    return turns


def cost(driver: Driver) -> int:
    return driver.machine.evaluators["kubeshare-scheduler"].work.cost


@pytest.mark.slow
@pytest.mark.parametrize("make", [hostile, member])
def test_a_pod_passes_a_flood_of_older_pods_of_another_namespace(
    make: Callable[[int], Pod],
) -> None:
    driver = flooded(*map(make, range(FLOOD)))
    driver.tell(PodSeen(victim()))
    assert turns_until_bound(driver, 100) <= 2


def test_a_gang_passes_a_flood_of_older_gangs_of_another_namespace() -> None:
    driver = flooded(*map(member, range(FLOOD)))
    group = PodGroup(name="mine", headcount=2, min_available=2)
    for name in ("v1", "v2"):
        pod = of("victim", name, "2026-01-01T00:00:01Z", a_share(name, 100))
        driver.tell(PodSeen(replace(pod, group=group)))
    assert turns_until_bound(driver, 100) <= 3


def test_a_pod_of_the_flood_in_the_victims_line_does_not_hold_it_up() -> None:
    driver = flooded()
    same = a_share("same", 100)
    driver.tell(PodSeen(of("hostile", "same", "2026-01-01T00:00:00Z", same)))
    driver.tell(PodSeen(victim()))
    turns = 0
    bound: set[PodUid] = set()
    while victim().uid not in bound:
        turns += 1
        bound |= {one.uid for one in driver.decide()}
    assert turns <= 2


@pytest.mark.slow
def test_nor_does_a_flood_from_two_namespaces_together() -> None:
    driver = flooded()
    for number in range(FLOOD):
        twin = replace(hostile(number), uid=PodUid(f"twin{number}"))
        driver.tell(PodSeen(replace(twin, key=PodKey("hostile2", f"twin{number}"))))
    same = a_share("same", 100)
    driver.tell(PodSeen(of("hostile", "same", "2026-01-01T00:00:00Z", same)), PodSeen(victim()))
    turns = 0
    while victim().uid not in {one.uid for one in driver.decide()}:
        turns += 1
        assert turns < 5


@pytest.mark.slow
def test_every_pod_of_a_flood_is_tried_in_the_end() -> None:
    driver = flooded()
    until_quiet(driver)
    records = driver.machine.records.values()
    assert {record.state for record in records} == {PodState.WAITING}
    assert sum(shape_queue.unschedulable for shape_queue in driver.machine.queue.queues()) == FLOOD


@pytest.mark.slow
def test_every_gang_of_a_flood_is_tried_in_the_end() -> None:
    driver = flooded(*map(member, range(FLOOD)))
    until_quiet(driver)
    gangs = list(driver.machine.gangs.all())
    assert len(gangs) == FLOOD // 2
    assert all(driver.machine.gang_cycles.queue.queue_of(gang) is not None for gang in gangs)


@pytest.mark.slow
def test_pods_that_go_while_they_wait_for_their_turn_are_forgotten() -> None:
    driver = flooded()
    for number in range(FLOOD):
        driver.tell(PodGone(hostile(number).uid))
    until_quiet(driver)
    assert not driver.machine.records
    assert not len(driver.machine.queue)


def many(number: int) -> Pod:
    """Of a flood of more shapes than are remembered."""
    return replace(hostile(number), shape=with_terms(number, 20))


def many_members(number: int) -> Pod:
    return replace(member(number), shape=with_terms(number, 20))


@pytest.mark.slow
@pytest.mark.parametrize("make", [many, many_members])
def test_a_pod_is_placed_while_many_blocked_shapes_are_looked_at(
    make: Callable[[int], Pod],
) -> None:
    driver = Driver({"n1": 2})
    full = of("others", "full", "2026-01-01T00:00:00Z", a_pod("full", a_shape(whole(2))))
    driver.place(full)
    driver.tell(*(PodSeen(make(number)) for number in range(SHAPES_KEPT + 50)))
    until_quiet(driver)
    assert driver.seen(victim()) == []
    driver.tell(PodGone(full.uid))
    assert turns_until_bound(driver, 100) <= 3
    assert until_quiet(driver) > 3  # so long it takes to look at all


@pytest.mark.slow
def test_no_turn_costs_more_than_its_part_however_many_gangs_wait() -> None:
    driver = flooded(*(member(number, 15) for number in range(FLOOD)))
    alone = flooded(hostile(0))
    until_quiet(alone)
    one, most = cost(alone), 0
    while driver.machine.wake_at(driver.now) == driver.now:
        before = cost(driver)
        driver.tell(BindSlotsFree(64))
        most = max(most, cost(driver) - before)
    assert most < ROWS_PER_ITERATION + 4 * one


@pytest.mark.slow
def test_a_search_for_victims_passes_a_flood_of_searches_in_vain() -> None:
    driver = Driver({"n1": 2}, document={})
    top = replace(a_share("top"), priority=1_000)
    low = a_share("low")
    driver.place(top)
    driver.place(low)
    for number in range(FLOOD):
        # Both cards: one of them is held by a pod that gives way to none of these.
        shape = replace(a_shape(whole(2)), resources=(("cpu", 1 + number),))
        pod = of("hostile", f"p{number}", "2026-01-01T00:00:00Z", a_pod(f"p{number}", shape))
        driver.tell(PodSeen(replace(pod, priority=100)))
    driver.tell(PodSeen(replace(victim(1000), priority=100)))
    assert any(
        isinstance(one, Evict) for _ in range(FLOOD // 5) for one in driver.tell(BindSlotsFree(64))
    )


# --- edits ---------------------------------------------------------------------------------------


def times_tried(driver: Driver, seconds: float, rate: int) -> list[float]:
    """When a pod that is edited so often was asked about."""
    tried, first = [], 10_000 * int(driver.now)
    for number in range(first, first + int(seconds * rate)):
        driver.now += 1 / rate
        before = cost(driver)
        driver.tell(PodSeen(hostile(0, number + 1)), BindSlotsFree(64))
        if cost(driver) != before:
            tried.append(driver.now)
    return tried


@pytest.mark.slow
def test_a_pod_that_is_edited_again_and_again_is_tried_less_and_less_often() -> None:
    driver = flooded(hostile(0))
    driver.now = 100.0
    driver.decide()
    tried = times_tried(driver, 60.0, 20)
    pauses = [round(later - one) for one, later in pairwise(tried)]
    assert pauses == [1, 2, 4, 8, 10, 10, 10, 10]
    # What it was edited to at last is what is tried.
    driver.now += 11.0
    until_quiet(driver)
    record = driver.machine.records[hostile(0).uid]
    shape_queue = driver.machine.queue.queue_of(record.pod.uid)
    assert shape_queue is not None
    assert shape_queue.shape == hostile(0, 1_001_200).shape


def test_the_first_edit_of_a_pod_is_heeded_at_once_and_a_later_one_after_ten_seconds() -> None:
    driver = flooded(hostile(0))
    driver.decide()
    times_tried(driver, 30.0, 20)
    placeable = replace(hostile(0), shape=a_shape(a_claim(100)))
    assert driver.seen(placeable) == []
    driver.now += 10.0
    assert [bind.uid for bind in driver.decide()] == [placeable.uid]

    calm = flooded(hostile(0))
    calm.decide()
    assert calm.seen(placeable)


def test_a_pod_that_was_left_alone_for_a_while_is_tried_at_its_next_edit() -> None:
    driver = flooded(hostile(0))
    driver.decide()
    times_tried(driver, 30.0, 20)
    driver.now += 30.0
    driver.decide()
    driver.now += 30.0
    again = times_tried(driver, 4.0, 20)
    assert [round(one - again[0]) for one in again] == [0, 1, 3]


def test_an_edit_that_holds_a_pod_is_heeded_at_once() -> None:
    driver = flooded(hostile(0))
    driver.decide()
    times_tried(driver, 5.0, 20)
    driver.tell(PodSeen(replace(hostile(0), gates=("example.org/wait",))))
    assert driver.machine.records[hostile(0).uid].state is PodState.GATED


def test_a_pod_that_goes_while_its_edit_waits_is_forgotten() -> None:
    driver = flooded(hostile(0))
    driver.decide()
    times_tried(driver, 5.0, 20)
    driver.tell(PodGone(hostile(0).uid))
    driver.now += 10.0
    until_quiet(driver)
    assert not driver.machine.records


# --- the parts, by books of the test's own --------------------------------------------------------

_names = st.sampled_from("abc")
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("push"), _names, st.integers(0, 50)),
        st.tuples(st.just("gone"), _names, st.integers(0, 50)),
        st.tuples(st.just("spend"), _names, st.integers(1, A_SHARE)),
        st.tuples(st.just("round"), _names, st.just(0)),
        st.tuples(st.just("unswept"), _names, st.just(0)),
        st.tuples(st.just("look"), _names, st.just(0)),
    ),
    max_size=80,
)


class HeapBooks:
    """What waits by namespace, and what each spent in the round."""

    def __init__(self, most: int) -> None:
        self.shares = Shares()
        self.waiting: dict[str, set[int]] = {name: set() for name in "abc"}
        self.spent = dict.fromkeys("abc", 0)
        self.unswept: set[str] = set()
        self.heap: FairHeap[int] = FairHeap(
            self.shares,
            lambda entry, owner, key: entry in self.waiting[owner] and key == (entry,),
            lambda: most,
        )

    def may_be_tried(self) -> Iterator[int]:
        for name in "abc":
            if self.spent[name] < A_SHARE and name not in self.unswept:
                yield from self.waiting[name]

    def step(self, what: str, name: str, number: int) -> None:
        # Keys are unique, as those of pods are.
        entry = number * 3 + "abc".index(name)
        if what == "push" and entry not in self.waiting[name]:
            self.waiting[name].add(entry)
            self.heap.push(name, (entry,), entry)
        elif what == "gone":
            self.waiting[name].discard(entry)
        elif what == "spend":
            self.shares.spend(name, number)
            self.spent[name] += number
        elif what == "round":
            assert self.shares.new_round() == any(one >= A_SHARE for one in self.spent.values())
            self.spent = dict.fromkeys("abc", 0)
            self.heap.let_on()
        elif what == "unswept":
            self.unswept ^= {name}
            self.shares.unswept = set(self.unswept)
            self.heap.let_on()


@pytest.mark.parametrize("most", [0, -SPARE_ENTRIES // 2], ids=["lazy", "always compact"])
@given(steps=_steps)
def test_the_first_is_the_first_of_those_whose_namespace_has_not_had_its_share(
    steps: list[tuple[str, str, int]], most: int
) -> None:
    books = HeapBooks(most)
    for what, name, number in steps:
        books.step(what, name, number)
        has_more = books.heap.has_more
        assert has_more or books.heap.first() is None
        assert books.heap.first() == min(books.may_be_tried(), default=None)
    for name in "abc":
        if name in books.unswept:
            books.step("unswept", name, 0)
    books.step("round", "a", 0)
    tried = []
    while (first := books.heap.first()) is not None:
        tried.append(first)
        books.waiting["abc"[first % 3]].discard(first)
    assert tried == sorted(tried)
    assert not any(books.waiting.values())
    assert not books.heap.has_more


def test_a_place_costs_a_namespace_nothing_but_what_it_cost_more_than_usual() -> None:
    shares = Shares()
    shares.spend("a", 10 * A_PLACE, placed=10)
    shares.spend("a", A_SHARE - 5)
    shares.spend("a", A_PLACE + 4, placed=1)
    assert not shares.must_wait("a")
    shares.spend("a", A_PLACE + 1, placed=1)
    assert shares.must_wait("a")
