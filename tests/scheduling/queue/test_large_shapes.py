"""What pods say of their place, however much it is, is kept no longer than they wait."""

import gc

import pytest

from kubeshare_py.domain.cluster_objects import Requirement
from kubeshare_py.domain.events import PodGone, PodSeen
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.pod import NodeTerm, Shape
from kubeshare_py.domain.values import replace
from tests.making import Driver, a_claim, a_pod, a_shape

PODS, TERMS = 40, 60


def large(number: int) -> Shape:
    """Weighs more than an empty line may; fits nowhere."""
    terms = tuple(
        NodeTerm(labels=(Requirement("zone", "In", (f"large-{number}-{term}",)),))
        for term in range(TERMS)
    )
    return replace(a_shape(a_claim(100)), terms=terms)


def kept() -> int:
    """How many of these shapes there are in this process."""
    return sum(
        isinstance(found, Shape) and len(found.terms or ()) == TERMS for found in gc.get_objects()
    )


@pytest.fixture
def waiting() -> Driver:
    """Large pods that were tried and wait."""
    driver = Driver({"n1": 1, "n2": 1})
    for number in range(PODS):
        driver.tell(PodSeen(a_pod(f"p{number}", large(number))))
    while (wake_at := driver.machine.wake_at(driver.now)) is not None and wake_at <= driver.now:
        driver.decide()
    return driver


def test_large_shapes_go_with_their_pods(waiting: Driver) -> None:
    assert kept() >= PODS
    for number in range(PODS):
        waiting.tell(PodGone(PodUid(f"uid-p{number}")))
    waiting.decide()
    assert kept() == 0


def test_a_large_shape_stays_while_a_pod_waits_with_it(waiting: Driver) -> None:
    waiting.tell(PodSeen(a_pod("like-p0", large(0))))
    waiting.tell(PodGone(PodUid("uid-p0")))
    waiting.decide()
    evaluator = waiting.machine.evaluators["kubeshare-scheduler"]
    before = evaluator.work.cost
    evaluator.row_scores(large(0))
    assert evaluator.work.cost == before
