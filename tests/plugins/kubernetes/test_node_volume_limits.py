"""Nodes whose drivers can attach a pod's volumes."""

from kubeshare_plugins.kubernetes.volume_binding import NodeVolumeLimits
from kubeshare_py.domain.storage import CsiNode
from kubeshare_py.testing import expect_contract, expect_fits, expect_reason
from tests.cluster.storage_world import NS, a_claim, a_volume, mounting
from tests.making import a_shape
from tests.plugins.kubernetes.volume_cluster import VolumeCluster, with_claims

ALL = ["n1", "n2", "n3"]


def a_cluster() -> VolumeCluster:
    """Claims c and d with volumes of one driver, of which n1 attaches one."""
    cluster = VolumeCluster(NodeVolumeLimits(), CsiNode(name="n1", drivers=(("driver", 1),)))
    for name in "cd":
        cluster.put(a_volume(name, csi_driver="driver", handle=name))
        cluster.put(a_claim(name, volume=name, bind_completed=True))
    return cluster


def test_a_node_that_attaches_all_that_it_can_takes_no_further_volume() -> None:
    cluster, shape = a_cluster(), with_claims("c")
    expect_fits(cluster, shape, ALL)
    cluster.mount("n1", mounting("d"))
    expect_fits(cluster, shape, ["n2", "n3"])
    expect_reason(cluster, shape, "node(s) exceed max volume count", 1)
    expect_contract(cluster, shape)
    assert len(cluster.evaluator.evictable_rows(shape)) == 1


def test_volumes_of_no_driver_and_pods_without_volumes_go_anywhere() -> None:
    cluster = a_cluster()
    cluster.put(a_volume("nfs"), a_claim("nfs", volume="nfs", bind_completed=True))
    expect_fits(cluster, with_claims("nfs"), ALL)
    expect_fits(cluster, a_shape(), ALL)


def test_a_claim_that_is_not_there_is_named_with_its_namespace() -> None:
    said = a_cluster().said(with_claims("gone"))
    missing = f'looking up PVC {NS}/gone: persistentvolumeclaim "gone" not found'
    assert said == f"0/3 nodes are available: 3 {missing}."
