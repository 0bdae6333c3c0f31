"""Claims, volumes, classes and objects of CSI as they come over the wire, and their patches."""

import json
from http import HTTPStatus
from typing import Any

import msgspec
import pytest

from kubeshare_py.domain.cluster_objects import Requirement
from kubeshare_py.domain.events import WriteOutcome
from kubeshare_py.domain.pod import NodeTerm
from kubeshare_py.domain.storage import (
    ClaimReference,
    ClaimVolume,
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    SelectNode,
    StorageClass,
    VolumeAttachment,
)
from kubeshare_py.manifests import volumes
from kubeshare_py.manifests.pods.placement import PackedTerms
from kubeshare_py.manifests.volumes import (
    PersistentVolumeFields,
    read_write_error,
    to_volume,
    write_patch,
    write_path,
)
from tests.manifests.volumes_written import META, read

# --- A PersistentVolumeClaim as it comes over the wire --------------------------------------------


def test_a_claim() -> None:
    meta = {
        **META,
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "annotations": {"volume.kubernetes.io/selected-node": "n1"},
        "ownerReferences": [{"uid": "other"}, {"uid": "pod", "controller": True}],
    }
    spec = {
        "storageClassName": "fast",
        "accessModes": ["ReadWriteOncePod"],
        "resources": {"requests": {"storage": "1.5Gi"}},
        "selector": {"matchLabels": {"a": "b"}},
        "volumeMode": "Block",
        "volumeAttributesClassName": "gold",
        "volumeName": "v",
    }
    fields = read(volumes.ClaimFields, metadata=meta, spec=spec, status={"phase": "Lost"})
    assert volumes.to_claim(fields) == PersistentVolumeClaim(
        namespace="ns",
        name="x",
        uid="u",
        class_name="fast",
        requested=3 << 29,
        access_modes=("ReadWriteOncePod",),
        volume_mode="Block",
        selector=(Requirement("a", "In", ("b",)),),
        attributes_class="gold",
        volume="v",
        lost=True,
        deleting=True,
        selected_node="n1",
        controller="pod",
        version="7",
    )


def test_a_claim_with_nothing_in_it() -> None:
    found = volumes.to_claim(read(volumes.ClaimFields))
    assert found == PersistentVolumeClaim(namespace="ns", name="x", uid="u", version="7")


def test_the_controller_marks_a_claim_as_bound() -> None:
    meta = {**META, "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    fields = read(volumes.ClaimFields, metadata=meta, spec={"volumeName": "v"})
    assert volumes.to_claim(fields).is_bound


@pytest.mark.parametrize("quantity", ["-1Gi", "much"])
def test_a_request_that_is_no_quantity_is_more_than_any_volume_has(quantity: str) -> None:
    spec = {"resources": {"requests": {"storage": quantity}}}
    found = volumes.to_claim(read(volumes.ClaimFields, spec=spec))
    assert found.requested == 1 << 63


def test_the_old_annotation_of_the_class_comes_first() -> None:
    meta = {**META, "annotations": {"volume.beta.kubernetes.io/storage-class": "old"}}
    claim = read(volumes.ClaimFields, metadata=meta, spec={"storageClassName": "new"})
    volume = read(volumes.PersistentVolumeFields, metadata=meta, spec={"storageClassName": "new"})
    assert volumes.to_claim(claim).class_name == "old"
    assert volumes.to_volume(volume).class_name == "old"


# --- A PersistentVolume as it comes over the wire -------------------------------------------------


def test_a_volume() -> None:
    meta = {"name": "v", "labels": {"b": "2", "a": "1"}, "resourceVersion": "8"}
    expression = {"key": "zone", "operator": "In", "values": ["z1"]}
    spec = {
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteOnce"],
        "claimRef": {"namespace": "ns", "name": "c", "uid": "u", "kind": "PersistentVolumeClaim"},
        "storageClassName": "fast",
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
        "csi": {"driver": "d", "volumeHandle": "h", "volumeAttributes": {"a": "b"}},
    }
    fields = read(
        PersistentVolumeFields,
        metadata=meta,
        spec=spec,
        status={"phase": "Bound"},
    )
    assert to_volume(fields) == PersistentVolume(
        name="v",
        capacity=10 << 30,
        class_name="fast",
        access_modes=("ReadWriteOnce",),
        claim=ClaimReference("ns", "c", "u"),
        phase="Bound",
        labels=(("a", "1"), ("b", "2")),
        node_terms=(NodeTerm((Requirement("zone", "In", ("z1",)),)),),
        csi_driver="d",
        handle="h",
        version="8",
    )


@pytest.mark.parametrize(
    ("source", "fields", "driver", "handle", "plugin"),
    [
        ("gcePersistentDisk", {"pdName": "d"}, "pd.csi.storage.gke.io", "d", "gce-pd"),
        ("awsElasticBlockStore", {"volumeID": "v"}, "ebs.csi.aws.com", "v", "aws-ebs"),
        (
            "azureDisk",
            {"diskName": "n", "diskURI": "/n"},
            "disk.csi.azure.com",
            "/n",
            "azure-disk",
        ),
        ("cinder", {"volumeID": "c"}, "cinder.csi.openstack.org", "c", "cinder"),
        ("portworxVolume", {"volumeID": "p"}, "pxd.portworx.com", "p", "portworx-volume"),
    ],
)
def test_a_volume_of_an_in_tree_plugin_has_the_driver_that_replaced_it(
    source: str, fields: dict[str, str], driver: str, handle: str, plugin: str
) -> None:
    written = read(PersistentVolumeFields, spec={source: fields})
    found = to_volume(written)
    assert (found.csi_driver, found.handle, found.in_tree) == (
        driver,
        handle,
        f"kubernetes.io/{plugin}",
    )


def test_a_volume_with_nothing_in_it_is_small_and_everywhere() -> None:
    written = read(PersistentVolumeFields, spec={"nfs": {"server": "s"}})
    found = to_volume(written)
    assert (found.capacity, found.node_terms, found.csi_driver) == (0, None, "")


def test_an_empty_affinity_of_a_volume_allows_no_node() -> None:
    spec: dict[str, Any] = {"nodeAffinity": {"required": {"nodeSelectorTerms": []}}}
    written = read(PersistentVolumeFields, spec=spec)
    assert to_volume(written).node_terms == ()


def test_a_long_affinity_is_packed_and_reads_the_same() -> None:
    nodes = [f"n{number}" for number in range(100)]
    line = {"key": "kubernetes.io/hostname", "operator": "In", "values": nodes}
    terms = {"required": {"nodeSelectorTerms": [{"matchExpressions": [line]}]}}
    written = msgspec.json.encode({"spec": {"nodeAffinity": terms}})
    found = to_volume(msgspec.json.decode(written, type=PersistentVolumeFields)).node_terms
    assert isinstance(found, PackedTerms)
    assert found[0].labels[0].values == tuple(nodes)


ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
REGION, OLD_REGION = "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"
GKE = "topology.gke.io/zone"


def lines(*pairs: tuple[str, str]) -> tuple[NodeTerm, ...]:
    return (NodeTerm(tuple(Requirement(key, "In", (value,)) for key, value in pairs)),)


@pytest.mark.parametrize(
    ("labels", "terms", "migrated"),
    [
        ({}, None, None),
        ({}, [(ZONE, "a"), ("x", "y")], lines((GKE, "a"), ("x", "y"))),
        ({ZONE: "b"}, [(ZONE, "a")], lines((GKE, "a"))),
        (
            {},
            [(OLD_ZONE, "a"), (OLD_REGION, "r")],
            lines((GKE, "a"), (REGION, "r")),
        ),
        ({}, [(ZONE, "a"), (OLD_REGION, "r")], lines((GKE, "a"), (OLD_REGION, "r"))),
        ({ZONE: "a"}, None, lines((GKE, "a"))),
        ({OLD_ZONE: "a"}, [("x", "y")], lines(("x", "y"), (GKE, "a"))),
        ({ZONE: "__"}, None, None),
    ],
)
def test_a_driver_that_replaced_a_plugin_has_a_label_of_its_own_for_zones(
    labels: dict[str, str],
    terms: list[tuple[str, str]] | None,
    migrated: tuple[NodeTerm, ...] | None,
) -> None:
    spec: dict[str, Any] = {"gcePersistentDisk": {"pdName": "d"}}
    if terms is not None:
        found = [{"key": key, "operator": "In", "values": [value]} for key, value in terms]
        wanted = {"required": {"nodeSelectorTerms": [{"matchExpressions": found}]}}
        spec["nodeAffinity"] = wanted
    meta = {"name": "v", "labels": labels}
    volume = to_volume(read(PersistentVolumeFields, metadata=meta, spec=spec))
    assert volume.migrated_terms == migrated
    assert volume.node_terms == (None if terms is None else lines(*terms))


def test_zones_of_one_label_are_alternatives() -> None:
    meta = {"name": "v", "labels": {ZONE: "b__ a"}}
    spec = {"awsElasticBlockStore": {"volumeID": "v"}}
    volume = to_volume(read(PersistentVolumeFields, metadata=meta, spec=spec))
    zones = Requirement("topology.ebs.csi.aws.com/zone", "In", ("a", "b"))
    assert volume.migrated_terms == (NodeTerm((zones,)),)


# --- A StorageClass as it comes over the wire -----------------------------------------------------


def test_a_class() -> None:
    fields = read(
        volumes.StorageClassFields,
        provisioner="p",
        volumeBindingMode="WaitForFirstConsumer",
        allowedTopologies=[{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}],
    )
    assert volumes.to_storage_class(fields) == StorageClass(
        name="x",
        provisioner="p",
        csi_driver="p",
        waits=True,
        topologies=((Requirement("zone", "In", ("a", "b")),),),
    )
    assert not volumes.to_storage_class(
        read(volumes.StorageClassFields, volumeBindingMode="Immediate")
    ).waits


def test_a_driver_replaced_the_provisioner_of_an_in_tree_class() -> None:
    fields = read(volumes.StorageClassFields, provisioner="kubernetes.io/gce-pd")
    assert volumes.to_storage_class(fields).csi_driver == "pd.csi.storage.gke.io"


# --- CSINodes, CSIDrivers, capacities and attachments as they come over the wire ------------------


def test_a_node_s_drivers() -> None:
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/gce-pd,b"}
    drivers = [{"name": "d", "allocatable": {"count": 3}}, {"name": "e"}]
    fields = read(
        volumes.CsiNodeFields,
        metadata={"name": "n", "annotations": annotations},
        spec={"drivers": drivers},
    )
    assert volumes.csi_node(fields) == CsiNode(
        name="n", drivers=(("d", 3), ("e", None)), migrated=("kubernetes.io/gce-pd", "b")
    )


def test_a_driver_tracks_capacity_if_it_says_so() -> None:
    assert volumes.csi_driver(read(volumes.CsiDriverFields)) == CsiDriver(name="x")
    fields = read(volumes.CsiDriverFields, spec={"storageCapacity": True})
    assert volumes.csi_driver(fields) == CsiDriver(name="x", tracks_capacity=True)


@pytest.mark.parametrize(
    ("written", "largest"),
    [
        ({}, None),
        ({"capacity": "1Ki"}, 1024),
        ({"capacity": "1Ki", "maximumVolumeSize": "512"}, 512),
        ({"capacity": "much"}, None),
    ],
)
def test_a_capacity_is_the_largest_volume_if_that_is_known(
    written: dict[str, Any], largest: int | None
) -> None:
    fields = read(
        volumes.CsiStorageCapacityFields,
        storageClassName="fast",
        nodeTopology={"matchLabels": {"zone": "a"}},
        **written,
    )
    assert volumes.csi_storage_capacity(fields) == CsiStorageCapacity(
        namespace="ns",
        name="x",
        storage_class="fast",
        segment=(Requirement("zone", "In", ("a",)),),
        largest=largest,
    )


def test_an_attachment() -> None:
    spec = {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    fields = read(volumes.VolumeAttachmentFields, spec=spec)
    expected = VolumeAttachment(name="x", attacher="d", node="n", attached_volume="v")
    assert volumes.volume_attachment(fields) == expected


# --- Patches of claims and volumes, each for one version of its object ----------------------------


SELECT = SelectNode(namespace="team", claim="data", version="41", node="n1")
CLAIM = ClaimVolume(
    volume="pv-1",
    version="7",
    namespace="team",
    claim="data",
    claim_uid="u-1",
    claim_version="41",
)
REFERENCE = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "namespace": "team",
    "name": "data",
    "uid": "u-1",
    "resourceVersion": "41",
}


def test_a_claim_gets_the_selected_node() -> None:
    assert write_path(SELECT) == "/api/v1/namespaces/team/persistentvolumeclaims/data"
    assert json.loads(write_patch(SELECT)) == {
        "metadata": {
            "resourceVersion": "41",
            "annotations": {"volume.kubernetes.io/selected-node": "n1"},
        }
    }


def test_a_volume_gets_the_claim_and_says_that_no_person_bound_it() -> None:
    assert write_path(CLAIM) == "/api/v1/persistentvolumes/pv-1"
    assert json.loads(write_patch(CLAIM)) == {
        "metadata": {
            "resourceVersion": "7",
            "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"},
        },
        "spec": {"claimRef": REFERENCE},
    }


def test_a_volume_that_a_person_kept_for_the_claim_says_no_such_thing() -> None:
    kept = ClaimVolume(
        volume="pv-1",
        version="7",
        namespace="team",
        claim="data",
        claim_uid="u-1",
        claim_version="41",
        is_kept=True,
    )
    assert json.loads(write_patch(kept)) == {
        "metadata": {"resourceVersion": "7"},
        "spec": {"claimRef": REFERENCE},
    }


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (HTTPStatus.CONFLICT, WriteOutcome.STALE),
        (HTTPStatus.UNAUTHORIZED, WriteOutcome.UNKNOWN),
        (HTTPStatus.TOO_MANY_REQUESTS, WriteOutcome.UNKNOWN),
        (HTTPStatus.INTERNAL_SERVER_ERROR, WriteOutcome.UNKNOWN),
        (HTTPStatus.GATEWAY_TIMEOUT, WriteOutcome.UNKNOWN),
        (HTTPStatus.FORBIDDEN, WriteOutcome.REFUSED),
        (HTTPStatus.NOT_FOUND, WriteOutcome.REFUSED),
        (HTTPStatus.UNPROCESSABLE_ENTITY, WriteOutcome.REFUSED),
    ],
)
def test_an_error_says_what_became_of_the_write(status: int, outcome: WriteOutcome) -> None:
    assert read_write_error(status) is outcome
