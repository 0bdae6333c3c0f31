"""Taints keep pods away that do not tolerate them."""

import pytest

from kubeshare_plugins.kubernetes.taint_toleration import TaintToleration, tolerates
from kubeshare_py.domain.node import Taint
from kubeshare_py.domain.pod import Toleration
from kubeshare_py.testing import SmallCluster
from tests.making import a_shape

UNTOLERATED = "node(s) had untolerated taint(s)"


@pytest.fixture
def cluster() -> SmallCluster:
    cluster = SmallCluster(TaintToleration())
    cluster.node("open")
    cluster.node("gpu", taints=(Taint("gpu", "only", "NoSchedule"),))
    cluster.node(
        "leaving", taints=(Taint("gpu", "only", "NoSchedule"), Taint("bye", "", "NoExecute"))
    )
    cluster.node("rather-not", taints=(Taint("slow", "", "PreferNoSchedule"),))
    return cluster


def test_no_schedule_and_no_execute_keep_away_and_prefer_does_not(cluster: SmallCluster) -> None:
    assert cluster.where(a_shape()) == {"open", "rather-not"}
    assert cluster.why(a_shape()) == {UNTOLERATED: 2}


def test_every_taint_must_be_tolerated(cluster: SmallCluster) -> None:
    one = a_shape(tolerations=(Toleration("gpu", "Equal", "only"),))
    assert cluster.where(one) == {"open", "rather-not", "gpu"}
    both = a_shape(tolerations=(Toleration("gpu", "Exists"), Toleration("bye", "Exists")))
    assert cluster.where(both) == {"open", "rather-not", "gpu", "leaving"}


def test_a_taint_that_goes_away_opens_the_node(cluster: SmallCluster) -> None:
    assert "gpu" not in cluster.where(a_shape())
    cluster.node("gpu")
    assert "gpu" in cluster.where(a_shape())


def test_a_taint_that_comes_closes_the_node(cluster: SmallCluster) -> None:
    assert "open" in cluster.where(a_shape())
    cluster.node("open", taints=(Taint("node.kubernetes.io/not-ready", "", "NoExecute"),))
    assert "open" not in cluster.where(a_shape())


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        (Toleration("k", "Equal", "v", "NoSchedule"), True),
        (Toleration("k", "Equal", "v", ""), True),
        (Toleration("k", "", "v"), True),
        (Toleration("k", "Equal", "other"), False),
        (Toleration("k", "Equal", ""), False),
        (Toleration("other", "Equal", "v"), False),
        (Toleration("k", "Exists", "", "NoSchedule"), True),
        (Toleration("k", "Exists", "", "NoExecute"), False),
        (Toleration("other", "Exists"), False),
        (Toleration("", "Exists"), True),
        (Toleration("", "Exists", "", "NoExecute"), False),
        (Toleration("", "Equal", "v"), False),
        (Toleration("k", "Gt", "0"), False),
    ],
)
def test_what_a_toleration_covers(toleration: Toleration, covers: bool) -> None:
    assert tolerates((toleration,), Taint("k", "v", "NoSchedule")) is covers


def test_one_toleration_of_several_is_enough() -> None:
    assert tolerates((Toleration("a"), Toleration("k", "Exists")), Taint("k"))
    assert not tolerates((), Taint("k"))
