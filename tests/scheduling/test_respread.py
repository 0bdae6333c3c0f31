"""Constraints of spread that pods get by default, from their profile."""

from typing import Any

from kubeshare_py.domain.cluster_objects import (
    ObjectKey,
    PodController,
    ReplicaSetObject,
    Requirement,
    ServiceObject,
    WatchedKind,
)
from kubeshare_py.domain.effects import ReportWaiting
from kubeshare_py.domain.events import (
    BindSlotsFree,
    Event,
    NodeSeen,
    ObjectGone,
    ObjectSeen,
    ObjectsListed,
    PodSeen,
)
from kubeshare_py.domain.pod import Pod, PodGroup
from kubeshare_py.domain.values import replace
from tests.making import Driver, a_node, of
from tests.scheduling.test_inter_pod import EVEN, ZONE, a_web, nodes

HARD = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
WEB_SERVICE = ServiceObject(name="web", namespace="default", endpoint_labels=(("app", "web"),))
REPLICAS = PodController(WatchedKind.REPLICA_SET, "r")
REPLICA_SET = ReplicaSetObject(
    name="r", namespace="default", replica_selector=(Requirement("app", "In", ("web",)),)
)
NO_SERVICE = ObjectGone(WatchedKind.SERVICE, ObjectKey("default", "web"))


def a_driver(*constraints: dict[str, Any], kind: str = "List", **zones: str) -> Driver:
    """Nodes of one card each in their zones, and a profile with these default constraints."""
    args: dict[str, Any] = {"defaultingType": kind, "defaultConstraints": [*constraints]}
    document = {"profiles": [{"pluginConfig": [{"name": "PodTopologySpread", "args": args}]}]}
    driver = Driver(dict.fromkeys(zones, 1), document)
    for name, zone in zones.items():
        driver.tell(NodeSeen(a_node(name, labels={ZONE: zone})))
    return driver


def placed(driver: Driver, *pods: Pod) -> list[str]:
    return sorted(driver.place(pod).node for pod in pods)


def waits(driver: Driver, pod: Pod) -> bool:
    """Whether there is no place for the pod now."""
    return not driver.seen(pod)


def test_pods_of_a_service_are_spread_and_others_are_packed() -> None:
    driver = a_driver(HARD, e="east", w="west")
    driver.tell(ObjectSeen(WEB_SERVICE))
    assert placed(driver, a_web("a"), a_web("b")) == ["e", "w"]
    assert len({*placed(driver, a_web("c", "red"), a_web("d", "red"))}) == 1


def test_pods_of_a_controller_are_spread() -> None:
    driver = a_driver(HARD, e="east", w="west")
    driver.tell(ObjectSeen(REPLICA_SET))
    owned = (replace(a_web(name), controller=REPLICAS) for name in "ab")
    assert placed(driver, *owned) == ["e", "w"]


def test_constraints_of_its_own_count_instead() -> None:
    driver = a_driver(HARD, e="east", w="west")
    driver.tell(ObjectSeen(WEB_SERVICE))
    driver.place(a_web("first"))
    softly = replace(EVEN, hard=False, max_skew=100, topology_key="rack")
    assert len({*placed(driver, *(a_web(name, spread=(softly,)) for name in "ab"))}) == 1


def test_profiles_may_differ_and_one_without_constraints_has_none() -> None:
    for constraints in ((), (HARD,)):
        driver = a_driver(*constraints, e="east", w="west")
        assert driver.machine.spreads_by_default == bool(constraints)
        driver.tell(ObjectSeen(WEB_SERVICE))
        assert len({*placed(driver, a_web("a"), a_web("b"))}) == 1 + len(constraints)


def where_b_waits(service: Event) -> Driver:
    """Pods a and b are of this service: b has to be in the west, which takes no pods."""
    driver = a_driver(HARD, e="east", full="west")
    driver.tell(service, NodeSeen(a_node("full", labels={ZONE: "west"}, unschedulable=True)))
    driver.place(a_web("a"))
    assert waits(driver, a_web("b"))
    return driver


def test_a_waiting_pod_is_tried_again_when_its_service_goes() -> None:
    driver = where_b_waits(ObjectSeen(WEB_SERVICE))
    driver.tell(ObjectSeen(replace(WEB_SERVICE, name="same")))
    assert driver.decide() == []
    driver.tell(ObjectGone(WatchedKind.SERVICE, ObjectKey("default", "same")), NO_SERVICE)
    assert nodes(driver.decide()) == {"b": "e"}


def test_a_list_without_the_service_lets_it_go_too() -> None:
    driver = where_b_waits(ObjectsListed(WatchedKind.SERVICE, (WEB_SERVICE,)))
    driver.tell(ObjectsListed(WatchedKind.SERVICE, ()))
    assert nodes(driver.decide()) == {"b": "e"}


def test_a_pod_that_gets_other_labels_leaves_its_service() -> None:
    driver = where_b_waits(ObjectSeen(WEB_SERVICE))
    assert nodes(driver.seen(replace(a_web("b"), labels=(("app", "db"),)))) == {"b": "e"}


def test_a_service_that_comes_while_a_pod_waits_counts() -> None:
    driver = a_driver(HARD, e="east", w="west")
    driver.place(a_web("a"))
    driver.tell(PodSeen(a_web("b")), ObjectSeen(WEB_SERVICE))
    (first,) = driver.decide()
    assert first.node != driver.machine.records[a_web("a").uid].node


def test_members_of_a_gang_are_spread_and_tried_again() -> None:
    group = PodGroup(name="g", headcount=2, min_available=2)
    members = [replace(a_web(name), group=group) for name in "ab"]
    driver = a_driver(HARD, e="east", w="west")
    driver.tell(ObjectSeen(WEB_SERVICE), *map(PodSeen, members))
    assert sorted(bind.node for bind in driver.decide()) == ["e", "w"]
    alone = a_driver(HARD, e="east", full="west")
    alone.tell(NodeSeen(a_node("full", labels={ZONE: "west"}, unschedulable=True)))
    alone.tell(ObjectSeen(WEB_SERVICE), *map(PodSeen, members))
    assert alone.decide() == []
    alone.tell(NO_SERVICE)
    assert sorted(bind.node for bind in alone.decide()) == ["e", "e"]


def test_it_says_why_in_the_words_of_constraints() -> None:
    driver = a_driver(HARD, e="east", full="west")
    driver.tell(ObjectSeen(WEB_SERVICE))
    driver.tell(NodeSeen(a_node("full", labels={ZONE: "west"}, unschedulable=True)))
    driver.place(a_web("a"))
    effects = driver.tell(PodSeen(a_web("b")), BindSlotsFree(1))
    (report,) = of(ReportWaiting, effects)
    assert "didn't match pod topology spread constraints" in report.diagnosis.message


def test_a_pod_that_nothing_selects_keeps_its_shape() -> None:
    for driver in (a_driver(HARD, e="east"), a_driver(kind="System", e="east"), a_driver(e="east")):
        driver.tell(ObjectSeen(WEB_SERVICE), PodSeen(a_web("other", "red")), PodSeen(a_web("web")))
        other, web = driver.machine.records.values()
        assert other.shape is other.pod.shape
        assert web.shape.is_cluster_wide == driver.machine.spreads_by_default
