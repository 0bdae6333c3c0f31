"""Volumes of one pod alone, and disks that pods of one node cannot share."""

import numpy as np

from kubeshare_plugins.kubernetes.volume_binding import DISK_CONFLICT, IN_USE, VolumeRestrictions
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.pod import InlineDisk
from kubeshare_py.testing import expect_contract, expect_fits, expect_reason
from tests.cluster.storage_world import a_claim, mounting
from tests.plugins.kubernetes.volume_cluster import (
    VolumeCluster,
    disks_of,
    with_claims,
    with_disks,
)

ALL = ["n1", "n2", "n3"]
C = with_claims("c")
ALONE = a_claim("c", access_modes=("ReadWriteOncePod",))
DISK = InlineDisk("gcePersistentDisk", "d")


def test_a_claim_of_one_pod_alone_goes_to_no_second_pod() -> None:
    cluster = VolumeCluster(VolumeRestrictions(), ALONE)
    expect_fits(cluster, C, ALL)
    cluster.mount("n2", mounting("c"))
    expect_fits(cluster, C, [])
    expect_reason(cluster, C, IN_USE, 3)
    expect_contract(cluster, C)
    cluster.ledger.release(PodUid("other"))
    expect_fits(cluster, C, ALL)


def test_other_claims_may_have_many_pods() -> None:
    cluster = VolumeCluster(VolumeRestrictions(), a_claim("c", access_modes=("ReadWriteOnce",)))
    cluster.mount("n2", mounting("c"))
    expect_fits(cluster, C, ALL)


def test_evicting_the_pod_that_has_the_claim_helps_on_its_node_alone() -> None:
    cluster = VolumeCluster(VolumeRestrictions(), ALONE)
    cluster.mount("n2", mounting("c"))
    row_of, ledger = cluster.ledger.columns.row_of, cluster.ledger
    assert sorted(cluster.evaluator.evictable_rows(C)) == sorted(row_of.values())
    rows = ledger.what_if(np.array([row_of[NodeName(name)] for name in ALL]))
    rows.add(np.array([1]), ledger.amounts([[PodUid("other")]]), np.array([0]), -1)
    rows.derive(np.array([1]))
    assert cluster.evaluator.fits(C, rows).tolist() == [False, True, False]


def test_a_disk_is_in_one_pod_of_a_node() -> None:
    cluster = VolumeCluster(VolumeRestrictions())
    cluster.mount("n1", disks_of(DISK))
    cluster.mount("n3", mounting("c"), "third")
    shape = with_disks(DISK)
    expect_fits(cluster, shape, ["n2", "n3"])
    expect_reason(cluster, shape, DISK_CONFLICT, 1)
    expect_fits(cluster, with_disks(InlineDisk("gcePersistentDisk", "e")), ALL)
    expect_fits(cluster, with_disks(InlineDisk("cinder", "d")), ALL)


def test_a_claim_that_is_not_there_is_named() -> None:
    cluster = VolumeCluster(VolumeRestrictions())
    assert cluster.said(C) == '0/3 nodes are available: persistentvolumeclaim "c" not found.'
