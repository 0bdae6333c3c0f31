"""What people are shown, whole and in portions."""

from dataclasses import replace

from kubeshare_py.domain.events import NodeGone, PodGone, PodSeen
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.pod import PodGroup
from kubeshare_py.scheduling.explain.explanation import (
    NODES_A_PORTION,
    PODS_A_PORTION,
    cluster_portions,
    cluster_view,
    why,
)
from tests.builders import a_claim, a_pod, a_shape, whole
from tests.scheduling.binding.test_volume_binding_of_pods import StorageDriver, mounting
from tests.scheduling.device_driver import DeviceDriver, a_claim_of
from tests.scheduling.driver import Driver

NODES = 2 * NODES_A_PORTION + 1
SHAPE = a_shape(a_claim(500))


def test_the_view_lists_nodes_and_pods_by_name() -> None:
    driver = Driver({"n2": 1, "n1": 1})
    for name in ("b", "a"):
        driver.place(a_pod(name, SHAPE))
    view = cluster_view(driver.machine)
    assert [node.name for node in view.nodes] == ["n1", "n2"]
    assert [pod.name for pod in view.pods] == ["a", "b"]
    assert [
        tenant.name for node in view.nodes for card in node.cards for tenant in card.tenants
    ] == [
        "a",
        "b",
    ]


def test_portions_add_up_to_all() -> None:
    driver = Driver({f"n{number}": 1 for number in range(NODES)})
    for number in range(PODS_A_PORTION + 1):
        driver.tell(PodSeen(a_pod(f"p{number}", SHAPE)))
    first, *others = cluster_portions(driver.machine)
    assert (first.ready, first.inventory, first.nodes, first.pods) == (True, "read", (), ())
    assert max(len(one.nodes) for one in others) == NODES_A_PORTION
    assert max(len(one.pods) for one in others) == PODS_A_PORTION
    assert sum(len(one.nodes) for one in others) == NODES
    assert sum(len(one.pods) for one in others) == PODS_A_PORTION + 1


def test_what_leaves_between_portions_is_left_out() -> None:
    driver = Driver({f"n{number:03}": 1 for number in range(NODES)})
    bind = driver.place(a_pod("a", SHAPE))
    portions = cluster_portions(driver.machine)
    next(portions)
    next(portions)
    last = f"n{NODES - 1:03}"
    driver.tell(NodeGone(NodeName(last)), PodGone(PodUid("uid-a")))
    rest = list(portions)
    assert last not in {node.name for one in rest for node in one.nodes}
    assert not [pod for one in rest for pod in one.pods]
    assert bind.node == "n000"


def test_pods_of_other_schedulers_are_not_shown() -> None:
    driver = Driver({"n1": 1})
    driver.tell(
        PodSeen(replace(a_pod("other"), scheduler_name="default", node_name=NodeName("n1")))
    )
    assert cluster_view(driver.machine).pods == ()


def test_who_stands_by_says_what_the_leader_says() -> None:
    leader, standby = (Driver({"n1": 1, "n2": 2}) for _ in range(2))
    for name, claim in (("big", whole(3)), ("huge", whole(9)), ("a", a_claim(500))):
        seen = PodSeen(a_pod(name, a_shape(claim)))
        leader.tell(seen)
        standby.tell(seen)
    assert "a" in {bind.key.name for bind in leader.decide()}
    said = {pod.name: pod.message for pod in cluster_view(standby.machine).pods}
    assert said == {
        "big": said["huge"].replace("9", "3"),
        "huge": "impossible: no node has 9 GPUs: the largest has 2 (node n2). "
        "0/2 nodes are available: 2 too few GPUs.",
        "a": "",
    }
    assert said == {pod.name: pod.message for pod in cluster_view(leader.machine).pods}
    shown = [why(driver.machine, PodKey("default", "big")) for driver in (leader, standby)]
    assert {view.message for view in shown if view is not None} == {said["big"]}


def test_a_member_can_be_asked_about_before_the_needs_of_its_gang_were_counted() -> None:
    driver = Driver({"n1": 1})
    group = PodGroup(name="g", headcount=2, min_available=2)
    driver.tell(PodSeen(a_pod("a", SHAPE, group=group, owner="g")))
    found = why(driver.machine, PodKey("default", "a"))
    assert found is not None
    assert [node.fits for node in found.nodes] == [True]


def test_what_several_plugins_say_of_a_node_is_there_once() -> None:
    driver = StorageDriver({"n1": 1})
    driver.show(mounting("p", "nope"))
    found = why(driver.machine, PodKey("default", "p"))
    assert found is not None
    (node,) = found.nodes
    assert 'persistentvolumeclaim "nope" not found' in node.reasons
    assert len(set(node.reasons)) == len(node.reasons)


def test_a_claim_that_holds_a_card_is_its_tenant() -> None:
    driver = DeviceDriver({"n1": 1})
    driver.see(a_claim_of("gpu-0"))
    driver.show(a_pod("s", SHAPE))
    (node,) = cluster_view(driver.machine).nodes
    (card,) = node.cards
    assert [one.name for one in card.tenants] == ["resourceclaim/c"]
    assert card.lingering == ()
    assert why(driver.machine, PodKey("default", "s")) is not None
