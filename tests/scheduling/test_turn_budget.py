"""What one turn may ask is bounded by what it costs, however few the nodes are."""

import subprocess
import sys
from itertools import combinations

import pytest

from kubeshare_py.domain.cluster_objects import Requirement
from kubeshare_py.domain.effects import Effect
from kubeshare_py.domain.events import PodGone, PodSeen, TimePassed
from kubeshare_py.domain.pod import NodeTerm, Pod, PodGroup, Shape
from kubeshare_py.domain.values import replace
from kubeshare_py.framework.prepared_plugins import ASKING, preparing
from kubeshare_py.framework.result_cache import SHAPES_KEPT
from kubeshare_py.scheduling.iteration_budget import LOOK, ROWS_PER_ITERATION
from kubeshare_py.scheduling.machine import MachineEvent
from kubeshare_py.scheduling.reservation_policy import QUEUES_AT_ONCE
from tests.making import Driver, a_claim, a_machine, a_pod, a_shape, a_share, whole

PODS = 2 * SHAPES_KEPT


def with_terms(number: int, terms: int) -> Shape:
    """Fits nowhere, and nobody else asks for it."""
    return replace(
        a_shape(a_claim(100)),
        terms=tuple(
            NodeTerm(labels=(Requirement("zone", "In", (f"z{number}-{term}",)),))
            for term in range(terms)
        ),
    )


def pod(number: int, shape: Shape) -> Pod:
    return a_pod(f"p{number}", shape)


class Counted(Driver):
    """Notes the most that one event cost."""

    most = 0

    def tell(self, *events: MachineEvent) -> list[Effect]:
        before = self.machine.evaluators["kubeshare-scheduler"].work.cost
        effects = super().tell(*events)
        cost = self.machine.evaluators["kubeshare-scheduler"].work.cost - before
        self.most = max(self.most, cost)
        return effects

    def until_quiet(self) -> int:
        turns = 0
        while (wake_at := self.machine.wake_at(self.now)) is not None and wake_at <= self.now:
            self.decide()
            turns += 1
        return turns


@pytest.mark.slow
@pytest.mark.parametrize("terms", [1, 100])
def test_shapes_that_nobody_asked_before_take_several_turns(terms: int) -> None:
    driver = Counted({"n1": 1, "n2": 1})
    shapes = [with_terms(number, terms) for number in range(PODS)]
    for number, shape in enumerate(shapes):
        driver.tell(PodSeen(pod(number, shape)))
    one = preparing(shapes[0], 16) + ASKING + 16
    assert driver.until_quiet() >= PODS * one // (2 * ROWS_PER_ITERATION)
    # The last shape of a turn is asked whole, and its reasons are worked out.
    assert driver.most < ROWS_PER_ITERATION + 3 * one
    # After a while all of them are looked at again, which costs as much.
    driver.tell(PodSeen(a_share("small", 50)))
    for _ in range(3):
        driver.now += 61.0
        driver.until_quiet()
    assert driver.most < ROWS_PER_ITERATION + 3 * one


@pytest.mark.slow
def test_a_change_is_looked_at_in_several_turns() -> None:
    driver = Counted({"n1": 1, "n2": 1})
    full = a_share("full")
    driver.place(full)
    for number in range(PODS):
        driver.tell(PodSeen(pod(number, with_terms(number, 100))))
    driver.until_quiet()
    driver.most = 0
    driver.tell(PodGone(full.uid))
    assert driver.until_quiet() > 1
    assert driver.most < ROWS_PER_ITERATION + 3 * (preparing(with_terms(0, 100), 16) + ASKING + 16)


@pytest.mark.slow
def test_looks_at_lines_that_a_change_cannot_help_take_several_turns() -> None:
    driver = Counted({"n1": 1, "n2": 1})
    full = a_share("full")
    driver.place(full)
    lines = 3 * ROWS_PER_ITERATION // LOOK
    for number in range(lines):
        shape = replace(a_shape(a_claim(100)), resources=(("cpu", 200_000 + number),))
        driver.tell(PodSeen(pod(number, shape)))
    driver.until_quiet()
    driver.most = 0
    driver.tell(PodGone(full.uid))
    # A hint says of each line that the row is of no use: only that is counted.
    assert driver.until_quiet() >= 3
    assert driver.most < ROWS_PER_ITERATION + LOOK


#: What changes makes the machine look at the lines that wait.
SWEPT = """
import sys
from kubeshare_py.domain.events import PodGone
from tests.making import Driver, a_claim, a_machine, a_pod, a_shape, whole

driver = Driver({"n1": 1})
before = set(sys.modules)
first = a_pod("first", a_shape(a_claim(700)))
driver.place(first)
assert not driver.seen(a_pod("second", a_shape(a_claim(700))))
driver.tell(PodGone(first.uid))
assert driver.decide()
print(sorted(set(sys.modules) - before))
"""


@pytest.mark.slow
def test_no_turn_imports_anything() -> None:
    ran = subprocess.run([sys.executable, "-c", SWEPT], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


@pytest.mark.slow
@pytest.mark.parametrize("lines", [3, 4 * QUEUES_AT_ONCE])
def test_the_first_of_many_lines_is_looked_for_in_several_turns(lines: int) -> None:
    driver = Counted({"n1": 2}, machine=a_machine(reservation_after_s=60.0))
    driver.place(a_share("tenant", 500))
    for number in range(lines):
        shape = replace(a_shape(whole(2)), resources=(("cpu", 1_000 + number),))
        # The oldest is one of the last that are looked at, and one of the first that wait.
        driver.tell(PodSeen(a_pod(f"w{number}", shape, created=f"{abs(number - 2):05d}")))
    driver.until_quiet()
    driver.now += 300.0
    driver.tell(TimePassed())
    assert driver.machine.reservations.starving() is None
    driver.most = 0
    assert driver.until_quiet() >= lines // QUEUES_AT_ONCE
    reservation = driver.machine.reservations.starving()
    assert reservation is not None
    assert reservation.nominee == "uid-w2"
    assert driver.most < ROWS_PER_ITERATION + LOOK * QUEUES_AT_ONCE + 3 * (
        preparing(shape, 16) + ASKING
    )


def gangs_that_do_not_fit(driver: Counted, shapes: list[list[Shape]]) -> Pod:
    """One gang for each list of shapes, blocked; the pod that holds all there is."""
    full = a_share("full")
    driver.place(full)
    for number, of_one in enumerate(shapes):
        group = PodGroup(name=f"g{number}", headcount=len(of_one), min_available=len(of_one))
        for at, shape in enumerate(of_one):
            driver.tell(PodSeen(a_pod(f"g{number}-{at}", shape, group=group)))
    driver.until_quiet()
    driver.most = 0
    return full


@pytest.mark.slow
def test_a_gang_of_many_costly_shapes_is_looked_at_over_several_turns() -> None:
    driver = Counted({"n1": 1, "n2": 1})
    shapes = [with_terms(number, 100) for number in range(PODS // 4)]
    full = gangs_that_do_not_fit(driver, [shapes])
    for shape in shapes:
        driver.machine.evaluators["kubeshare-scheduler"].forget(shape)
    driver.tell(PodGone(full.uid))
    one = preparing(shapes[0], 16) + 4 * ASKING
    assert driver.until_quiet() >= len(shapes) * preparing(shapes[0], 16) // (
        2 * ROWS_PER_ITERATION
    )
    assert driver.most < ROWS_PER_ITERATION + 3 * one


@pytest.mark.slow
def test_looks_at_gangs_take_several_turns_though_all_is_known_of_their_shapes() -> None:
    driver = Counted({"n1": 1, "n2": 1})
    few = [with_terms(number, 1) for number in range(12)]
    # So many compositions of the same shapes: one line each.
    chosen = combinations(few, 6)
    gangs = [list(of_one) for _, of_one in zip(range(400), chosen, strict=False)]
    full = gangs_that_do_not_fit(driver, gangs)
    driver.tell(PodGone(full.uid))
    assert driver.until_quiet() > len(gangs) * 6 * LOOK // ROWS_PER_ITERATION > 0
    assert driver.most < ROWS_PER_ITERATION + 3 * (preparing(few[0], 16) + 4 * ASKING)


def test_counting_why_a_shape_fits_nowhere_costs_as_much_as_asking_about_all_rows() -> None:
    driver = Counted({f"n{number}": 1 for number in range(300)})
    shape, evaluator = with_terms(0, 1), driver.machine.evaluators["kubeshare-scheduler"]
    assert evaluator.best(shape) is None
    before = evaluator.work.cost
    evaluator.diagnose(shape)
    assert evaluator.work.cost - before >= 300


def test_each_different_claim_of_a_shape_costs_as_much_to_prepare() -> None:
    one, two = a_claim(100), a_claim(200)
    alone = preparing(a_shape(one), 16)
    assert preparing(a_shape(), 16) == preparing(a_shape(one, one), 16) == alone
    assert preparing(a_shape(one, two, one), 16) == 2 * alone
