"""Node selectors and required node affinity."""

import pytest

from kubeshare_plugins.kubernetes.node_affinity import NodeAffinity, matches
from kubeshare_py.domain.cluster_objects import Requirement
from kubeshare_py.domain.pod import NodeTerm
from kubeshare_py.testing import SmallCluster
from tests.making import a_shape

NO_MATCH = "node(s) didn't match Pod's node affinity/selector"


@pytest.fixture
def cluster() -> SmallCluster:
    cluster = SmallCluster(NodeAffinity())
    cluster.node("east", labels={"zone": "east", "gpus": "8"})
    cluster.node("west", labels={"zone": "west", "gpus": "2"})
    cluster.node("bare")
    return cluster


def label(key: str, operator: str, *values: str) -> NodeTerm:
    return NodeTerm(labels=(Requirement(key, operator, values),))


def field(operator: str, *names: str) -> NodeTerm:
    return NodeTerm(fields=(Requirement("metadata.name", operator, names),))


def found(cluster: SmallCluster, *terms: NodeTerm) -> set[str]:
    return cluster.where(a_shape(terms=terms))


@pytest.mark.parametrize(
    ("term", "nodes"),
    [
        (label("zone", "In", "east", "north"), {"east"}),
        (label("zone", "In"), set()),
        (label("zone", "NotIn", "east"), {"west", "bare"}),
        (label("zone", "NotIn"), set()),
        (label("zone", "Exists"), {"east", "west"}),
        (label("zone", "DoesNotExist"), {"bare"}),
        (label("gpus", "Gt", "2"), {"east"}),
        (label("gpus", "Lt", "8"), {"west"}),
        (label("gpus", "Gt", "-1"), {"east", "west"}),
        (label("zone", "Gt", "1"), set()),
        (label("gpus", "Gt", "many"), set()),
        (label("gpus", "Gt"), set()),
        (label("gpus", "Gt", "1", "1"), set()),
        (label("zone", "Like", "east"), set()),
        (field("In", "bare"), {"bare"}),
        (field("NotIn", "bare"), {"east", "west"}),
        (NodeTerm(fields=(Requirement("metadata.uid", "NotIn", ("x",)),)), set()),
        (NodeTerm(), set()),
    ],
)
def test_what_a_term_matches(cluster: SmallCluster, term: NodeTerm, nodes: set[str]) -> None:
    assert found(cluster, term) == nodes


def test_the_lines_of_a_term_must_all_hold(cluster: SmallCluster) -> None:
    both = NodeTerm(
        labels=(Requirement("zone", "Exists"), Requirement("gpus", "Lt", ("4",))),
        fields=(Requirement("metadata.name", "NotIn", ("east",)),),
    )
    assert found(cluster, both) == {"west"}
    neither = NodeTerm(
        labels=(Requirement("zone", "In", ("east",)),),
        fields=(Requirement("metadata.name", "In", ("west",)),),
    )
    assert found(cluster, neither) == set()


def test_one_of_several_terms_is_enough(cluster: SmallCluster) -> None:
    assert found(cluster, label("zone", "In", "east"), field("In", "bare")) == {"east", "bare"}
    assert found(cluster, NodeTerm(), label("zone", "In", "east")) == {"east"}


def test_required_affinity_without_terms_matches_nothing(cluster: SmallCluster) -> None:
    assert found(cluster) == set()


def test_selector_and_affinity_must_both_hold(cluster: SmallCluster) -> None:
    east = (("zone", "east"),)
    assert cluster.where(a_shape(node_selector=east)) == {"east"}
    shape = a_shape(node_selector=east, terms=(label("gpus", "Lt", "4"),))
    assert cluster.where(shape) == set()
    assert cluster.why(shape) == {NO_MATCH: 3}


def test_every_label_of_a_selector_must_be_there(cluster: SmallCluster) -> None:
    selector = (("gpus", "8"), ("zone", "west"))
    assert cluster.where(a_shape(node_selector=selector)) == set()


def test_pods_that_do_not_mind_fit_everywhere(cluster: SmallCluster) -> None:
    assert cluster.where(a_shape()) == {"east", "west", "bare"}


def test_a_changed_label_counts_at_once(cluster: SmallCluster) -> None:
    shape = a_shape(terms=(label("zone", "NotIn", "east"),))
    assert cluster.where(shape) == {"west", "bare"}
    cluster.node("bare", labels={"zone": "east"})
    cluster.node("east", labels={"zone": "south"})
    assert cluster.where(shape) == {"west", "east"}


def test_a_node_that_comes_later_is_matched_too(cluster: SmallCluster) -> None:
    by_label, by_name = label("zone", "In", "new"), field("In", "late")
    assert found(cluster, by_label) == found(cluster, by_name) == set()
    cluster.node("late", labels={"zone": "new"})
    assert found(cluster, by_label) == found(cluster, by_name) == {"late"}


def test_an_empty_cluster_matches_nothing() -> None:
    empty = SmallCluster(NodeAffinity())
    assert found(empty, field("In", "bare")) == found(empty, label("zone", "Exists")) == set()


@pytest.mark.parametrize("number", ["1_000", " 5", "5 ", "\u0665", "5.0", "0x5", "", str(1 << 63)])
def test_numbers_are_those_that_the_api_server_reads(number: str) -> None:
    assert not matches(Requirement("k", "Gt", ("1",)), number)
    assert not matches(Requirement("k", "Lt", (number,)), "1")


@pytest.mark.parametrize("number", ["7", "+7", "007", str((1 << 63) - 1)])
def test_signs_and_leading_zeros_are_numbers(number: str) -> None:
    assert matches(Requirement("k", "Gt", ("6",)), number)
    assert matches(Requirement("k", "Lt", (number,)), "-8")
