"""Cordoned nodes."""

import pytest

from kubeshare_plugins.kubernetes.taint_toleration import NodeUnschedulable
from kubeshare_py.domain.pod import Toleration
from kubeshare_py.testing import SmallCluster
from tests.making import a_shape

CORDON = "node.kubernetes.io/unschedulable"


@pytest.fixture
def cluster() -> SmallCluster:
    cluster = SmallCluster(NodeUnschedulable())
    cluster.node("open")
    cluster.node("cordoned", unschedulable=True)
    return cluster


def test_a_cordoned_node_takes_nobody(cluster: SmallCluster) -> None:
    assert cluster.where(a_shape()) == {"open"}
    assert cluster.why(a_shape()) == {"node(s) were unschedulable": 1}


@pytest.mark.parametrize(
    "toleration",
    [
        Toleration(CORDON, "Exists", "", "NoSchedule"),
        Toleration(CORDON, "Equal", "", ""),
        Toleration("", "Exists"),
    ],
)
def test_a_cordon_can_be_tolerated(cluster: SmallCluster, toleration: Toleration) -> None:
    assert cluster.where(a_shape(tolerations=(toleration,))) == {"open", "cordoned"}


def test_other_tolerations_do_not_help(cluster: SmallCluster) -> None:
    other = a_shape(tolerations=(Toleration(CORDON, "Exists", "", "NoExecute"), Toleration("x")))
    assert cluster.where(other) == {"open"}


def test_uncordoning_opens_the_node_again(cluster: SmallCluster) -> None:
    assert cluster.where(a_shape()) == {"open"}
    cluster.node("cordoned", unschedulable=False)
    assert cluster.where(a_shape()) == {"open", "cordoned"}
