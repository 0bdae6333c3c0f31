"""KubeShare's score of pods with priority 1 to 100 (its cells' priorities are 0 here)."""

from kubeshare_plugins.gpu_fit import GpuFit
from kubeshare_plugins.kubeshare_guarantee import KubeShareGuarantee
from kubeshare_plugins.kubeshare_opportunistic import KubeShareOpportunistic
from tests.builders import a_claim, a_gpu, a_shape, whole
from tests.plugins.kubeshare_nodes import abc, juno, two_cards

GUARANTEE = a_shape(a_claim(300), guarantee=True)


def test_scores_of_the_three_example_nodes() -> None:
    cluster = abc(GpuFit(), KubeShareGuarantee())
    assert cluster.scores(GUARANTEE) == {"A": 0, "B": 25, "C": 25}  # -25, 0, 0
    assert cluster.best(GUARANTEE) == ("B", ["B-0"])


def test_scores_of_nodes_of_different_size() -> None:
    cluster = juno(GpuFit(), KubeShareGuarantee())
    cluster.hold("ubuntu", "ubuntu-3", 1000)
    # -25, 0 and -12.5, cut toward zero
    assert cluster.scores(GUARANTEE) == {"juno": 0, "cupid": 25, "ubuntu": 13}


def test_the_idle_card_is_taken_before_the_used_one() -> None:
    cluster = two_cards(GpuFit(), KubeShareGuarantee())
    assert cluster.best(GUARANTEE) == ("n1", ["idle"])
    cluster.hold("n1", "idle", 800)
    assert cluster.best(GUARANTEE) == ("n1", ["used"])
    assert cluster.best(a_shape(whole(1), guarantee=True)) is None


def test_unhealthy_cards_do_not_count() -> None:
    cluster = abc(GpuFit(), KubeShareGuarantee())
    cluster.node("D", a_gpu("D-0"), a_gpu("D-1", index=1, healthy=False))
    cluster.hold("D", "D-0", 500)
    assert cluster.scores(GUARANTEE)["A"] == 25  # -25 beside D's -50
    assert cluster.scores(GUARANTEE)["D"] == 0


def test_both_classes_live_side_by_side() -> None:
    cluster = two_cards(GpuFit(), KubeShareOpportunistic(), KubeShareGuarantee())
    assert cluster.best(a_shape(a_claim(300))) == ("n1", ["used"])
    assert cluster.best(GUARANTEE) == ("n1", ["idle"])


def test_it_says_nothing_about_other_pods() -> None:
    plugin = KubeShareGuarantee()
    assert plugin.score(a_shape(guarantee=True)) is None
    assert plugin.score(a_shape(a_claim())) is None
    assert plugin.card_score(a_shape(a_claim())) is None
