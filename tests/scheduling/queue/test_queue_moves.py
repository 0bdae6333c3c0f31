"""Which pods entered which queue because of what, as kube-scheduler names it."""

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.domain.events import BindRefused, NodeSeen, PodGone, PodSeen, Refusal
from kubeshare_py.domain.pod import Toleration
from kubeshare_py.domain.values import replace
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.framework.scheduler_profile import ProfilesReplaced
from tests.making import Driver, a_claim, a_node, a_pod, a_shape, a_share


def moved(driver: Driver) -> dict[tuple[str, str], int]:
    return dict(driver.machine.moves.counts())


def full() -> Driver:
    """One card, taken whole; two pods of one shape wait for it."""
    driver = Driver({"n1": 1})
    driver.place(a_share("first"))
    for name in ("a", "b"):
        driver.tell(PodSeen(a_share(name, 400)))
    driver.decide()
    return driver


def test_a_new_pod_enters_the_active_queue() -> None:
    driver = Driver({"n1": 1})
    driver.place(a_pod("a"))
    assert moved(driver) == {("active", "UnschedulablePodAdd"): 1}


def test_a_line_that_fits_nowhere_is_unschedulable_as_a_whole() -> None:
    assert moved(full())["unschedulable", "ScheduleAttemptFailure"] == 2


def test_who_joins_a_blocked_line_is_unschedulable_at_once() -> None:
    driver = full()
    driver.tell(PodSeen(a_share("c", 400)))
    assert moved(driver)["unschedulable", "UnschedulablePodAdd"] == 1


def test_a_pod_that_leaves_wakes_the_line() -> None:
    driver = full()
    driver.tell(PodGone(a_pod("first").uid))
    driver.decide()
    assert moved(driver)["active", "AssignedPodDelete"] == 2


def test_a_node_that_changes_wakes_the_line_too() -> None:
    driver = Driver({"n1": 1}, cpu=100)
    driver.place(a_pod("first"))
    driver.seen(a_pod("waits"))
    driver.tell(NodeSeen(a_node("n1", cpu=200)))
    driver.decide()
    driver.seen(a_pod("waits too"))
    driver.tell(NodeSeen(a_node("n2", cpu=200)))
    driver.decide()
    found = moved(driver)
    assert (found["active", "NodeUpdate"], found["active", "NodeAdd"]) == (1, 1)


def test_a_gated_pod_is_unschedulable_until_its_gates_are_eliminated() -> None:
    driver = Driver({"n1": 1})
    gated = a_pod("a", gates=("later",))
    driver.tell(PodSeen(gated))
    assert moved(driver) == {("unschedulable", "UnschedulablePodAdd"): 1}
    driver.tell(PodSeen(replace(gated, gates=())))
    eliminated = "UnschedulablePodUpdatePodSchedulingGatesEliminated"
    assert moved(driver)["active", eliminated] == 1


def test_a_change_of_a_waiting_pod_says_what_kind_it_is() -> None:
    driver = full()
    pod = a_share("a", 400)
    tolerant = a_shape(a_claim(400), tolerations=(Toleration(operator="Exists"),))
    driver.tell(PodSeen(replace(pod, shape=tolerant)))
    driver.now += 10.0
    driver.tell(PodSeen(replace(pod, shape=tolerant, label_priority=7)))
    driver.tell(PodSeen(replace(pod, shape=tolerant, label_priority=8)))
    found = moved(driver)
    assert found["active", "UnschedulablePodUpdatePodToleration"] == 1
    assert found["active", "UnschedulablePodUpdate"] == 1
    assert found["backoff", "UnschedulablePodUpdate"] == 1


def test_a_refused_pod_backs_off_and_comes_back() -> None:
    driver = Driver({"n1": 1})
    (bind,) = driver.seen(a_pod("a"))
    driver.answer(bind, BindRefused(Refusal.GATED, "gated"))
    assert moved(driver)["backoff", "ScheduleAttemptFailure"] == 1
    driver.now = 10.0
    driver.decide()
    assert moved(driver)["active", "BackoffComplete"] == 1


def test_new_profiles_activate_everybody() -> None:
    driver = full()
    driver.machine.handle(ProfilesReplaced(profiles(read({}), IN_TREE)), 0.0)
    assert moved(driver)["active", "ForceActivate"] == 2
