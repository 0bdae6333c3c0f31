"""Preferences of nodes: NodeAffinity's and TaintToleration's scores, against plain rules."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_plugins.kubernetes.node_affinity import NodeAffinity
from kubeshare_plugins.kubernetes.taint_toleration import TaintToleration
from kubeshare_py.domain.cluster_objects import Requirement
from kubeshare_py.domain.node import Taint
from kubeshare_py.domain.pod import NodePreferences, NodeTerm, Shape, Toleration
from kubeshare_py.plugin import ArgumentError
from kubeshare_py.testing import SmallCluster, expect_best, expect_contract, expect_score
from tests.making import a_shape

ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
NO_MATCH = "node(s) didn't match Pod's node affinity/selector"
LABELS = st.dictionaries(st.sampled_from("ab"), st.sampled_from(["1", "2", "x"]))
LINE = st.builds(
    Requirement,
    st.sampled_from("abc"),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]),
    st.sampled_from([(), ("1",), ("1", "x"), ("2",)]),
)
FIELD = st.builds(
    Requirement,
    st.just("metadata.name"),
    st.sampled_from(["In", "NotIn"]),
    st.sampled_from([("n0",), ("n1",), ("other",)]),
)
TERM = st.builds(
    NodeTerm, st.lists(LINE, max_size=2).map(tuple), st.lists(FIELD, max_size=1).map(tuple)
)
WEIGHTED = st.lists(st.tuples(st.integers(1, 100), TERM), min_size=1, max_size=4)
TAINT = st.builds(
    Taint,
    st.sampled_from("kl"),
    st.sampled_from(["", "1", "2"]),
    st.sampled_from(["NoSchedule", "PreferNoSchedule", "PreferNoSchedule"]),
)
TAINTS = st.lists(TAINT, max_size=4, unique_by=lambda taint: (taint.key, taint.effect))
TOLERATION = st.builds(
    Toleration,
    st.sampled_from("klm"),
    st.sampled_from(["Equal", "Exists", "Gt", "Lt"]),
    st.sampled_from(["", "1"]),
    st.sampled_from(["", "NoSchedule", "PreferNoSchedule"]),
)


def holds(line: Requirement, value: str | None) -> bool:
    listed = value is not None and value in line.values
    by_operator = {
        "In": listed,
        "NotIn": bool(line.values) and not listed,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }
    if line.operator in by_operator:
        return by_operator[line.operator]
    if value is None or not value.isdigit() or len(line.values) != 1 or line.values[0] == "x":
        return False
    bound = int(line.values[0])
    return int(value) > bound if line.operator == "Gt" else int(value) < bound


def satisfies(term: NodeTerm, name: str, labels: dict[str, str]) -> bool:
    if not term.labels and not term.fields:
        return False
    return all(holds(one, labels.get(one.key)) for one in term.labels) and all(
        holds(one, name) for one in term.fields
    )


def preferring(*weighted: tuple[int, NodeTerm]) -> Shape:
    weights, terms = zip(*weighted, strict=True)
    return a_shape(preferences=NodePreferences(weights, terms))


@given(st.lists(LABELS, min_size=1, max_size=4), WEIGHTED)
def test_the_weights_of_what_holds_are_summed_and_the_highest_sum_is_100(
    nodes: list[dict[str, str]], weighted: list[tuple[int, NodeTerm]]
) -> None:
    cluster = SmallCluster(NodeAffinity())
    sums = {}
    for at, labels in enumerate(nodes):
        name = f"n{at}"
        cluster.node(name, labels=labels)
        sums[name] = sum(weight for weight, term in weighted if satisfies(term, name, labels))
    most = max(sums.values())
    wanted = {name: 100 * total // most if most else 0 for name, total in sums.items()}
    shape = preferring(*weighted)
    assert cluster.scores(shape) == wanted
    expect_contract(cluster, shape)
    best = cluster.best(shape)
    assert best is not None
    assert wanted[best[0]] == max(wanted.values())


@given(st.lists(TAINTS, min_size=1, max_size=4), st.lists(TOLERATION, max_size=3))
def test_the_node_with_the_most_taints_that_are_not_tolerated_gets_0(
    nodes: list[list[Taint]], tolerations: list[Toleration]
) -> None:
    def tolerated(taint: Taint) -> bool:
        return any(
            (one.key, one.effect or taint.effect) == (taint.key, taint.effect)
            and (one.operator == "Exists" or (one.operator, one.value) == ("Equal", taint.value))
            for one in tolerations
        )

    cluster = SmallCluster(TaintToleration())
    counts = {}
    for at, taints in enumerate(nodes):
        cluster.node(f"n{at}", taints=tuple(taints))
        bad = [one for one in taints if one.effect == "PreferNoSchedule" and not tolerated(one)]
        counts[f"n{at}"] = len(bad)
    most = max(counts.values())
    wanted = {name: 100 - (100 * count // most if most else 0) for name, count in counts.items()}
    shape = a_shape(tolerations=tuple(tolerations))
    assert cluster.scores(shape) == wanted
    expect_contract(cluster, shape)


def test_points_are_relative_to_the_nodes_that_fit() -> None:
    cluster = SmallCluster(NodeAffinity(), TaintToleration(), weights={"NodeAffinity": 1})
    cluster.node("n0", labels={"a": "1"}, taints=(Taint("k", "", "NoSchedule"),))
    cluster.node("n1", labels={"b": "1"}, taints=(Taint("l", "", "PreferNoSchedule"),))
    cluster.node("n2")
    likes = NodeTerm((Requirement("a", "Exists"),)), NodeTerm((Requirement("b", "Exists"),))
    # With n0, n1 would have 1 point of 100; without it, all of them: as many as n2's taints count.
    shape = preferring((100, likes[0]), (1, likes[1]))
    expect_best(cluster, shape, "n1")
    expect_best(cluster, a_shape(), "n2")


def test_nodes_that_change_are_judged_again() -> None:
    cluster = SmallCluster(NodeAffinity(), TaintToleration())
    for name in ("n0", "n1", "n2"):
        cluster.node(name)
    shape = preferring((1, NodeTerm((Requirement("a", "Exists"),))))
    expect_best(cluster, shape, "n0")
    cluster.node("n2", labels={"a": "1"})
    expect_best(cluster, shape, "n2")
    cluster.node("n2", labels={"a": "1"}, taints=(Taint("k", "", "PreferNoSchedule"),))
    cluster.node("n0", taints=(Taint("k", "", "PreferNoSchedule"),))
    cluster.node("n1", labels={"a": "1"})
    expect_best(cluster, shape, "n1")
    expect_best(cluster, a_shape(), "n1")
    cluster.node("n0")
    expect_best(cluster, a_shape(), "n0")


def test_nodes_that_are_all_alike_cost_nothing() -> None:
    cluster = SmallCluster(NodeAffinity(), TaintToleration())
    cluster.node("n0")
    cluster.node("n1", taints=(Taint("k", "", "NoSchedule"),))
    assert cluster.evaluator.results.refreshed(a_shape()).normal == []
    cluster.node("n1", taints=(Taint("k", "", "PreferNoSchedule"),))
    assert len(cluster.evaluator.results.refreshed(a_shape()).normal) == 1
    cluster.node("n1")
    assert cluster.evaluator.results.refreshed(a_shape()).normal == []


def test_pods_without_preferences_are_not_asked_about() -> None:
    assert NodeAffinity().score(a_shape()) is None


EAST = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["east"]}]}
BY_NAME = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}


def required(*terms: Any) -> Any:
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}


def preferred(*terms: Any) -> Any:
    written = [{"weight": weight, "preference": term} for weight, term in terms]
    return {"preferredDuringSchedulingIgnoredDuringExecution": written}


def zones(plugin: NodeAffinity) -> SmallCluster:
    cluster = SmallCluster(plugin)
    for name, zone in (("n0", "west"), ("n1", "north"), ("n2", "east")):
        cluster.node(name, labels={"zone": zone})
    return cluster


def test_added_terms_hold_for_all_pods_of_the_profile() -> None:
    cluster = zones(NodeAffinity(addedAffinity=required(EAST, BY_NAME)))
    assert cluster.where(a_shape()) == {"n1", "n2"}
    assert cluster.why(a_shape()) == {ENFORCED: 1}
    shape = a_shape(node_selector=(("zone", "west"),))
    assert cluster.why(shape) == {ENFORCED: 1, NO_MATCH: 2}


def test_added_preferences_are_summed_with_the_pods_own() -> None:
    cluster = zones(NodeAffinity(addedAffinity=preferred((40, EAST), (0, BY_NAME))))
    expect_score(cluster, a_shape(), {"n0": 0, "n1": 0, "n2": 100})
    west = NodeTerm((Requirement("zone", "In", ("west", "east")),))
    expect_score(cluster, preferring((10, west)), {"n0": 20, "n1": 0, "n2": 100})


def test_a_selector_without_terms_matches_nothing() -> None:
    assert zones(NodeAffinity(addedAffinity=required())).where(a_shape()) == set()


@pytest.mark.parametrize(
    ("terms", "reasons"),
    [
        ([("n0",), ("n1",)], {"node(s) didn't satisfy plugin(s) [NodeAffinity]": 1}),
        ([("n9",)], {"node(s) didn't satisfy plugin(s) [NodeAffinity]": 3}),
        ([("n0",), None], {NO_MATCH: 1}),
    ],
)
def test_nodes_that_the_pod_does_not_name_have_a_reason_of_their_own(
    terms: list[tuple[str, ...] | None], reasons: dict[str, int]
) -> None:
    cluster = zones(NodeAffinity())
    named = tuple(
        NodeTerm((Requirement("zone", "In", ("north",)),))
        if names is None
        else NodeTerm((), (Requirement("metadata.name", "In", names),))
        for names in terms
    )
    assert cluster.why(a_shape(terms=named)) == reasons


def test_names_that_exclude_each_other_are_a_conflict() -> None:
    lines = tuple(Requirement("metadata.name", "In", (name,)) for name in ("n0", "n1"))
    found = zones(NodeAffinity()).why(a_shape(terms=(NodeTerm((), lines),)))
    assert found == {"pod affinity terms conflict": 0}


REQUIRED = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
PREFERRED = "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]"
BAD_LINES = [
    ({"key": "a", "operator": "Like"}, "matchExpressions[0].operator: "),
    ({"operator": "Exists"}, "matchExpressions[0]: "),
    ({"key": "a", "operator": "In"}, "matchExpressions[0].values: In needs a value"),
    ({"key": "a", "operator": "Exists", "values": ["x"]}, "matchExpressions[0].values: Exists has"),
    ({"key": "a", "operator": "Gt", "values": ["x"]}, "matchExpressions[0].values: Gt needs one"),
    ({"key": "a", "operator": "Lt", "values": []}, "matchExpressions[0].values: Lt needs one"),
]
BAD_TERMS: list[tuple[Any, str]] = [
    *(({"matchExpressions": [line]}, problem) for line, problem in BAD_LINES),
    ({"matchFields": [{"key": "a", "operator": "In", "values": ["x"]}]}, "matchFields[0].key: "),
    (
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["x", "y"]}]},
        "matchFields[0].values: ",
    ),
    ({"matchLabels": {}}, "matchLabels: "),
]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        *((required(term), f"{REQUIRED}.{problem}") for term, problem in BAD_TERMS),
        *((preferred((1, term)), f"{PREFERRED}.preference.{text}") for term, text in BAD_TERMS),
        (preferred((101, EAST)), f"{PREFERRED}.weight: "),
        ({"required": 1}, "addedAffinity.required: "),
        (7, "addedAffinity: "),
    ],
)
def test_a_mistake_in_the_arguments_is_named(given: Any, problem: str) -> None:
    with pytest.raises(ArgumentError) as error:
        NodeAffinity(addedAffinity=given)
    assert str(error.value).startswith(problem)


@pytest.mark.parametrize(
    ("operator", "value"), [("Gt", "1"), ("Gt", "5"), ("Lt", "1"), ("Lt", "5")]
)
def test_comparisons_tolerate_nothing_while_they_are_alpha(operator: str, value: str) -> None:
    cluster = SmallCluster(TaintToleration())
    cluster.node("n0", taints=(Taint("sla", "3", "NoSchedule"),))
    tolerations = (Toleration("sla", operator, value, "NoSchedule"),)
    assert cluster.where(a_shape(tolerations=tolerations)) == set()


def test_preferences_order_the_nodes_of_a_gangs_domain_too() -> None:
    cluster = SmallCluster(NodeAffinity(), TaintToleration())
    for name, labels in (("n0", {"a": "1"}), ("n1", {}), ("n2", {"b": "1"})):
        cluster.node(name, labels=labels)
    wished = (
        (9, NodeTerm((Requirement("a", "Exists"),))),
        (1, NodeTerm((Requirement("b", "Exists"),))),
    )
    among = cluster.evaluator.best_among(preferring(*wished), np.array([1, 2]))
    assert among is not None
    assert among.row == 2
    nowhere = a_shape(node_selector=(("c", "1"),))
    assert cluster.evaluator.best_among(nowhere, np.array([1, 2])) is None
