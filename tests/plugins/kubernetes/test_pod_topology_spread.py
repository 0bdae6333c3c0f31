"""Pods spread evenly over topology domains, judged pod by pod."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_plugins.kubernetes.pod_topology_spread import PodTopologySpread
from kubeshare_py.domain.pod import PodSelector, SpreadConstraint
from kubeshare_py.domain.values import replace
from kubeshare_py.plugin import ArgumentError
from tests.making import a_shape
from tests.plugins.kubernetes.inter_pod_crowd import (
    HOSTNAME,
    RACK,
    ZONE,
    Crowd,
    a_pod,
    any_pods,
    even,
    models,
    nodes,
    shape_of,
)
from tests.plugins.kubernetes.inter_pod_model import (
    SKEWED,
    UNLABELLED,
    Model,
    ModelNode,
    ModelPod,
)


def crowd(*webs: str) -> Crowd:
    """Two nodes in the east, one in the west and one without a zone; a web pod for each name."""
    model = nodes(e1="east", e2="east", w="west", bare=None)
    model.placed += [(name, a_pod("web")) for name in webs]
    return Crowd(model, PodTopologySpread())


def fits(crowd: Crowd, pod: ModelPod) -> set[str]:
    return {name for name, reason in crowd.reasons(shape_of(pod)).items() if reason is None}


def test_one_more_pod_must_not_exceed_the_skew() -> None:
    pod = a_pod("web", spread=(even(),))
    assert crowd("e1").reasons(shape_of(pod)) == {
        "e1": SKEWED,
        "e2": SKEWED,
        "w": None,
        "bare": UNLABELLED,
    }
    assert fits(crowd("e1", "w"), pod) == {"e1", "e2", "w"}
    assert fits(crowd("e1"), a_pod("web", spread=(even(max_skew=2),))) == {"e1", "e2", "w"}


def test_a_pod_that_is_not_of_its_own_constraint_adds_nothing() -> None:
    assert fits(crowd("e1"), a_pod("db", spread=(even(),))) == {"e1", "e2", "w"}
    assert fits(crowd("e1", "e1"), a_pod("db", spread=(even(),))) == {"w"}


def test_with_too_few_domains_the_least_number_is_none() -> None:
    placed = crowd("e1", "w")
    assert fits(placed, a_pod("web", spread=(even(min_domains=2),))) == {"e1", "e2", "w"}
    assert fits(placed, a_pod("web", spread=(even(min_domains=3),))) == set()


def test_pods_that_terminate_and_of_other_namespaces_do_not_count() -> None:
    placed = crowd()
    model = placed.model
    model.placed += [("e1", a_pod("web", terminating=True)), ("e1", a_pod("web", "b"))]
    pod = a_pod("web", spread=(even(),))
    assert fits(Crowd(model, PodTopologySpread()), pod) == {"e1", "e2", "w"}


def test_an_empty_selector_counts_no_pods_and_none_selects_none() -> None:
    for wanted in ((), None):
        constraint = even(selector=PodSelector(("a",), wanted))
        assert fits(crowd("e1", "e1"), a_pod("web", spread=(constraint,))) == {"e1", "e2", "w"}


def test_only_nodes_with_the_labels_of_all_hard_constraints_count() -> None:
    model = Model(
        [
            ModelNode("a", {ZONE: "1", RACK: "x"}),
            ModelNode("b", {ZONE: "2", RACK: "x"}),
            ModelNode("c", {ZONE: "3"}),
        ],
        [("a", a_pod("web"))],
    )
    pod = a_pod("web", spread=(even(ZONE), even(RACK, 9)))
    # Zone 3 is empty, but its only node has no rack.
    assert Crowd(model, PodTopologySpread()).reasons(shape_of(pod)) == {
        "a": SKEWED,
        "b": None,
        "c": UNLABELLED,
    }


def test_the_first_reason_is_named() -> None:
    model = Model(
        [
            ModelNode("a", {ZONE: "1", RACK: "x"}),
            ModelNode("b", {ZONE: "2", RACK: "x"}),
            ModelNode("c", {ZONE: "1"}),
        ],
        [("a", a_pod("web"))],
    )
    crowd, zone, rack = Crowd(model, PodTopologySpread()), even(ZONE), even(RACK, 9)
    assert crowd.reasons(shape_of(a_pod("web", spread=(zone, rack))))["c"] == SKEWED
    assert crowd.reasons(shape_of(a_pod("web", spread=(rack, zone))))["c"] == UNLABELLED


def test_policies_say_whether_nodes_count_that_the_pod_cannot_use() -> None:
    def refused(*, picky: bool = False, **policy: Any) -> str | None:
        nodes = [
            ModelNode("a", {ZONE: "1"}),
            ModelNode("b", {ZONE: "2"}, is_allowed=False, is_tolerated=False),
        ]
        model = Model(nodes, [("a", a_pod("web"))])
        pod = a_pod("web", spread=(even(**policy),))
        return Crowd(model, PodTopologySpread()).reasons(shape_of(pod, picky=picky))["a"]

    # With zone 2, which is empty, zone 1 has one pod too many.
    assert refused() == SKEWED
    assert refused(picky=True) is None
    assert refused(picky=True, honours_affinity=False) == SKEWED
    assert refused(honours_taints=True) is None


def test_only_a_missing_label_cannot_be_resolved_by_evictions() -> None:
    placed = crowd("e1")
    shape = shape_of(a_pod("web", spread=(even(),)))
    near = placed.cluster.evaluator.evictable_rows(shape).tolist()
    assert near == [placed.row("e1"), placed.row("e2")]


def test_a_pod_without_constraints_is_not_asked_about() -> None:
    plugin = PodTopologySpread()
    hard, soft = a_pod("web", spread=(even(),)), a_pod("web", spread=(even(hard=False),))
    assert plugin.score(a_shape()) is None
    assert plugin.score(shape_of(hard)) is None
    assert fits(crowd("e1", "e1"), soft) == {"e1", "e2", "w", "bare"}


def test_fewer_pods_in_the_domain_score_more() -> None:
    placed = crowd("e1", "e1", "w")
    pod = a_pod("web", spread=(even(hard=False),))
    # ln(4) a pod: 3 and 1 after rounding. The node without a zone gets nothing.
    found = placed.scores(PodTopologySpread(), shape_of(pod), placed.model.nodes)
    assert found == {"e1": 33, "e2": 33, "w": 100, "bare": 0}


def test_on_hostnames_each_node_has_its_own_number() -> None:
    placed = crowd("e1", "e1", "w")
    pod = a_pod("web", spread=(even(HOSTNAME, hard=False),))
    found = placed.scores(PodTopologySpread(), shape_of(pod), placed.model.nodes)
    # ln(6) a pod: 4, 0, 2, 0 after rounding.
    assert found == {"e1": 0, "e2": 100, "w": 50, "bare": 100}


def test_nodes_without_all_labels_do_not_make_domains_wider() -> None:
    def pod(key: str) -> ModelPod:
        return a_pod("web", spread=(even(key, hard=False), even(RACK, hard=False)))

    model = Model(
        [
            ModelNode("a", {HOSTNAME: "a", ZONE: "1", RACK: "x"}),
            ModelNode("b", {HOSTNAME: "b", ZONE: "2", RACK: "y"}),
            *(ModelNode(f"c{one}", {HOSTNAME: f"c{one}", ZONE: f"3{one}"}) for one in range(50)),
        ],
        [("a", a_pod("web"))] * 2 + [("b", a_pod("web"))],
    )
    for key in (ZONE, HOSTNAME):
        found = Crowd(model).scores(PodTopologySpread(), shape_of(pod(key)), model.nodes)
        # 2 and 1 pods times ln(4) twice: 6 and 3. With 52 domains it were 11 and 5.
        assert (found["a"], found["b"]) == (50, 100)
        assert {found[f"c{one}"] for one in range(50)} == {0}


def test_without_any_pods_all_are_best() -> None:
    placed = crowd()
    pod = a_pod("web", spread=(even(hard=False),))
    found = placed.scores(PodTopologySpread(), shape_of(pod), placed.model.nodes)
    assert found == {"e1": 100, "e2": 100, "w": 100, "bare": 0}


def listed(action: str = "ScheduleAnyway", **fields: Any) -> list[dict[str, Any]]:
    return [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": action, **fields}]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"defaultingType": "Both"}, "defaultingType"),
        (
            {"defaultingType": "System", "defaultConstraints": listed()},
            "defaultConstraints: defaultingType must be List",
        ),
        ({"defaultConstraints": listed(maxSkew=0)}, r"defaultConstraints\[0\].maxSkew"),
        ({"defaultConstraints": listed("Never")}, r"defaultConstraints\[0\].whenUnsatisfiable"),
        ({"defaultConstraints": listed(labelSelector={})}, r"defaultConstraints\[0\]"),
        (
            {"defaultConstraints": listed() + listed(maxSkew=2)},
            rf"defaultConstraints\[1\]: {ZONE}, ScheduleAnyway is there twice",
        ),
    ],
)
def test_a_bad_argument_is_named(args: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        PodTopologySpread(**args)


def test_default_constraints_are_the_profiles_to_give() -> None:
    more = {"minDomains": 2, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"}
    args = listed("DoNotSchedule", **more, matchLabelKeys=["version"])
    (hard,) = PodTopologySpread(defaultConstraints=args).default_spread
    assert hard == SpreadConstraint(
        max_skew=1,
        topology_key=ZONE,
        selector=PodSelector((), None),
        hard=True,
        min_domains=2,
        honours_affinity=False,
        honours_taints=True,
    )
    (soft,) = PodTopologySpread(defaultingType="List", defaultConstraints=listed()).default_spread
    assert (soft.hard, soft.honours_affinity, soft.needs_label) == (False, True, True)
    assert PodTopologySpread().default_spread == ()


def test_the_systems_constraints_score_nodes_without_a_label_too() -> None:
    host, zone = PodTopologySpread(defaultingType="System").default_spread
    assert [(one.topology_key, one.max_skew, one.hard) for one in (host, zone)] == [
        ("kubernetes.io/hostname", 3, False),
        ("topology.kubernetes.io/zone", 5, False),
    ]
    placed = crowd("e1", "e1", "w", "bare")
    spread = tuple(
        replace(one, selector=even().selector) for one in (host, replace(zone, topology_key=ZONE))
    )
    found = placed.scores(
        PodTopologySpread(), shape_of(a_pod("web", spread=spread)), placed.model.nodes
    )
    # By host ln(6) a pod and 2 more, by zone ln(5) a pod and 4 more, where there is a label:
    # 12.8, 9.2, 9.4 and 3.8, of which only the first is by host alone.
    assert found == {"e1": 30, "e2": 61, "w": 61, "bare": 100}


@given(model=models(), pod=any_pods(), picky=st.booleans())
def test_reasons_are_those_of_the_definition(model: Model, pod: ModelPod, picky: bool) -> None:
    found = Crowd(model, PodTopologySpread()).reasons(shape_of(pod, picky=picky))
    seen = as_seen(model, picky)
    assert found == {node.name: seen.skew_refusal(pod, node) for node in seen.nodes}


@given(model=models(), pod=any_pods(), picky=st.booleans(), data=st.data())
def test_scores_are_those_of_the_definition(
    model: Model, pod: ModelPod, picky: bool, data: st.DataObject
) -> None:
    seen, asks = as_seen(model, picky), pod.terms is not None and pod.terms.spread
    fitting = data.draw(st.lists(st.sampled_from(seen.nodes), min_size=1, unique_by=id))
    plugin, shape = PodTopologySpread(), shape_of(pod, picky=picky)
    found = Crowd(model).scores(plugin, shape, fitting)
    if plugin.score(shape) is not None:
        assert found == seen.spread_scores(pod, fitting)
    else:
        assert not asks or all(one.hard for one in asks)


@pytest.mark.slow
@given(model=models(), pod=any_pods(), data=st.data())
def test_what_is_tried_counts_in_what_if_questions(
    model: Model, pod: ModelPod, data: st.DataObject
) -> None:
    crowd = Crowd(model, PodTopologySpread())
    names = st.sampled_from([node.name for node in model.nodes])
    more = data.draw(st.lists(st.tuples(names, any_pods()), max_size=3))
    evaluator, _ = crowd.tried([(*one, 1) for one in more])
    then = as_seen(Model(model.nodes, [*model.placed, *more], model.namespaces), picky=False)
    assert crowd.reasons(shape_of(pod), evaluator) == {
        node.name: then.skew_refusal(pod, node) for node in then.nodes
    }


def as_seen(model: Model, picky: bool) -> Model:
    """The model for a pod that is not picky: all nodes are allowed."""
    nodes = [
        ModelNode(node.name, node.labels, node.is_allowed or not picky, node.is_tolerated)
        for node in model.nodes
    ]
    return Model(nodes, model.placed, model.namespaces)
