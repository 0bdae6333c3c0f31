"""Pods that give way because of what a more important one asks about other pods, or of its port."""

from typing import Any

from kubeshare_py.domain.cluster_objects import Requirement
from kubeshare_py.domain.effects import Effect, Evict
from kubeshare_py.domain.events import BindSlotsFree, NodeSeen, PodGone, PodSeen
from kubeshare_py.domain.pod import (
    AffinityTerm,
    HostPort,
    InterPodTerms,
    Pod,
    PodGroup,
    PodSelector,
    SpreadConstraint,
)
from kubeshare_py.domain.values import replace
from tests.making import Driver, a_node, a_pod, a_shape

HOST = "kubernetes.io/hostname"
WEB = PodSelector(("default",), (Requirement("app", "In", ("web",)),))
PREEMPTS = {"profiles": [{"schedulerName": "kubeshare-scheduler"}]}


def a_driver(**zones: str) -> Driver:
    driver = Driver(dict.fromkeys(zones, 0), PREEMPTS)
    for name, zone in zones.items():
        driver.tell(NodeSeen(a_node(name, labels={"zone": zone, HOST: name})))
    return driver


def a_web(name: str, priority: int, ports: tuple[HostPort, ...] = (), **asked: Any) -> Pod:
    labels = (("app", "web"),)
    terms = InterPodTerms(namespace="default", labels=labels, **asked) if asked else None
    shape = a_shape(inter_pod=terms, host_ports=ports)
    return a_pod(name, shape, labels=labels, priority=priority)


def evicted(effects: list[Effect]) -> list[str]:
    return sorted(one.key.name for one in effects if isinstance(one, Evict))


def urgent(driver: Driver, pod: Pod) -> list[str]:
    """The pods that are evicted for it."""
    driver.tell(PodSeen(pod))
    return evicted(driver.tell(BindSlotsFree(64)) + driver.tell(BindSlotsFree(64)))


def far(key: str) -> dict[str, Any]:
    return {"anti_affinity": (AffinityTerm(WEB, key),)}


def test_a_pod_that_keeps_apart_evicts_the_pod_that_is_too_near() -> None:
    driver = a_driver(n1="east")
    driver.place(a_web("low", 0))
    assert urgent(driver, a_web("high", 10, **far(HOST))) == ["low"]
    driver.tell(PodGone(a_web("low", 0).uid, stopped=True))
    (bind,) = driver.decide()
    assert bind.key.name == "high"


def test_a_pod_evicts_the_one_whose_anti_affinity_keeps_it_away() -> None:
    driver = a_driver(n1="east")
    driver.place(a_web("low", 0, **far(HOST)))
    assert urgent(driver, a_web("high", 10)) == ["low"]


def test_a_conflict_on_another_node_of_the_domain_evicts_no_pod() -> None:
    driver = a_driver(n1="east", n2="east")
    low = driver.place(a_web("low", 0, **far("zone")))
    high = a_web("high", 10)
    other = "n2" if low.node == "n1" else "n1"
    shape = replace(high.shape, node_selector=((HOST, other),))
    assert urgent(driver, replace(high, shape=shape)) == []


def test_only_the_pods_in_the_way_are_evicted() -> None:
    driver = a_driver(n1="east")
    driver.place(a_web("low", 0))
    driver.place(replace(a_web("bystander", 0), labels=()))
    assert urgent(driver, a_web("high", 10, **far(HOST))) == ["low"]


def test_a_pod_evicts_the_one_that_has_its_port() -> None:
    driver = a_driver(n1="east")
    driver.place(a_web("low", 0, (HostPort(80),)))
    driver.place(a_web("other", 0, (HostPort(81),)))
    assert urgent(driver, a_web("high", 10, (HostPort(80),))) == ["low"]


def test_a_pod_evicts_one_to_be_spread_evenly() -> None:
    driver = a_driver(n1="east", n2="west")
    low = driver.place(a_web("low", 0))
    even = SpreadConstraint(
        max_skew=1, topology_key="zone", selector=WEB, hard=True, honours_affinity=False
    )
    high = a_web("high", 10, spread=(even,))
    shape = replace(high.shape, node_selector=((HOST, low.node),))
    assert urgent(driver, replace(high, shape=shape)) == ["low"]


def test_members_of_a_gang_that_keep_apart_evict_pods_on_several_nodes() -> None:
    driver = a_driver(n1="east", n2="east")
    for name in ("low-1", "low-2"):
        driver.place(a_web(name, 0, **far(HOST)))

    group = PodGroup(name="g", headcount=2, min_available=2)
    members = [replace(a_web(name, 10, **far(HOST)), group=group) for name in ("a", "b")]
    driver.tell(*(PodSeen(one) for one in members))
    assert evicted([e for _ in range(4) for e in driver.tell(BindSlotsFree(64))]) == [
        "low-1",
        "low-2",
    ]


def test_a_candidate_does_not_count_on_evictions_of_another() -> None:
    driver = a_driver(n1="east", n2="east")
    # On n2 only the keeper could go, and then no pod were left to be near.
    for name, node, ports in (("keeper", "n2", 80), ("holder", "n1", 80), ("bystander", "n1", 81)):
        low = a_web(name, 0, (HostPort(ports),))
        shape = replace(low.shape, node_selector=((HOST, node),))
        driver.place(replace(low, shape=shape, labels=low.labels if name == "keeper" else ()))
    terms = InterPodTerms(namespace="default", affinity=(AffinityTerm(WEB, "zone"),))
    high = a_pod("high", a_shape(inter_pod=terms, host_ports=(HostPort(80),)), priority=10)
    assert urgent(driver, high) == ["holder"]
