"""Nodes in the zones that labels of volumes name."""

from kubeshare_plugins.kubernetes.volume_binding import VolumeZone
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.pod import PodClaim, PodVolumes
from kubeshare_py.domain.values import replace
from kubeshare_py.testing import expect_contract, expect_fits, expect_reason
from tests.cluster.storage_world import NS, ZONE, a_claim, a_volume
from tests.making import a_shape
from tests.plugins.kubernetes.volume_cluster import VolumeCluster, with_claims

C = with_claims("c")


def test_a_volume_keeps_its_pod_in_its_zone() -> None:
    cluster = VolumeCluster(VolumeZone(), a_volume("v", labels=((ZONE, "b"),)))
    cluster.put(a_claim("c", volume="v", bind_completed=True))
    expect_fits(cluster, C, ["n2"])
    expect_reason(cluster, C, "node(s) had no available volume zone", 2)
    assert not len(cluster.evaluator.evictable_rows(C))
    expect_contract(cluster, C)


def test_a_claim_of_which_the_zone_is_not_known_keeps_its_pod_waiting() -> None:
    cluster = VolumeCluster(VolumeZone(), a_claim("c", volume="gone", bind_completed=True))
    assert cluster.said(C) == '0/3 nodes are available: persistentvolume "gone" not found.'


def test_ephemeral_volumes_are_not_asked_about() -> None:
    cluster = VolumeCluster(VolumeZone())
    claims = (PodClaim("p-v", PodUid("u"), "p"),)
    shape = replace(a_shape(), volumes=PodVolumes(namespace=NS, claims=claims))
    expect_fits(cluster, shape, ["n1", "n2", "n3"])
