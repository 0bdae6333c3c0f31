"""A scheduler that stands by hears of pods for weeks: of those that are gone it keeps nothing."""

import gc
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

import pytest

from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.events import PodGone, PodSeen
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodKey
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.values import replace
from tests.making import Driver, a_claim, a_group, a_pod, a_shape, a_share, whole

PODS = 300
NOT_STATE = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)


def size(root: object) -> int:
    """How many objects are reachable, code aside."""
    found, left = {id(root)}, [root]
    while left:
        for one in gc.get_referents(left.pop()):
            if id(one) not in found and not isinstance(one, NOT_STATE):
                found.add(id(one))
                left.append(one)
    return len(found)


def pod(number: int) -> Pod:
    return a_share(f"p{number}", 100, created=f"{number:06d}")


def waits(driver: Driver, number: int) -> None:
    driver.tell(PodSeen(pod(number)))


def waits_with_one_of_five_shapes(driver: Driver, number: int) -> None:
    driver.tell(PodSeen(replace(pod(number), shape=a_shape(a_claim(1 + number % 5)))))


def waits_in_a_namespace_of_its_own(driver: Driver, number: int) -> None:
    driver.tell(PodSeen(replace(pod(number), key=PodKey(f"n{number}", "p"))))


def is_edited(driver: Driver, number: int) -> None:
    for priority in (0, 1, 0, 1):
        driver.tell(PodSeen(replace(pod(number), label_priority=priority)))


def is_of_a_gang(driver: Driver, number: int) -> None:
    driver.tell(PodSeen(replace(pod(number), group=a_group(2, name=f"g{number}"))))


def is_of_the_same_gang(driver: Driver, number: int) -> None:
    driver.tell(PodSeen(replace(pod(number), group=a_group(2))))


def is_deleted_by_force(driver: Driver, number: int) -> None:
    cards = (CardCharge(GpuUuid("GPU-n1-0"), 100, 0),)
    allocation = Allocation(token=DecisionToken(f"t{number}"), dialect="", cards=cards)
    bound = replace(pod(number), node_name=NodeName("n1"), allocation=allocation, grace_s=30)
    driver.tell(PodSeen(bound))


HISTORIES = (
    waits,
    waits_with_one_of_five_shapes,
    waits_in_a_namespace_of_its_own,
    is_edited,
    is_of_a_gang,
    is_of_the_same_gang,
    is_deleted_by_force,
)


@pytest.mark.slow
@pytest.mark.parametrize("happens", HISTORIES)
def test_pods_that_came_and_went_are_not_remembered(
    happens: Callable[[Driver, int], None],
) -> None:
    driver = Driver({"n1": 1})
    # Older than all others: no turn takes it out of the queue.
    driver.tell(PodSeen(a_share("first", 100, created="")))
    driver.tell(PodSeen(a_pod("member", group=a_group(2), created="")))
    sizes = []
    for number in range(4 * PODS):
        driver.now += 1.0
        happens(driver, number)
        driver.tell(PodGone(pod(number).uid))
        if number % PODS == PODS - 1:
            sizes.append(size(driver.machine))
    assert sizes[-1] - sizes[0] < PODS


def test_nor_does_the_leader_remember_pods_that_left_a_gang_that_waits() -> None:
    driver = Driver({"n1": 1})
    group = a_group(1, headcount=3)
    member = a_pod("member", a_shape(whole(9)), group=group, created="")
    driver.seen(member)
    for number in range(PODS):
        joined = replace(member, uid=pod(number).uid, key=pod(number).key)
        driver.seen(joined)
        driver.tell(PodGone(joined.uid))
        driver.decide()
    (gang,) = driver.machine.gangs.all()
    assert len(gang.unreported) < 9
