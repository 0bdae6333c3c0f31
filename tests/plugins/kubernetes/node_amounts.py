"""Any amounts of nodes, pods on them and pods that wait, for scores of resources."""

from dataclasses import dataclass, field

from hypothesis import strategies as st

from kubeshare_py.domain.pod import UNREQUESTED, Shape
from kubeshare_py.testing import SmallCluster
from tests.making import a_shape

KINDS = ("cpu", "memory", "ephemeral-storage", "example.com/nic", "hugepages-2Mi")
Amounts = dict[str, int]


@dataclass(frozen=True)
class Held:
    """What a pod asks for, and what scores count besides."""

    asked: Amounts
    more: Amounts = field(default_factory=dict)

    def scored(self, name: str) -> int:
        return self.asked.get(name, 0) + self.more.get(name, 0)


@dataclass(frozen=True)
class OneNode:
    offered: Amounts
    pods: list[Held]


def amounts(most: int) -> st.SearchStrategy[Amounts]:
    return st.dictionaries(st.sampled_from(KINDS), st.integers(0, most), max_size=len(KINDS))


HELD = st.builds(
    Held, amounts(40), st.dictionaries(st.sampled_from(("cpu", "memory")), st.integers(1, 30))
)
NODE = st.builds(OneNode, amounts(100), st.lists(HELD, max_size=3))
NODES = st.lists(NODE, min_size=1, max_size=4)


def pairs(held: Held) -> tuple[tuple[str, int], ...]:
    more = {UNREQUESTED[name]: amount for name, amount in held.more.items()}
    return (*sorted(held.asked.items()), *sorted(more.items()))


def shape_of(pod: Held) -> Shape:
    asked = tuple(sorted((name, amount) for name, amount in pod.asked.items() if amount))
    more = tuple((UNREQUESTED[name], amount) for name, amount in sorted(pod.more.items()))
    return a_shape(resources=asked, unrequested=more)


def cluster_of(nodes: list[OneNode], plugin: object) -> SmallCluster:
    cluster = SmallCluster(plugin)
    for at, node in enumerate(nodes):
        cluster.node(f"n{at}", allocatable=(*sorted(node.offered.items()), ("pods", 110)))
        for pod in node.pods:
            cluster.hold(f"n{at}", resources=pairs(pod))
    return cluster
