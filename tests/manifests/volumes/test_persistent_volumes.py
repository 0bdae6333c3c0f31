"""A PersistentVolume as it comes over the wire."""

from typing import Any

import msgspec
import pytest

from kubeshare_py.domain.label_selector import Requirement
from kubeshare_py.domain.needs.storage import ClaimReference, PersistentVolume
from kubeshare_py.domain.pod import NodeTerm
from kubeshare_py.manifests.pods.packed_terms import PackedTerms
from kubeshare_py.manifests.volumes.persistent_volumes import PersistentVolumeFields, to_domain
from tests.manifests.volumes.written import read


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
    assert to_domain(fields) == PersistentVolume(
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
    found = to_domain(written)
    assert (found.csi_driver, found.handle, found.in_tree) == (
        driver,
        handle,
        f"kubernetes.io/{plugin}",
    )


def test_a_volume_with_nothing_in_it_is_small_and_everywhere() -> None:
    written = read(PersistentVolumeFields, spec={"nfs": {"server": "s"}})
    found = to_domain(written)
    assert (found.capacity, found.node_terms, found.csi_driver) == (0, None, "")


def test_an_empty_affinity_of_a_volume_allows_no_node() -> None:
    spec: dict[str, Any] = {"nodeAffinity": {"required": {"nodeSelectorTerms": []}}}
    written = read(PersistentVolumeFields, spec=spec)
    assert to_domain(written).node_terms == ()


def test_a_long_affinity_is_packed_and_reads_the_same() -> None:
    nodes = [f"n{number}" for number in range(100)]
    line = {"key": "kubernetes.io/hostname", "operator": "In", "values": nodes}
    terms = {"required": {"nodeSelectorTerms": [{"matchExpressions": [line]}]}}
    written = msgspec.json.encode({"spec": {"nodeAffinity": terms}})
    found = to_domain(msgspec.json.decode(written, type=PersistentVolumeFields)).node_terms
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
    volume = to_domain(read(PersistentVolumeFields, metadata=meta, spec=spec))
    assert volume.migrated_terms == migrated
    assert volume.node_terms == (None if terms is None else lines(*terms))


def test_zones_of_one_label_are_alternatives() -> None:
    meta = {"name": "v", "labels": {ZONE: "b__ a"}}
    spec = {"awsElasticBlockStore": {"volumeID": "v"}}
    volume = to_domain(read(PersistentVolumeFields, metadata=meta, spec=spec))
    zones = Requirement("topology.ebs.csi.aws.com/zone", "In", ("a", "b"))
    assert volume.migrated_terms == (NodeTerm((zones,)),)
