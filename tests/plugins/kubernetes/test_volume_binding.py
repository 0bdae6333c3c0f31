"""Nodes where claims have their volumes, or can get them."""

from kubeshare_plugins.kubernetes.volume_binding import VolumeBinding
from kubeshare_py.domain.pod import InlineDisk
from kubeshare_py.domain.storage import CsiDriver, StorageClass
from kubeshare_py.framework.reasons import ReasonTable
from kubeshare_py.testing import expect_contract, expect_fits, expect_reason
from tests.cluster.storage_world import a_claim, a_volume, on
from tests.making import a_shape
from tests.plugins.kubernetes.volume_cluster import VolumeCluster, with_claims, with_disks

LOCAL = StorageClass(name="local", provisioner="kubernetes.io/no-provisioner", waits=True)
MADE = StorageClass(name="made", provisioner="d", waits=True)
C = with_claims("c")


def test_pods_without_claims_are_not_asked_about() -> None:
    cluster = VolumeCluster(VolumeBinding())
    assert VolumeBinding().filter(a_shape(), ReasonTable()) is None
    disk = with_disks(InlineDisk("iscsi", "d"))
    assert VolumeBinding().filter(disk, ReasonTable()) is None
    expect_fits(cluster, disk, ["n1", "n2", "n3"])


def test_a_bound_claim_keeps_its_pod_where_the_volume_is() -> None:
    cluster = VolumeCluster(VolumeBinding(), a_volume("v", node_terms=on("n2")))
    cluster.put(a_claim("c", volume="v", bind_completed=True))
    expect_fits(cluster, C, ["n2"])
    expect_reason(cluster, C, "node(s) didn't match PersistentVolume's node affinity", 2)
    expect_contract(cluster, C)


def test_a_claim_that_waits_goes_where_there_is_a_volume_for_it() -> None:
    cluster = VolumeCluster(
        VolumeBinding(), LOCAL, a_claim("c"), a_volume("v", node_terms=on("n3"))
    )
    expect_fits(cluster, C, ["n3"])
    expect_reason(cluster, C, "node(s) didn't find available persistent volumes to bind", 2)


def test_a_claim_that_waits_goes_where_there_is_storage() -> None:
    driver = CsiDriver(name="d", tracks_capacity=True)
    cluster = VolumeCluster(VolumeBinding(), MADE, driver, a_claim("c", class_name="made"))
    expect_fits(cluster, C, [])
    expect_reason(cluster, C, "node(s) did not have enough free storage", 3)


def test_a_bound_claim_without_its_volume_fits_nowhere() -> None:
    cluster = VolumeCluster(VolumeBinding(), a_claim("c", volume="gone", bind_completed=True))
    missing = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
    expect_reason(cluster, C, missing, 3)


def test_what_is_wrong_with_a_claim_is_said_once_for_all_nodes() -> None:
    cluster = VolumeCluster(VolumeBinding(), LOCAL)
    message = '0/3 nodes are available: persistentvolumeclaim "c" not found.'
    assert cluster.said(C) == message
    cluster.put(a_claim("c", class_name="other"))
    unbound = "pod has unbound immediate PersistentVolumeClaims"
    assert cluster.said(C) == f"0/3 nodes are available: {unbound}."
    cluster.put(a_claim("c"), a_volume("v", node_terms=on("n1")))
    expect_fits(cluster, C, ["n1"])


def test_no_eviction_helps() -> None:
    cluster = VolumeCluster(VolumeBinding(), LOCAL, a_claim("c"))
    assert not len(cluster.evaluator.evictable_rows(C))
    assert not len(cluster.evaluator.evictable_rows(with_claims("gone")))
