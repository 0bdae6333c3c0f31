"""A StorageClass as it comes over the wire."""

from kubeshare_py.domain.label_selector import Requirement
from kubeshare_py.domain.needs.storage import StorageClass
from kubeshare_py.manifests.volumes import storage_classes
from tests.manifests.volumes.written import read


def test_a_class() -> None:
    fields = read(
        storage_classes.StorageClassFields,
        provisioner="p",
        volumeBindingMode="WaitForFirstConsumer",
        allowedTopologies=[{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}],
    )
    assert storage_classes.to_domain(fields) == StorageClass(
        name="x",
        provisioner="p",
        csi_driver="p",
        waits=True,
        topologies=((Requirement("zone", "In", ("a", "b")),),),
    )
    assert not storage_classes.to_domain(
        read(storage_classes.StorageClassFields, volumeBindingMode="Immediate")
    ).waits


def test_a_driver_replaced_the_provisioner_of_an_in_tree_class() -> None:
    fields = read(storage_classes.StorageClassFields, provisioner="kubernetes.io/gce-pd")
    assert storage_classes.to_domain(fields).csi_driver == "pd.csi.storage.gke.io"
