"""Pods near and far from each other, decided one after the other as the watch shows them."""

from typing import Any

import pytest

from kubeshare_py.domain.cluster_objects import NamespaceObject, Requirement, WatchedKind
from kubeshare_py.domain.effects import Bind, ReportWaiting
from kubeshare_py.domain.events import (
    BindSlotsFree,
    NodeSeen,
    ObjectSeen,
    ObjectsListed,
    PodGone,
    PodSeen,
    TimePassed,
)
from kubeshare_py.domain.identity import PodKey
from kubeshare_py.domain.pod import (
    AffinityTerm,
    InterPodTerms,
    Pod,
    PodSelector,
    Shape,
    SpreadConstraint,
    WeightedTerm,
)
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.explain.explanation import why
from tests.making import Driver, a_claim, a_node, a_pod, a_shape, a_share

ZONE, HOSTNAME = "zone", "kubernetes.io/hostname"
APP_IS_WEB = (Requirement("app", "In", ("web",)),)
WEB = PodSelector(("default",), APP_IS_WEB)
EVEN = SpreadConstraint(max_skew=1, topology_key=ZONE, selector=WEB, hard=True)


def a_driver(**zones: str) -> Driver:
    """Nodes of one card each, by name in their zones."""
    driver = Driver(dict.fromkeys(zones, 1))
    for name, zone in zones.items():
        driver.tell(NodeSeen(a_node(name, labels={ZONE: zone, HOSTNAME: name})))
    return driver


def a_web(name: str, namespace: str = "default", **asked: Any) -> Pod:
    """A pod of the app that holds a tenth of a card."""
    labels = (("app", "web"),)
    terms = InterPodTerms(namespace=namespace, labels=labels, **asked) if asked else None
    pod = a_pod(name, a_shape(a_claim(100), inter_pod=terms), labels=labels)
    return replace(pod, key=PodKey(namespace, name))


def far(key: str = HOSTNAME, selector: PodSelector = WEB) -> dict[str, Any]:
    return {"anti_affinity": (AffinityTerm(selector, key),)}


def near(key: str = ZONE, selector: PodSelector = WEB) -> dict[str, Any]:
    return {"affinity": (AffinityTerm(selector, key),)}


def nodes(binds: list[Bind]) -> dict[str, str]:
    return {bind.key.name: bind.node for bind in binds}


def test_replicas_that_keep_apart_get_a_node_each_and_the_next_one_waits() -> None:
    driver = a_driver(n1="east", n2="east")
    driver.tell(*(PodSeen(a_web(name, **far())) for name in "abc"))
    binds = driver.decide()
    assert sorted(nodes(binds).values()) == ["n1", "n2"]
    (first, *_) = binds
    driver.tell(PodGone(first.uid, stopped=True))
    assert nodes(driver.decide()) == {"c": first.node}


def test_pods_that_wait_say_why_in_kube_schedulers_words() -> None:
    driver = a_driver(n1="east", n2="east")
    driver.place(a_web("first", "elsewhere"))
    asked = {
        "near": near(selector=PodSelector((), None)),
        "even": {"spread": (replace(EVEN, topology_key="rack"),)},
        "skewed": {"spread": (replace(EVEN, min_domains=2), replace(EVEN, hard=False))},
        "far": far(ZONE, PodSelector(("elsewhere",), ())),
    }
    driver.place(a_web("one"))
    driver.tell(*(PodSeen(a_web(name, **terms)) for name, terms in asked.items()))
    effects = driver.tell(BindSlotsFree(64))
    said = {
        one.key.name: one.diagnosis.message for one in effects if isinstance(one, ReportWaiting)
    }
    skewed = "node(s) didn't match pod topology spread constraints"
    assert said == {
        "near": "0/2 nodes are available: 2 node(s) didn't match pod affinity rules.",
        "even": f"0/2 nodes are available: 2 {skewed} (missing required label).",
        "skewed": f"0/2 nodes are available: 2 {skewed}.",
        "far": "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules.",
    }


def test_an_anti_affinity_of_a_placed_pod_keeps_away_pods_that_ask_nothing() -> None:
    driver = a_driver(n1="east", n2="west")
    first = driver.place(a_web("first", **far(ZONE)))
    (second,) = driver.seen(a_web("second"))
    assert second.node != first.node
    assert driver.seen(a_web("other", "elsewhere")) != []


def test_pods_follow_the_first_of_their_series() -> None:
    driver = a_driver(n1="east", n2="west", n3="west")
    zones = {"n1": "east", "n2": "west", "n3": "west"}
    driver.tell(*(PodSeen(a_web(name, **near())) for name in "abcd"))
    assert len({zones[node] for node in nodes(driver.decide()).values()}) == 1


def test_a_pod_is_tried_again_when_the_one_comes_that_it_wants_to_be_near() -> None:
    driver = a_driver(n1="east", n2="west")
    db = PodSelector(("default",), (Requirement("app", "In", ("db",)),))
    assert driver.seen(a_web("waits", **near(selector=db))) == []
    other = a_share("db", 100, labels=(("app", "db"),), scheduler_name="other")
    assert nodes(driver.seen(replace(other, node_name=a_node("n2").name))) == {"waits": "n2"}


def test_pods_are_spread_one_by_one() -> None:
    driver = a_driver(n1="east", n2="west", n3="west")
    driver.tell(*(PodSeen(a_web(name, spread=(EVEN,))) for name in "abcd"))
    placed = list(nodes(driver.decide()).values())
    assert placed.count("n1") == 2


def test_preferences_decide_among_nodes() -> None:
    driver = a_driver(n1="east", n2="west")
    first = driver.place(a_web("first"))
    wish = WeightedTerm(AffinityTerm(WEB, HOSTNAME), -100)
    second = driver.place(a_web("second", preferred=(wish,)))
    assert second.node != first.node
    # The wish of the second pod is one of all that come later.
    assert driver.place(a_web("third")).node == first.node


def test_soft_constraints_decide_among_nodes() -> None:
    driver = a_driver(n1="east", n2="west")
    first, second = (driver.place(a_web(name)) for name in ("first", "second"))
    assert first.node == second.node
    assert driver.place(a_web("third", spread=(replace(EVEN, hard=False),))).node != first.node


@pytest.mark.parametrize(
    "asked",
    [
        {"preferred": (WeightedTerm(AffinityTerm(WEB, HOSTNAME), -100),)},
        {"spread": (replace(EVEN, hard=False),)},
    ],
)
def test_why_explains_a_placement_by_the_scores_that_decided(asked: dict[str, Any]) -> None:
    driver = a_driver(n1="east", n2="west", n3="west")
    for name in ("first", "second"):
        driver.place(a_web(name))
    bind = driver.place(a_web("third", **asked))
    found = why(driver.machine, PodKey("default", "third"))
    assert found is not None
    assert found.placement is not None
    assert bind.node != "n1"  # where the others are, and where it would be for what it holds alone
    assert (found.placement.rank, found.placement.fitting) == (1, 3)
    parts = found.placement.scores
    assert found.placement.score == sum(one.points * one.weight for one in parts)
    assert {one.plugin for one in parts} & {"InterPodAffinity", "PodTopologySpread"}


def test_namespaces_are_selected_by_their_labels_as_these_change() -> None:
    driver = a_driver(n1="east")
    teams = {"a": "x", "b": "y"}
    listed = [NamespaceObject(name=name, labels=(("team", team),)) for name, team in teams.items()]
    driver.tell(ObjectsListed(WatchedKind.NAMESPACE, tuple(listed)))
    driver.place(a_web("there", "b"))
    of_team_x = PodSelector((), APP_IS_WEB, (Requirement("team", "In", ("x",)),))
    assert driver.seen(a_web("waits", "a", **near(selector=of_team_x))) != []
    # It was the first of its series; one of another namespace is not.
    driver = a_driver(n1="east")
    driver.tell(ObjectsListed(WatchedKind.NAMESPACE, tuple(listed)))
    driver.place(a_web("there", "b"))
    assert driver.seen(a_web("waits", "c", **near(selector=of_team_x))) == []
    driver.tell(ObjectSeen(NamespaceObject(name="b", labels=(("team", "x"),))))
    assert nodes(driver.decide()) == {"waits": "n1"}


def test_a_pod_that_terminates_makes_room_for_spread_and_not_for_anti_affinity() -> None:
    driver = a_driver(n1="east", n2="west")
    driver.place(a_web("other", "elsewhere"))
    first = a_web("first")
    bind = driver.place(first)
    leaving = replace(first, node_name=bind.node, allocation=bind.allocation, deleting=True)
    driver.tell(PodSeen(leaving), TimePassed())
    spread = a_web("spread", spread=(EVEN,))
    assert driver.place(replace(spread, shape=on(bind.node, spread.shape))).node == bind.node
    (apart,) = driver.seen(a_web("apart", **far()))
    assert apart.node != bind.node


def on(node: str, shape: Shape) -> Shape:
    return replace(shape, node_selector=((HOSTNAME, node),))


@pytest.mark.parametrize("shown_first", [False, True])
def test_labels_that_change_while_a_pod_is_bound_count(shown_first: bool) -> None:
    driver = a_driver(n1="east", n2="west")
    pod = replace(a_web("first"), labels=())
    (bind,) = driver.seen(pod)
    pod = replace(pod, labels=(("app", "web"),))
    if shown_first:
        driver.tell(PodSeen(pod))
    driver.tell(PodSeen(replace(pod, node_name=bind.node, allocation=bind.allocation)))
    (second,) = driver.seen(a_web("second", **far()))
    assert second.node != bind.node


def test_a_pod_that_is_deleted_while_it_is_bound_does_not_count_for_spread() -> None:
    zones = {"n1": "east", "n2": "west"}
    driver = a_driver(**zones)
    (bind,) = driver.seen(a_web("first"))
    gone = replace(a_web("first"), deleting=True)
    driver.tell(PodSeen(replace(gone, node_name=bind.node, allocation=bind.allocation)))
    ((other, zone),) = (pair for pair in zones.items() if pair[0] != bind.node)
    driver.tell(NodeSeen(a_node(other, labels={ZONE: zone}, unschedulable=True)))
    assert nodes(driver.seen(a_web("next", spread=(EVEN,)))) == {"next": bind.node}


def test_a_pod_that_gets_a_label_while_it_waits_keeps_away_from_what_minds_it() -> None:
    driver = a_driver(n1="east")
    driver.place(a_web("minds", **far()))
    big = driver.place(a_share("big", 900))
    waits = a_share("waits", 500)
    assert driver.seen(waits) == []
    driver.tell(PodSeen(replace(waits, labels=(("app", "web"),))))
    driver.tell(PodGone(big.uid, stopped=True))
    assert driver.decide() == []


def test_a_pod_that_loses_the_label_which_kept_it_away_is_tried_at_once() -> None:
    driver = a_driver(n1="east")
    driver.place(a_web("minds", **far()))
    assert driver.seen(a_web("waits")) == []
    assert nodes(driver.seen(replace(a_web("waits"), labels=()))) == {"waits": "n1"}
