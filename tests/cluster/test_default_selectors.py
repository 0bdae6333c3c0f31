"""Which pods belong together, as kube-scheduler's DefaultSelector says."""

from kubeshare_py.cluster.cluster_objects import ClusterObjects, DefaultSelectors
from kubeshare_py.domain.cluster_objects import (
    Labels,
    PodController,
    ReplicaSetObject,
    ReplicationControllerObject,
    Requirement,
    ServiceObject,
    StatefulSetObject,
    WatchedKind,
)
from kubeshare_py.domain.events import AnyObject
from kubeshare_py.domain.pod import PodSelector

NS = "default"
WEB: Labels = (("app", "web"), ("tier", "front"))
APP_IS_WEB = Requirement("app", "In", ("web",))
HAS_TIER = Requirement("tier", "Exists")


def selectors(*objects: AnyObject) -> DefaultSelectors:
    known = ClusterObjects()
    for one in objects:
        known.put(one)
    return DefaultSelectors(known)


def service(name: str, namespace: str = NS, **labels: str) -> ServiceObject:
    return ServiceObject(
        name=name, namespace=namespace, endpoint_labels=tuple(sorted(labels.items()))
    )


def selected(*lines: Requirement) -> PodSelector:
    return PodSelector((NS,), lines)


def test_a_pod_that_nothing_selects_has_none() -> None:
    found = selectors(
        service("other", app="db"),
        service("more", app="web", tier="back"),
        service("elsewhere", "red", app="web"),
        service("without"),
    )
    assert found.of(NS, WEB, None) is None
    assert found.of(NS, (), None) is None
    assert found.of(NS, WEB, PodController(WatchedKind.REPLICA_SET, "gone")) is None


def test_the_labels_of_its_services_are_merged() -> None:
    found = selectors(
        service("a", app="web"), service("b", tier="front"), service("c", app="web", tier="front")
    )
    front = Requirement("tier", "In", ("front",))
    assert found.of(NS, WEB, None) == selected(APP_IS_WEB, front)
    assert found.of(NS, (("app", "web"),), None) == selected(APP_IS_WEB)


def test_the_lines_of_its_controller_hold_besides() -> None:
    # Both kinds under both names: only the one that the pod names counts.
    found = selectors(
        service("a", app="web"),
        ReplicaSetObject(name="x", namespace=NS, replica_selector=(HAS_TIER, APP_IS_WEB)),
        StatefulSetObject(name="x", namespace=NS, ordinal_selector=(HAS_TIER,)),
        ReplicaSetObject(name="y", namespace="red", replica_selector=(HAS_TIER,)),
    )
    replicas, ordinals = WatchedKind.REPLICA_SET, WatchedKind.STATEFUL_SET
    assert found.of(NS, WEB, PodController(replicas, "x")) == selected(APP_IS_WEB, HAS_TIER)
    assert found.of(NS, (), PodController(ordinals, "x")) == selected(HAS_TIER)
    assert found.of(NS, (), PodController(replicas, "y")) is None


def test_labels_of_a_replication_controller_take_precedence() -> None:
    found = selectors(
        service("a", app="web"),
        ReplicationControllerObject(name="x", namespace=NS, replica_labels=(("app", "db"),)),
    )
    by = PodController(WatchedKind.REPLICATION_CONTROLLER, "x")
    assert found.of(NS, WEB, by) == selected(Requirement("app", "In", ("db",)))


def test_answers_follow_the_objects_and_the_version_grows() -> None:
    known = ClusterObjects()
    found = DefaultSelectors(known)
    seen = [found.version]
    for one in (service("a", app="web"), ReplicaSetObject(name="x", namespace=NS)):
        assert known.put(one)
        seen.append(found.version)
    assert found.of(NS, WEB, None) == selected(APP_IS_WEB)
    known.drop(WatchedKind.SERVICE, service("a").key)
    seen.append(found.version)
    assert found.of(NS, WEB, None) is None
    assert seen == sorted(set(seen))
