"""How many pods of a shape fit at once, at the very most."""

import random

import pytest

from kubeshare_py.configuration.scheduler import SCHEDULER_NAME
from kubeshare_py.domain.events import Bound, NodeGone, PodGone
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.framework.headroom import Headroom
from tests.builders import GIB, a_claim, a_pod, a_shape, whole
from tests.scale import seeds
from tests.scheduling.driver import Driver

SHAPES = (
    a_shape(a_claim(300)),
    a_shape(a_claim(1000)),
    a_shape(a_claim(0)),
    a_shape(a_claim(200, memory_bytes=15 * GIB)),
    a_shape(whole(2)),
    a_shape(a_claim(100), cpu=20_000),
    a_shape(cpu=30_000),
)


@pytest.mark.parametrize("seed", seeds(20))
def test_the_bound_is_what_fits(seed: int) -> None:
    numbers = random.Random(seed)
    driver = Driver({"n1": 3, "n2": 4, "n3": 0}, pods=12)
    for number in range(numbers.randrange(8)):
        for bind in driver.seen(a_pod(f"p{number}", numbers.choice(SHAPES))):
            driver.answer(bind, Bound())
    rooms = driver.machine.snapshots.actual.rooms[SCHEDULER_NAME]
    shape = numbers.choice(SHAPES)
    bound = rooms.total(shape)
    count = 0
    while binds := driver.seen(a_pod(f"fill-{count}", shape)):
        driver.answer(binds[0], Bound())
        count += 1
    assert bound == count


@pytest.mark.parametrize("seed", seeds(20))
def test_what_is_remembered_is_what_would_be_worked_out_anew(seed: int) -> None:
    numbers = random.Random(seed)
    driver = Driver({"n1": 3, "n2": 4})
    machine = driver.machine
    known = machine.snapshots.actual.rooms[SCHEDULER_NAME]
    evaluator = machine.evaluators[SCHEDULER_NAME]
    for number in range(60):
        if numbers.random() < 0.5:
            driver.seen(a_pod(f"p{number}", numbers.choice(SHAPES)))
        else:
            driver.tell(PodGone(PodUid(f"uid-p{numbers.randrange(number + 1)}")))
        if number == 40:
            driver.tell(NodeGone(NodeName("n2")))
        shape = numbers.choice(SHAPES)
        anew = Headroom(machine.ledger, evaluator)
        assert known.total(shape) == anew.total(shape)


@pytest.mark.parametrize("seed", seeds(20))
def test_the_bound_of_an_empty_cluster_is_what_fits_once_all_pods_ended(seed: int) -> None:
    numbers = random.Random(seed)
    driver = Driver({"n1": 3, "n2": 4, "n3": 0}, pods=12)
    bounds = driver.machine.snapshots.actual.rooms[SCHEDULER_NAME]
    uids = []
    for number in range(numbers.randrange(1, 12)):
        pod = a_pod(f"p{number}", numbers.choice(SHAPES))
        uids.append(pod.uid)
        for bind in driver.seen(pod):
            driver.answer(bind, Bound())
    found = {shape: bounds.if_empty(shape).tolist() for shape in SHAPES}
    for uid in uids:
        driver.tell(PodGone(uid))
    assert found == {shape: bounds.rows(shape).tolist() for shape in SHAPES}
    driver.tell(NodeGone(NodeName("n2")))
    for shape in SHAPES:
        assert bounds.if_empty(shape).tolist() == bounds.rows(shape).tolist()
