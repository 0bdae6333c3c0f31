"""What reports say of evictions, in kube-scheduler's words."""

from kubeshare_py.domain.effects import ReportWaiting
from kubeshare_py.domain.events import BindSlotsFree, NodeSeen, PodSeen
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.preemption.planner import MAX_NODES
from kubeshare_py.scheduling.preemption.preemption import NOT_SEARCHED
from tests.making import NO_PREEMPTION, PREEMPTION, Driver, a_node, a_pod, a_shape, a_share, whole

NO_CLAIMS = "no new claims to deallocate, preemption: "


def plain(name: str, cpu: int, priority: int = 0, **fields: bool) -> Pod:
    """A pod without GPUs."""
    return a_pod(name, a_shape(cpu=cpu), priority=priority, **fields)


def a_driver(document: object = None, *names: str) -> Driver:
    """Nodes of 1000 milli, each with a pod that holds 600."""
    driver = Driver({}, document or PREEMPTION)
    nodes = names or ("n1", "n2")
    driver.tell(*(NodeSeen(a_node(name, cpu=1000)) for name in nodes))
    driver.fill(*(plain(f"on-{name}", 600, 5) for name in nodes))
    return driver


def told(driver: Driver, *pods: Pod) -> dict[str, str]:
    """What is said of evictions for these pods, by name."""
    effects = driver.tell(*map(PodSeen, pods), BindSlotsFree(64))
    return {
        one.key.name: one.diagnosis.post_filter for one in effects if isinstance(one, ReportWaiting)
    }


def test_a_pod_that_may_evict_nobody_is_told_that_there_are_no_victims() -> None:
    driver = a_driver()
    driver.tell(NodeSeen(a_node("small", cpu=1)))
    assert told(driver, plain("low", 500)) == {
        "low": f"{NO_CLAIMS}0/3 nodes are available: 1 Preemption is not helpful for scheduling, "
        "2 No preemption victims found for incoming pod."
    }


def test_no_eviction_helps_where_no_node_is_large_enough() -> None:
    assert told(a_driver(), plain("large", 5000, 9)) == {
        "large": f"{NO_CLAIMS}0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    }


def test_a_search_in_vain_says_what_it_found_on_each_node() -> None:
    driver = a_driver()
    driver.fill(plain("high", 400, 9))
    # On one node nothing can be freed but 600, on the other all of it.
    assert told(driver, plain("urgent", 700, 6)) == {"urgent": ""}
    assert driver.evicted == ["on-n2"]
    driver = a_driver(None, "n1")
    driver.fill(plain("high", 400, 9))
    assert told(driver, plain("urgent", 700, 6)) == {
        "urgent": f"{NO_CLAIMS}0/1 nodes are available: 1 Insufficient cpu."
    }


def test_a_pod_that_never_preempts_is_told_so() -> None:
    assert told(a_driver(), plain("never", 500, 9, preempts=False)) == {
        "never": f"{NO_CLAIMS}not eligible due to preemptionPolicy=Never."
    }


def test_nothing_is_said_while_victims_leave_until_the_pod_is_tried_again() -> None:
    driver = a_driver(None, "n1")
    urgent = plain("urgent", 700, 9)
    assert told(driver, urgent) == {"urgent": ""}
    driver.leaves("on-n1")
    queue = driver.machine.queue.queue_of(urgent.uid)
    assert queue is not None
    driver.machine.queue.activate(queue)
    assert told(driver) == {
        "urgent": f"{NO_CLAIMS}not eligible due to a terminating pod on the nominated node."
    }


def test_without_preemption_only_device_claims_are_spoken_of() -> None:
    driver = a_driver(NO_PREEMPTION)
    assert told(driver, plain("low", 500)) == {"low": "no new claims to deallocate"}


def test_pods_with_gpus_are_told_of_evictions_alone() -> None:
    driver = Driver({"n1": 1}, PREEMPTION)
    driver.fill(a_share("one", 500, 5), a_share("high", 500, 9))
    assert told(driver, a_share("urgent", 1000, 6)) == {
        "urgent": "preemption: 0/1 nodes are available: 1 no usable GPU."
    }


def test_pods_with_gpus_that_can_evict_nobody_are_told_nothing_of_evictions() -> None:
    driver = Driver({"n1": 1}, PREEMPTION)
    driver.fill(a_share("one", 500, 5))
    assert told(driver, a_share("low", 1000)) == {"low": ""}
    # Nor those for which no eviction is enough, whatever their priority.
    driver = Driver({"n1": 1}, PREEMPTION)
    driver.fill(a_share("one", 500, 5))
    assert told(driver, a_pod("large", a_shape(whole(2)), priority=9)) == {"large": ""}


def test_nodes_beyond_what_a_search_looks_at_are_called_so() -> None:
    names = [f"n{at}" for at in range(MAX_NODES + 1)]
    driver = Driver({}, PREEMPTION)
    driver.tell(*(NodeSeen(a_node(name, cpu=1000)) for name in names))
    full = (plain(f"on-{name}", 900, 9) for name in names)
    driver.tell(
        *(PodSeen(replace(one, node_name=NodeName(names[at]))) for at, one in enumerate(full)),
        PodSeen(replace(plain("low", 10, 1), node_name=NodeName("n5"))),
    )
    said = told(driver, plain("urgent", 700, 6))["urgent"]
    while "preemption" not in said:  # a search of so many nodes takes several iterations
        said = told(driver).get("urgent", said)
    assert said == (
        f"{NO_CLAIMS}0/{MAX_NODES + 1} nodes are available: 1 Insufficient cpu, "
        f"1 {NOT_SEARCHED}, {MAX_NODES - 1} No preemption victims found for incoming pod."
    )


def test_pods_of_one_shape_are_told_what_is_true_of_their_priority() -> None:
    said = told(a_driver(), plain("low", 500), plain("never", 500, 9, preempts=False))
    assert said["low"] != said["never"]
