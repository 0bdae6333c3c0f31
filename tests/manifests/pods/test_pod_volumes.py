"""What a pod mounts, and what of it cannot be read."""

from typing import Any

import msgspec
import pytest

from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.pod import InlineDisk, PodClaim, PodVolumes
from kubeshare_py.manifests.common_definitions import ObjectMeta
from kubeshare_py.manifests.pods.pod_volumes import PodVolumeFields, pod_volumes, unreadable
from tests.manifests.written import pod

META = ObjectMeta(name="web-0", namespace="ns", uid="u")


def volumes(*written: dict[str, Any]) -> list[PodVolumeFields]:
    raw = msgspec.json.encode([{"name": f"v{at}", **one} for at, one in enumerate(written)])
    return msgspec.json.decode(raw, type=list[PodVolumeFields])


def mounted(*written: dict[str, Any]) -> PodVolumes | None:
    return pod_volumes(META, volumes(*written))


@pytest.mark.parametrize("source", ["configMap", "emptyDir", "csi", "image", "vsphereVolume"])
def test_volumes_that_are_everywhere_need_no_placement(source: str) -> None:
    (volume,) = volumes({source: {}})
    assert mounted({source: {}}) is None
    assert list(unreadable(volume)) == []


def test_claims_are_named_in_the_order_of_the_spec_and_once() -> None:
    found = mounted(
        {"persistentVolumeClaim": {"claimName": "b"}},
        {"persistentVolumeClaim": {"claimName": "a", "readOnly": True}},
        {"persistentVolumeClaim": {"claimName": "b"}},
    )
    assert found == PodVolumes(namespace="ns", claims=(PodClaim("b"), PodClaim("a")))


def test_the_claim_of_an_ephemeral_volume_is_named_after_the_pod_which_must_own_it() -> None:
    found = mounted({"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}})
    claim = PodClaim("web-0-scratch", PodUid("u"), "web-0")
    assert found == PodVolumes(namespace="ns", claims=(claim,))


@pytest.mark.parametrize(
    ("written", "disk"),
    [
        (
            {"gcePersistentDisk": {"pdName": "d", "readOnly": True}},
            InlineDisk("gcePersistentDisk", "d", True, csi_driver="pd.csi.storage.gke.io"),
        ),
        (
            {"awsElasticBlockStore": {"volumeID": "vol-1"}},
            InlineDisk("awsElasticBlockStore", "vol-1", csi_driver="ebs.csi.aws.com"),
        ),
        (
            {"azureDisk": {"diskURI": "/d", "diskName": "n"}},
            InlineDisk("azureDisk", "/d", csi_driver="disk.csi.azure.com"),
        ),
        (
            {"cinder": {"volumeID": "c"}},
            InlineDisk("cinder", "c", csi_driver="cinder.csi.openstack.org"),
        ),
        (
            {"portworxVolume": {"volumeID": "p"}},
            InlineDisk("portworxVolume", "p", csi_driver="pxd.portworx.com"),
        ),
        ({"iscsi": {"iqn": "iqn.2026", "lun": 0}}, InlineDisk("iscsi", "iqn.2026")),
        (
            {"rbd": {"monitors": ["m1", "m2"], "pool": "p", "image": "i", "readOnly": True}},
            InlineDisk("rbd", "p/i", read_only=True, monitors=("m1", "m2")),
        ),
        ({"rbd": {"monitors": ["m"], "image": "i"}}, InlineDisk("rbd", "rbd/i", False, ("m",))),
    ],
)
def test_disks_are_named_by_what_identifies_them(written: dict[str, Any], disk: InlineDisk) -> None:
    (volume,) = volumes(written)
    assert mounted(written) == PodVolumes(namespace="ns", disks=(disk,))
    assert list(unreadable(volume)) == []


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ({"name": "x", "quantumDisk": {}}, "spec.volumes[x].quantumDisk"),
        (
            {"persistentVolumeClaim": {"claimName": 7}},
            "spec.volumes[v0].persistentVolumeClaim",
        ),
        ({"rbd": {"monitors": "m"}}, "spec.volumes[v0].rbd"),
        ({"iscsi": "iqn"}, "spec.volumes[v0].iscsi"),
    ],
)
def test_what_is_unknown_or_cannot_be_decoded_is_named(written: dict[str, Any], path: str) -> None:
    (volume,) = volumes(written)
    assert list(unreadable(volume)) == [path]
    assert mounted(written) is None


def test_a_pod_without_volumes_mounts_nothing() -> None:
    assert pod_volumes(META, None) is None


def test_a_pod_s_shape_has_its_claims_with_a_node_and_without() -> None:
    claimed = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    for node in ("", "n1"):
        found = pod({"volumes": [claimed], "nodeName": node})
        volumes = PodVolumes(namespace=found.key.namespace, claims=(PodClaim("c"),))
        assert found.shape.volumes == volumes
        assert found.placed.volumes == volumes
