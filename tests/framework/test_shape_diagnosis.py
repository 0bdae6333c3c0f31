"""What a diagnosis counts, beside the texts that other tests compare."""

from kubeshare_plugins import IN_TREE
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.framework.profile_making import profiles
from tests.making import a_node, a_shape, whole

DEFAULT = profiles(read(None), IN_TREE)[0]


def an_evaluator() -> Evaluator:
    """Nodes that are cordoned, full, and too small."""
    ledger = Ledger()
    ledger.put_node(a_node("cordoned", cpu=10, unschedulable=True))
    ledger.put_node(a_node("full", cpu=100))
    ledger.put_node(a_node("small", cpu=10))
    ledger.charge(PodUid("uid"), NodeName("full"), (("cpu", 100),), None)
    return Evaluator(DEFAULT, ledger)


def test_a_node_counts_for_the_first_filter_that_refuses_it() -> None:
    found = an_evaluator().diagnose(a_shape(cpu=50))
    assert found.counts == (("Insufficient cpu", 2), ("node(s) were unschedulable", 1))
    assert found.plugins == ("NodeResourcesFit", "NodeUnschedulable")


def test_nodes_in_reach_are_those_that_evictions_could_help_against() -> None:
    assert an_evaluator().diagnose(a_shape(cpu=50)).in_reach == 1
    assert an_evaluator().diagnose(a_shape(cpu=200)).in_reach == 0


def test_reasons_of_cards_count_only_where_nothing_else_refuses() -> None:
    found = an_evaluator().diagnose(a_shape(whole(1), cpu=1))
    assert dict(found.counts) == {
        "Insufficient cpu": 1,
        "no GPU": 1,
        "node(s) were unschedulable": 1,
    }
