"""IsolationReady: rather, or only, cards that have what the pod's back-end needs."""

from typing import Any

import pytest

from kubeshare_plugins.gpu_fit import GpuFit
from kubeshare_plugins.isolation_ready import IsolationReady
from kubeshare_py.domain.card_reading import IsolationBackend, of_labels
from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.pod import Shape
from kubeshare_py.testing import SmallCluster
from tests.making import a_claim, a_gpu, a_shape, whole

NO_DAEMON = "GPU with no running MPS daemon"


def card(uuid: str, index: int = 0, **told: str) -> Gpu:
    return a_gpu(uuid, index=index, readiness=of_labels(tuple(told.items())))


def share(backend: IsolationBackend = IsolationBackend.MPS, **fields: Any) -> Shape:
    return a_shape(a_claim(300, **fields), isolation=backend)


def three_nodes(*plugins: object) -> SmallCluster:
    cluster = SmallCluster(*plugins)
    cluster.node("dead", card("a", mps="no-daemon", driver="ready"))
    cluster.node("ready", card("b", mps="ready", driver="old-driver"))
    cluster.node("quiet", card("c", driver="cgroup-v1"))
    return cluster


def test_as_a_filter_it_takes_no_card_that_lacks_something() -> None:
    cluster = three_nodes(GpuFit(), IsolationReady())
    assert cluster.where(share()) == {"ready", "quiet"}
    assert cluster.why(share()) == {NO_DAEMON: 1}
    assert cluster.where(share(IsolationBackend.DRIVER)) == {"dead"}
    assert cluster.why(share(IsolationBackend.DRIVER)) == {
        "GPU with a driver older than r615": 1,
        "GPU with cgroup v1 on its node": 1,
    }
    # Nobody has told of it anywhere.
    assert cluster.where(share(IsolationBackend.GEMINI)) == {"dead", "ready", "quiet"}


@pytest.mark.parametrize("shape", [share(IsolationBackend.NONE), a_shape(), a_shape(whole(1))])
def test_pods_that_need_no_back_end_have_no_opinion(shape: Shape) -> None:
    plugin = IsolationReady()
    assert plugin.score(shape) is None
    assert plugin.card_score(shape) is None
    cluster = three_nodes(GpuFit(), plugin)
    assert cluster.where(shape) == {"dead", "ready", "quiet"}
    assert cluster.explain(shape, "dead") == []


def test_of_a_nodes_cards_only_the_others_are_taken() -> None:
    cluster = SmallCluster(GpuFit(), IsolationReady())
    cluster.node("n1", card("a", 0, mps="no-daemon"), card("b", 1, mps="ready"))
    assert cluster.best(share()) == ("n1", ["b"])
    assert cluster.explain(share()) == [Shortfall(reason=NO_DAEMON, subject="a")]
    cluster.hold("n1", "b", 900)
    # The nearer miss: what is missing there may become free.
    assert cluster.why(share()) == {"Insufficient GPU": 1}


def test_a_smaller_node_lacks_the_same_as_a_large_one() -> None:
    cluster = SmallCluster(GpuFit(), IsolationReady())
    cluster.node("large", *(card(uuid, at, mps="no-daemon") for at, uuid in enumerate("abc")))
    cluster.node("small", card("d", mps="no-daemon"))
    cluster.node("none")
    assert cluster.why(share()) == {NO_DAEMON: 2, "no GPU": 1}


def test_what_it_says_changes_with_the_card() -> None:
    cluster = SmallCluster(GpuFit(), IsolationReady())
    for told, nodes in (("ready", {"n1"}), ("no-daemon", set()), ("ready", {"n1"})):
        cluster.node("n1", card("a", mps=told))
        assert cluster.where(share()) == nodes
    cluster.node("n1", card("a", mps="of-a-newer-collector"))
    assert cluster.why(share()) == {"GPU with something missing that this version does not know": 1}


def test_as_a_score_it_prefers_what_is_known_to_work() -> None:
    cluster = three_nodes(IsolationReady())
    assert cluster.scores(share()) == {"dead": 0, "ready": 100, "quiet": 50}
    assert cluster.best(share()) == ("ready", ["b"])


def test_of_the_cards_of_a_node_it_prefers_the_same() -> None:
    cluster = SmallCluster(GpuFit(), IsolationReady())
    told = ("no-daemon", "", "ready")
    cluster.node("n1", *(card(uuid, at, mps=told[at]) for at, uuid in enumerate("abc")))
    for best in ("c", "b", "a"):
        # It is a filter here too.
        expected = None if best == "a" else ("n1", [best])
        assert cluster.best(share()) == expected
        cluster.hold("n1", best, 1000)
