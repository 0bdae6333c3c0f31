"""Cards near an RDMA device, for pods that ask for one."""

import pytest
import yaml

from kubeshare_plugins import IN_TREE
from kubeshare_plugins.rdma_proximity import RdmaProximity
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.domain.card_reading import BusPath
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.domain.values import replace
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.testing import SmallCluster
from tests.making import a_claim, a_gpu, a_node, a_shape, whole
from tests.plugins.test_config_files import FOLDER

HCA = ("rdma/hca", 1)
PIX, PXB, PHB, NODE, SYS = BusPath
Near = BusPath | None


def a_cluster(**nodes: list[Near]) -> SmallCluster:
    """Nodes whose cards <node>-0, <node>-1 … are so near an RDMA device."""
    cluster = SmallCluster()
    (profile,) = profiles(read(yaml.safe_load((FOLDER / "rdma.yaml").read_text())), IN_TREE)
    cluster.evaluator = Evaluator(profile, cluster.ledger)
    for name, paths in nodes.items():
        cards = [a_gpu(f"{name}-{at}", index=at, rdma=path) for at, path in enumerate(paths)]
        cluster.node(name, *cards)
        node = a_node(name)
        offered = tuple(sorted((*node.allocatable, ("rdma/hca", 8))))
        cluster.ledger.put_node(replace(node, allocatable=offered))
    return cluster


def asking(claim: GpuClaim, *resources: tuple[str, int]) -> Shape:
    shape = a_shape(claim, cpu=0)
    return replace(shape, resources=tuple(sorted((*shape.resources, *resources))))


def taken(cluster: SmallCluster, claim: GpuClaim, *resources: tuple[str, int]) -> list[str]:
    best = cluster.best(asking(claim, *resources))
    assert best is not None
    return best[1]


def test_a_pod_that_asks_gets_the_nearest_card_before_a_fuller_one() -> None:
    cluster = a_cluster(n1=[SYS, NODE], n2=[PHB, PIX])
    cluster.hold("n1", "n1-0", 500)
    assert taken(cluster, a_claim(400), HCA) == ["n2-1"]
    assert taken(cluster, whole(1), HCA) == ["n2-1"]
    assert taken(cluster, a_claim(400)) == ["n1-0"]


def test_several_cards_are_as_near_as_the_farthest_of_them() -> None:
    cluster = a_cluster(n1=[PIX, SYS, SYS, SYS], n2=[PXB, PXB, SYS, SYS])
    assert sorted(taken(cluster, whole(2), HCA)) == ["n2-0", "n2-1"]


@pytest.mark.parametrize("paths", [[None, None], [SYS, SYS]])
def test_where_all_cards_are_alike_other_policies_decide(paths: list[Near]) -> None:
    cluster = a_cluster(n1=paths, n2=paths)
    cluster.hold("n2", "n2-1", 300)
    assert taken(cluster, a_claim(400), HCA) == ["n2-1"]


def test_pods_without_such_a_device_or_without_cards_are_not_asked_about() -> None:
    plugin = RdmaProximity()
    assert plugin.score(asking(a_claim(400))) is None
    assert plugin.card_score(asking(a_claim(400), ("rdma/hca", 0))) is None
    assert plugin.score(Shape(resources=(HCA,))) is None
    named = RdmaProximity(resources=["example.com/nic"])
    assert named.score(asking(a_claim(400), ("example.com/nic", 1))) is not None
    assert named.score(asking(a_claim(400), HCA)) is None
