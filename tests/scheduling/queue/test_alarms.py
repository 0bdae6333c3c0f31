"""One heap of alarms: the first time that counts is known at any moment, and asking changes
nothing."""

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.events import BindSlotsFree, PodGone, PodSeen, TimePassed
from kubeshare_py.scheduling.queue.timers import Alarms, Timers
from tests.making import Driver, a_claim, a_machine, a_pod, a_shape
from tests.making.busy_world import BusyWorld, run
from tests.scale import examples, seeds
from tests.scheduling import wake_reference
from tests.scheduling.machine_state import expect_same_state, state_of

TIMES = st.one_of(st.just(math.inf), st.integers(0, 20).map(float), st.just(-math.inf))


@examples(1000)
@given(st.lists(st.tuples(st.integers(0, 5), TIMES), max_size=120))
def test_the_first_time_is_that_of_the_earliest_alarm(sets: list[tuple[int, float]]) -> None:
    alarms = Alarms()
    made = [alarms.add() for _ in range(6)]
    books = dict.fromkeys(range(6), math.inf)
    for which, when in sets:
        made[which].set(when)
        books[which] = when
        assert alarms.next_at == min(books.values())
        assert [one.at for one in made] == [*books.values()]


def test_alarms_that_are_set_anew_do_not_fill_the_heap() -> None:
    alarms = Alarms()
    first, *others = (alarms.add() for _ in range(10))
    first.set(0.0)
    for number in range(10_000):
        others[number % 9].set(1.0 + number)
        assert len(alarms._heap) <= 80
    assert alarms.next_at == 0.0
    first.set(math.inf)
    assert alarms.next_at == 9992.0


@examples(400)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 1), st.integers(0, 9)), max_size=60))
def test_timers_are_due_in_their_order_and_set_their_alarm(
    steps: list[tuple[bool, int, int]],
) -> None:
    alarms = Alarms()
    timers: list[Timers[int]] = [Timers(alarms), Timers(alarms)]
    books: list[list[tuple[int, int]]] = [[], []]
    for number, (adds, which, when) in enumerate(steps):
        if adds:
            timers[which].add(when, number)
            books[which].append((when, number))
        elif number % 2:
            due = sorted(one for one in books[which] if one[0] <= when)
            assert timers[which].due(when) == [what for _, what in due]
            books[which] = [one for one in books[which] if one[0] > when]
        else:
            due = sorted(one for one in books[which] if one[0] <= when)
            assert next(timers[which].each_due(when), None) == (due[0][1] if due else None)
            books[which] = [one for one in books[which] if one not in due[:1]]
        for one, kept in zip(timers, books, strict=True):
            assert one.alarm.at == min((at for at, _ in kept), default=math.inf)
        assert alarms.next_at == min(one.alarm.at for one in timers)


# --- the machine -------------------------------------------------------------------------------


class Wakes:
    """Compares when the machine wants to be woken with what its parts wait for."""

    def __init__(self) -> None:
        self.events = 0
        self.said: set[str] = set()

    def told(self, world: BusyWorld) -> None:
        machine, now = world.machine, world.now
        expected = wake_reference.wake_at(machine, now)
        self.events += 1
        if self.events % 100 == 0:
            before = state_of(machine)
            machine.wake_at(now)
            expect_same_state(before, state_of(machine), "wake_at")
        assert machine.wake_at(now) == expected
        self.said.add("never" if expected is None else "now" if expected <= now else "later")


@pytest.mark.slow
@pytest.mark.source_only(reason="looks into objects by their __dict__")
@pytest.mark.parametrize("seed", seeds(100))
def test_it_wakes_when_the_first_of_its_parts_has_something_to_do(seed: int) -> None:
    wakes = Wakes()
    run(seed, wakes.told)
    assert wakes.said > {"now"}


@pytest.mark.source_only(reason="looks into objects by their __dict__")
@pytest.mark.parametrize("seed", seeds(100))
def test_so_it_does_while_pods_wait_outside_of_the_queue(seed: int) -> None:
    rng, machine, at = Random(seed), a_machine(max_waiting=4), 0
    driver = Driver({"n1": 1}, machine=machine)
    for number in range(300):
        driver.now += rng.choice((0.0, 0.001, 1.0, 12.0))
        pod = a_pod(
            f"p{rng.randrange(30)}", a_shape(rng.choice((a_claim(1000, count=9), a_claim(500))))
        )
        pod = pod if rng.random() < 0.9 else a_pod(f"s{number}", pod.shape, scheduler_name="other")
        events = PodSeen(pod), PodGone(pod.uid), TimePassed(), BindSlotsFree(rng.randrange(3))
        driver.tell(rng.choice(events[: 3 if number < 100 else 4]))
        expected = wake_reference.wake_at(machine, driver.now)
        assert machine.wake_at(driver.now) == expected
        at += machine._enqueuer.reports_at.at == expected
    assert at, "no report was ever the first thing to do"
