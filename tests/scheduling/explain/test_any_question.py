"""Whatever is asked leaves the scheduler as it was, bit by bit, and its decisions too."""

from random import Random

import pytest

from kubeshare_py.domain.events import BindSlotsFree, PodGone, PodSeen
from kubeshare_py.event_log.records import digest_of
from kubeshare_py.scheduling.queue.pod_records import PodState
from kubeshare_py.scheduling.queue.reservations import ReservationCause
from tests.making import Driver, a_claim, a_group, members
from tests.making.busy_world import BusyWorld, run
from tests.scale import is_full, seeds
from tests.scheduling.every_question import (
    CHANGING,
    OF_MACHINE,
    ask_everything,
    methods_of_machine,
    properties,
    questions,
)
from tests.scheduling.machine_state import expect_same_state, state_of


class Asker:
    """Asks every question after one event in so many, and compares what there is before and after.

    It notes what went on meanwhile.
    """

    def __init__(self) -> None:
        self.every = 40 if is_full() else 120
        self.events = self.asked = 0
        self.saw: set[str] = set()

    def told(self, world: BusyWorld) -> None:
        """An event was handled."""
        self.events += 1
        if self.events % self.every:
            return
        self.note(world)
        before = state_of(world.machine)
        self.asked += ask_everything(world.machine, world.now)
        self.asked += sum(1 for _ in properties(world.machine))
        after = state_of(world.machine)
        if before != after:  # which question was it?
            for name, question in questions(world.machine, world.now):
                question()
                expect_same_state(after, state_of(world.machine), name)
        expect_same_state(before, after, "one of the first questions")

    def note(self, world: BusyWorld) -> None:
        """What goes on now."""
        machine = world.machine
        self.saw |= {reservation.cause.name for reservation in machine.reservations.holders}
        self.saw |= {"preempts"} if machine.preemption.under_way else set()
        self.saw |= {"lingers"} if machine.ledger.lingering else set()
        self.saw |= {"fails"} if any(one.failed for one in machine.evaluators.values()) else set()
        self.saw |= {record.state.name for record in machine.records.values()}


EVERYTHING = {
    *(cause.name for cause in ReservationCause),
    *(PodState.WAITING.name, PodState.BOUND.name, PodState.GATED.name, PodState.ASSUMED.name),
    "preempts",
    "lingers",
    "fails",
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(10))
def test_no_question_changes_anything(seed: int) -> None:
    asker = Asker()
    run(seed, asker.told)
    assert asker.asked


@pytest.mark.slow
def test_such_histories_have_all_that_may_be_under_way() -> None:
    asker, saw = Asker(), set()
    for seed in range(8):
        run(seed, asker.note)
        saw |= asker.saw
    assert saw >= EVERYTHING, EVERYTHING - saw


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(10, first=100))
def test_the_same_is_decided_whether_or_not_questions_are_asked(seed: int) -> None:
    quiet = run(seed)

    every = 29 if is_full() else 53  # primes, so that any kind of event comes before a question

    def ask(world: BusyWorld) -> None:
        if len(world.log) % every == 0:
            assert ask_everything(world.machine, world.now)

    asked = run(seed, ask)
    assert [entry[2] for entry in asked.log] == [entry[2] for entry in quiet.log]
    expect_same_state(state_of(quiet.machine), state_of(asked.machine), "asking again and again")


def test_every_method_of_the_machine_is_asked_or_is_there_to_change_it() -> None:
    assert methods_of_machine() == OF_MACHINE.keys() | CHANGING


def crowded_with_gangs(seed: int, *, is_asked: bool) -> list[int]:
    """The digests of a history of gangs, several of each composition, most of which fit nowhere.

    When one gang of a composition was tried in vain, the others still are in the queue: they leave
    it when they come first. After each event `wake_at`, if it is asked, changes nothing.
    """
    rng = Random(seed)
    driver = Driver({"n0": 2, **{f"m{number}": 0 for number in range(8)}})
    pods = [
        pod
        for kind in range(30)
        for number in range(rng.randint(3, 5))
        for pod in members(a_group(2, name=f"g{kind}-{number}"), 2, a_claim(999 - kind))
    ]
    digests = [digest_of(driver.tell(*(PodSeen(pod) for pod in pods)))]
    for _ in range(12):
        driver.now += 0.001
        gone = rng.choice(pods)
        for event in (BindSlotsFree(64), PodGone(gone.uid), PodSeen(gone)):
            digests.append(digest_of(driver.tell(event)))
            if is_asked:
                driver.machine.wake_at(driver.now)
    return digests


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(40))
def test_the_same_is_reported_of_gangs_whether_or_not_wake_at_is_asked(seed: int) -> None:
    asked = crowded_with_gangs(seed, is_asked=True)
    assert asked == crowded_with_gangs(seed, is_asked=False)


@pytest.mark.slow
def test_no_question_moves_gangs_that_wait_behind_others() -> None:
    driver = Driver({"n0": 1, **{f"m{number}": 0 for number in range(8)}})
    for kind in range(30):
        for number in range(3):
            group = a_group(2, name=f"g{kind}-{number}")
            driver.tell(*(PodSeen(pod) for pod in members(group, 2, a_claim(999 - kind))))
    for _ in range(3):
        driver.now += 0.001
        driver.tell(BindSlotsFree(64))
        before = state_of(driver.machine)
        driver.machine.wake_at(driver.now)
        assert [*properties(driver.machine)]
        expect_same_state(before, state_of(driver.machine), "a property, or wake_at,")
