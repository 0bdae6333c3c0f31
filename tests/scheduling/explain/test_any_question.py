"""Whatever is asked leaves the scheduler as it was, bit by bit, and its decisions too."""

import pytest

from kubeshare_py.scheduling.queue.pod_records import PodState
from kubeshare_py.scheduling.queue.reservations import ReservationCause
from tests.scale import seeds
from tests.scheduling.busy_world import BusyWorld, run
from tests.scheduling.every_question import ask_everything, questions
from tests.scheduling.machine_state import expect_same_state, state_of


class Asker:
    """Asks every question after one event in so many, and compares what there is before and after.

    It notes what went on meanwhile.
    """

    def __init__(self, every: int = 40) -> None:
        self.every = every
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


@pytest.mark.parametrize("seed", seeds(30))
def test_no_question_changes_anything(seed: int) -> None:
    asker = Asker()
    run(seed, asker.told)
    assert asker.asked


def test_such_histories_have_all_that_may_be_under_way() -> None:
    asker, saw = Asker(), set()
    for seed in range(8):
        run(seed, asker.note)
        saw |= asker.saw
    assert saw >= EVERYTHING, EVERYTHING - saw


@pytest.mark.parametrize("seed", seeds(30, first=100))
def test_the_same_is_decided_whether_or_not_questions_are_asked(seed: int) -> None:
    quiet = run(seed)

    def ask(world: BusyWorld) -> None:
        if len(world.log) % 7 == 0:
            assert ask_everything(world.machine, world.now)

    asked = run(seed, ask)
    assert [entry[2] for entry in asked.log] == [entry[2] for entry in quiet.log]
    expect_same_state(state_of(quiet.machine), state_of(asked.machine), "asking again and again")
