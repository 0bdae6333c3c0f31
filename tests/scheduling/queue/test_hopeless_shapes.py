"""What was found out about a shape that fits nowhere is kept no longer than pods wait with it.

That is some numbers for each node, so that 256 such shapes are 50 MB on 5,000 nodes.
"""

from kubeshare_py.domain.events import PodGone, PodSeen
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.values import replace
from tests.making import Driver, a_claim, a_group, a_pod, a_shape, a_share, members

NAME = "kubeshare-scheduler"
HOPELESS = a_shape(a_claim(1000, count=8))


def is_known(driver: Driver, shape: Shape) -> bool:
    return driver.machine.evaluators[NAME].knows(shape)


def test_it_goes_with_the_last_pod() -> None:
    driver = Driver({"n1": 1})
    first, second = a_pod("first", HOPELESS), a_pod("second", HOPELESS)
    driver.tell(PodSeen(first), PodSeen(second))
    assert driver.decide() == []
    assert is_known(driver, HOPELESS)
    driver.tell(PodGone(first.uid))
    assert is_known(driver, HOPELESS)
    driver.tell(PodGone(second.uid))
    assert not is_known(driver, HOPELESS)
    assert list(driver.machine.queue.queues()) == []


def test_it_goes_with_a_pod_whose_deletion_was_seen_before() -> None:
    driver = Driver({"n1": 1})
    pod = a_pod("first", HOPELESS)
    driver.seen(pod)
    driver.seen(replace(pod, deleting=True))
    driver.tell(PodGone(pod.uid))
    assert not is_known(driver, HOPELESS)
    assert list(driver.machine.queue.queues()) == []


def test_it_is_found_again_for_the_next_pod() -> None:
    driver = Driver({"n1": 1})
    pod = a_pod("first", HOPELESS)
    driver.seen(pod)
    driver.tell(PodGone(pod.uid))
    assert driver.seen(a_pod("second", HOPELESS)) == []
    assert is_known(driver, HOPELESS)
    fitting = a_share("third")
    assert [bind.uid for bind in driver.seen(fitting)] == [fitting.uid]


def test_what_fits_stays_known_for_the_next_pods() -> None:
    driver = Driver({"n1": 1})
    shape = a_shape(a_claim(100))
    pod = a_pod("fits", shape)
    driver.place(pod)
    driver.tell(PodGone(pod.uid))
    assert is_known(driver, shape)


def test_a_gang_takes_it_along() -> None:
    driver = Driver({"n1": 1})
    pods = members(a_group(2), 2)
    (shape,) = {pod.shape for pod in pods}
    assert driver.show(*pods) == []
    rooms = driver.machine.snapshots.actual.rooms[NAME]
    assert is_known(driver, shape)
    assert rooms.knows(shape)
    driver.gone(pods[0])
    assert is_known(driver, shape)
    driver.gone(pods[1])
    assert not is_known(driver, shape)
    assert not rooms.knows(shape)
