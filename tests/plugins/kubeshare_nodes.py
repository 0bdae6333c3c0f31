"""The clusters of KubeShare's worked examples, cells without priority or distance."""

from tests.builders import a_gpu
from tests.plugins.small_cluster import SmallCluster


def abc(*plugins: object) -> SmallCluster:
    """A: two cards, half of one used. B: two idle cards. C: one idle card."""
    cluster = SmallCluster(*plugins)
    for name, count in (("A", 2), ("B", 2), ("C", 1)):
        cluster.cards(name, count)
    cluster.hold("A", "A-0", 500)
    return cluster


def juno(*plugins: object) -> SmallCluster:
    """Juno: two cards, half of one used; cupid: one idle card; ubuntu: eight idle cards."""
    cluster = SmallCluster(*plugins)
    for name, count in (("juno", 2), ("cupid", 1), ("ubuntu", 8)):
        cluster.cards(name, count)
    cluster.hold("juno", "juno-0", 500)
    return cluster


def two_cards(*plugins: object) -> SmallCluster:
    """One node: an idle card, and one of which half is used."""
    cluster = SmallCluster(*plugins)
    cluster.node("n1", a_gpu("idle"), a_gpu("used", index=1))
    cluster.hold("n1", "used", 500)
    return cluster
