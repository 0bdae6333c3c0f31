"""KubeShare's score of pods with priority 0 and below."""

import numpy as np
import pytest

from kubeshare_plugins.gpu_fit import GpuFit
from kubeshare_plugins.kubeshare_opportunistic import KubeShareOpportunistic, normalise
from kubeshare_py.cluster.rows import AllRows
from kubeshare_py.framework.points import Score
from kubeshare_py.testing import SmallCluster
from tests.making import a_claim, a_gpu, a_shape, whole
from tests.plugins.kubeshare_nodes import abc, juno, two_cards


def raw(cluster: SmallCluster, *names: str, **claim: object) -> list[int]:
    """Scores before they are normalised."""
    (plugin,) = (plugin for plugin in cluster.plugins if isinstance(plugin, Score))
    question = plugin.score(a_shape(a_claim(**claim)))  # type: ignore[arg-type]
    assert question is not None
    points = question(AllRows(cluster.ledger.columns), None)
    rows = {str(name): row for name, row in cluster.ledger.columns.row_of.items()}
    return [points[rows[name]].item() for name in names]


def test_scores_of_the_three_example_nodes() -> None:
    cluster = abc(GpuFit(), KubeShareOpportunistic())
    assert raw(cluster, "A", "B", "C") == [0, -50, -100]
    assert cluster.scores(a_shape(a_claim())) == {"A": 100, "B": 50, "C": 0}
    assert cluster.best(a_shape(a_claim())) == ("A", ["A-0"])


def test_priorities_of_cells_count_as_in_kubeshare() -> None:
    cluster = abc(GpuFit(), KubeShareOpportunistic(), priorities=(100, 100, 1))
    assert raw(cluster, "A", "B", "C") == [100, 50, -99]
    assert cluster.scores(a_shape(a_claim())) == {"A": 100, "B": 74, "C": 0}
    cluster = juno(GpuFit(), KubeShareOpportunistic(), priorities=(11, 1, 100))
    assert raw(cluster, "juno", "cupid", "ubuntu") == [11, -99, 87]
    assert cluster.scores(a_shape(a_claim())) == {"juno": 59, "cupid": 0, "ubuntu": 100}


def test_a_card_of_higher_priority_is_taken_though_it_is_emptier() -> None:
    cluster = two_cards(GpuFit(), KubeShareOpportunistic(), idle_priority=51)
    assert cluster.best(a_shape(a_claim(300))) == ("n1", ["idle"])
    cluster = two_cards(GpuFit(), KubeShareOpportunistic(), idle_priority=49)
    assert cluster.best(a_shape(a_claim(300))) == ("n1", ["used"])


def test_scores_are_cut_toward_zero() -> None:
    cluster = juno(GpuFit(), KubeShareOpportunistic())
    assert raw(cluster, "juno", "cupid", "ubuntu") == [0, -100, -12]  # -12.5
    assert cluster.scores(a_shape(a_claim())) == {"juno": 100, "cupid": 0, "ubuntu": 88}


@pytest.mark.parametrize(
    ("scores", "normalised"),
    [
        ([-64, -9999, -10250], [100, 2, 0]),
        ([-10664, -10699, -250], [0, 0, 100]),
        ([11, -99, 87], [59, 0, 100]),
        ([100, 50, -99], [100, 74, 0]),
        ([75, 100, 1], [75, 100, 1]),
        ([250, 250], [0, 0]),
        ([0], [0]),
        ([], []),
    ],
)
def test_scores_are_normalised_as_kubeshare_does(scores: list[int], normalised: list[int]) -> None:
    assert normalise(np.array(scores, np.int64)).tolist() == normalised


def test_the_used_card_is_taken_before_the_idle_one() -> None:
    cluster = two_cards(GpuFit(), KubeShareOpportunistic())
    assert cluster.best(a_shape(a_claim(300))) == ("n1", ["used"])
    assert cluster.best(a_shape(a_claim(501))) == ("n1", ["idle"])
    assert cluster.best(a_shape(whole(1))) == ("n1", ["idle"])


def test_unhealthy_cards_and_cards_that_left_do_not_count() -> None:
    cluster = abc(GpuFit(), KubeShareOpportunistic())
    cluster.node("D", a_gpu("D-0"), a_gpu("D-1", index=1, healthy=False))
    cluster.hold("D", "D-0", 500)
    cluster.hold("D", "D-gone", 1000)
    assert raw(cluster, "D") == [50]


def test_only_cards_of_the_wanted_model_count() -> None:
    cluster = SmallCluster(GpuFit(), KubeShareOpportunistic())
    cluster.node("n1", a_gpu("a", model="T4"), a_gpu("b", index=1, model="A100"))
    cluster.hold("n1", "b", 500)
    assert raw(cluster, "n1", models=("T4",)) == [-100]
    assert raw(cluster, "n1", models=("A100",)) == [50]
    assert raw(cluster, "n1", models=("H100",)) == [0]


def test_a_node_without_cards_scores_0() -> None:
    cluster = abc(GpuFit(), KubeShareOpportunistic())
    cluster.node("plain")
    assert raw(cluster, "plain") == [0]


def test_it_says_nothing_about_guarantees_and_pods_without_gpus() -> None:
    plugin = KubeShareOpportunistic()
    assert plugin.score(a_shape()) is None
    assert plugin.score(a_shape(a_claim(), guarantee=True)) is None
    assert plugin.card_score(a_shape(a_claim(), guarantee=True)) is None
