"""CSINodes, CSIDrivers, capacities and attachments as they come over the wire."""

from typing import Any

import pytest

from kubeshare_py.domain.label_selector import Requirement
from kubeshare_py.domain.needs.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    VolumeAttachment,
)
from kubeshare_py.manifests.volumes import csi
from tests.manifests.volumes.written import read


def test_a_node_s_drivers() -> None:
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/gce-pd,b"}
    drivers = [{"name": "d", "allocatable": {"count": 3}}, {"name": "e"}]
    fields = read(
        csi.CsiNodeFields,
        metadata={"name": "n", "annotations": annotations},
        spec={"drivers": drivers},
    )
    assert csi.csi_node(fields) == CsiNode(
        name="n", drivers=(("d", 3), ("e", None)), migrated=("kubernetes.io/gce-pd", "b")
    )


def test_a_driver_tracks_capacity_if_it_says_so() -> None:
    assert csi.csi_driver(read(csi.CsiDriverFields)) == CsiDriver(name="x")
    fields = read(csi.CsiDriverFields, spec={"storageCapacity": True})
    assert csi.csi_driver(fields) == CsiDriver(name="x", tracks_capacity=True)


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
        csi.CsiStorageCapacityFields,
        storageClassName="fast",
        nodeTopology={"matchLabels": {"zone": "a"}},
        **written,
    )
    assert csi.csi_storage_capacity(fields) == CsiStorageCapacity(
        namespace="ns",
        name="x",
        storage_class="fast",
        segment=(Requirement("zone", "In", ("a",)),),
        largest=largest,
    )


def test_an_attachment() -> None:
    spec = {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    fields = read(csi.VolumeAttachmentFields, spec=spec)
    expected = VolumeAttachment(name="x", attacher="d", node="n", attached_volume="v")
    assert csi.volume_attachment(fields) == expected
