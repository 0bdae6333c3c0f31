"""A PersistentVolumeClaim as it comes over the wire."""

import pytest

from kubeshare_py.domain.label_selector import Requirement
from kubeshare_py.domain.needs.storage import PersistentVolumeClaim
from kubeshare_py.manifests.volumes import claims, persistent_volumes
from tests.manifests.volumes.written import META, read


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
    fields = read(claims.ClaimFields, metadata=meta, spec=spec, status={"phase": "Lost"})
    assert claims.to_domain(fields) == PersistentVolumeClaim(
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
    found = claims.to_domain(read(claims.ClaimFields))
    assert found == PersistentVolumeClaim(namespace="ns", name="x", uid="u", version="7")


def test_the_controller_marks_a_claim_as_bound() -> None:
    meta = {**META, "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    fields = read(claims.ClaimFields, metadata=meta, spec={"volumeName": "v"})
    assert claims.to_domain(fields).is_bound


@pytest.mark.parametrize("quantity", ["-1Gi", "much"])
def test_a_request_that_is_no_quantity_is_more_than_any_volume_has(quantity: str) -> None:
    spec = {"resources": {"requests": {"storage": quantity}}}
    found = claims.to_domain(read(claims.ClaimFields, spec=spec))
    assert found.requested == 1 << 63


def test_the_old_annotation_of_the_class_comes_first() -> None:
    meta = {**META, "annotations": {"volume.beta.kubernetes.io/storage-class": "old"}}
    claim = read(claims.ClaimFields, metadata=meta, spec={"storageClassName": "new"})
    volume = read(
        persistent_volumes.PersistentVolumeFields, metadata=meta, spec={"storageClassName": "new"}
    )
    assert claims.to_domain(claim).class_name == "old"
    assert persistent_volumes.to_domain(volume).class_name == "old"
