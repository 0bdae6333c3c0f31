"""The clusters of KubeShare's worked examples, with and without priorities of cells."""

from kubeshare_py.testing import SmallCluster
from tests.making import a_gpu


def abc(*plugins: object, priorities: tuple[int, int, int] = (0, 0, 0)) -> SmallCluster:
    """A: two cards, half of one used. B: two idle cards. C: one idle card."""
    cluster = SmallCluster(*plugins)
    for name, count, priority in zip("ABC", (2, 2, 1), priorities, strict=True):
        cluster.cards(name, count, cell_priority=priority)
    cluster.hold("A", "A-0", 500)
    return cluster


def juno(*plugins: object, priorities: tuple[int, int, int] = (0, 0, 0)) -> SmallCluster:
    """Juno: two cards, half of one used; cupid: one idle card; ubuntu: eight idle cards."""
    cluster = SmallCluster(*plugins)
    names = ("juno", "cupid", "ubuntu")
    for name, count, priority in zip(names, (2, 1, 8), priorities, strict=True):
        cluster.cards(name, count, cell_priority=priority)
    cluster.hold("juno", "juno-0", 500)
    return cluster


def two_cards(*plugins: object, idle_priority: int = 0, used_priority: int = 0) -> SmallCluster:
    """One node: an idle card, and one of which half is used."""
    cluster = SmallCluster(*plugins)
    cluster.node(
        "n1",
        a_gpu("idle", cell_priority=idle_priority),
        a_gpu("used", index=1, cell_priority=used_priority),
    )
    cluster.hold("n1", "used", 500)
    return cluster
