"""KubeShare's score of pods with priority 1 to 100."""

from kubeshare_plugins.gpu_fit import GpuFit
from kubeshare_plugins.kubeshare_guarantee import KubeShareGuarantee
from kubeshare_plugins.kubeshare_opportunistic import KubeShareOpportunistic
from tests.making import a_claim, a_gpu, a_shape, whole
from tests.plugins.kubeshare_nodes import abc, juno, two_cards

GUARANTEE = a_shape(a_claim(300), guarantee=True)


def test_scores_of_the_three_example_nodes() -> None:
    cluster = abc(GpuFit(), KubeShareGuarantee())
    assert cluster.scores(GUARANTEE) == {"A": 0, "B": 25, "C": 25}  # -25, 0, 0
    assert cluster.best(GUARANTEE) == ("B", ["B-0"])


def test_priorities_of_cells_count_as_in_kubeshare() -> None:
    cluster = abc(GpuFit(), KubeShareGuarantee(), priorities=(100, 100, 1))
    assert cluster.scores(GUARANTEE) == {"A": 75, "B": 100, "C": 1}
    cluster = juno(GpuFit(), KubeShareGuarantee(), priorities=(11, 1, 100))
    # -14, 1 and 100 are shifted by 14, and what then exceeds 100 is scaled.
    assert cluster.scores(GUARANTEE) == {"juno": 0, "cupid": 13, "ubuntu": 100}


def test_a_card_of_higher_priority_is_taken_though_it_is_fuller() -> None:
    cluster = two_cards(GpuFit(), KubeShareGuarantee(), used_priority=51)
    assert cluster.best(GUARANTEE) == ("n1", ["used"])
    cluster = two_cards(GpuFit(), KubeShareGuarantee(), used_priority=49)
    assert cluster.best(GUARANTEE) == ("n1", ["idle"])


def test_pods_of_a_group_are_not_drawn_to_each_other_by_the_file() -> None:
    """(fix) KubeShare draws pods without a group, too, to whatever card others of them hold."""
    cluster = juno(GpuFit(), KubeShareGuarantee(), priorities=(11, 1, 100))
    cluster.hold("ubuntu", "ubuntu-0", 500)
    cluster.cards("pear", 1, cell_priority=100)
    assert cluster.best(GUARANTEE) == ("pear", ["pear-0"])


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
