"""Volume plugins that were part of Kubernetes and whose volumes CSI drivers now attach.

https://kubernetes.io/docs/concepts/storage/volumes/#csi-migration. The names are those of
k8s.io/csi-translation-lib; only plugins whose volumes kube-scheduler counts are here.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InTreePlugin:
    """A plugin's name in CSINodes and StorageClasses, its driver, and the field of a disk's name.

    `disk` is a field of the volume's source. `zone_label` is the driver's label of nodes in place
    of Kubernetes' zone, "" if volumes keep that.
    """

    name: str
    driver: str
    disk: str
    zone_label: str = ""


#: By the field of the source in a pod's volume or in the spec of a PersistentVolume.
PLUGINS: Mapping[str, InTreePlugin] = {
    "awsElasticBlockStore": InTreePlugin(
        "kubernetes.io/aws-ebs", "ebs.csi.aws.com", "volumeID", "topology.ebs.csi.aws.com/zone"
    ),
    "azureDisk": InTreePlugin("kubernetes.io/azure-disk", "disk.csi.azure.com", "diskURI"),
    "cinder": InTreePlugin(
        "kubernetes.io/cinder",
        "cinder.csi.openstack.org",
        "volumeID",
        "topology.cinder.csi.openstack.org/zone",
    ),
    "gcePersistentDisk": InTreePlugin(
        "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "pdName", "topology.gke.io/zone"
    ),
    "portworxVolume": InTreePlugin("kubernetes.io/portworx-volume", "pxd.portworx.com", "volumeID"),
}
#: The CSI driver in place of a plugin, by the plugin's name.
REPLACED_BY: Mapping[str, str] = {one.name: one.driver for one in PLUGINS.values()}
