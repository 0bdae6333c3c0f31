"""Fields of volumes, their claims and the kinds of storage.k8s.io; letters as in `fields`.

https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/
"""

_TOP = "apiVersion:s kind:s metadata:Meta"
#: What a PersistentVolume may be made of; exactly one is set.
VOLUME_SOURCES = (
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "hostPath",
    "glusterfs",
    "nfs",
    "rbd",
    "iscsi",
    "cinder",
    "cephfs",
    "fc",
    "flocker",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "local",
    "storageos",
    "csi",
)
_TYPED_SOURCES = {"hostPath": "HostPath", "local": "LocalVolume", "csi": "CSIVolume"}
STORAGE_TYPES = {
    "PersistentVolume": f"{_TOP} spec:PersistentVolumeSpec status:PersistentVolumeStatus",
    "PersistentVolumeSpec": (
        "capacity:{q} accessModes:[s] claimRef:ObjectReference persistentVolumeReclaimPolicy:s "
        "storageClassName:s mountOptions:[s] volumeMode:s nodeAffinity:VolumeNodeAffinity "
        "volumeAttributesClassName:e "
        + " ".join(f"{name}:{_TYPED_SOURCES.get(name, '*')}" for name in VOLUME_SOURCES)
    ),
    "VolumeNodeAffinity": "required:NodeTerms",
    "LocalVolume": "path:s fsType:s",
    "CSIVolume": (
        "driver:s volumeHandle:s readOnly:o fsType:s volumeAttributes:{s} "
        "controllerPublishSecretRef:* nodeStageSecretRef:* nodePublishSecretRef:* "
        "controllerExpandSecretRef:* nodeExpandSecretRef:*"
    ),
    "PersistentVolumeStatus": "phase:s message:s reason:s lastPhaseTransitionTime:s",
    "PersistentVolumeClaim": f"{_TOP} spec:VolumeClaimSpec status:VolumeClaimStatus",
    "VolumeClaimSpec": (
        "accessModes:[s] selector:Selector resources:VolumeResources volumeName:s "
        "storageClassName:e volumeMode:s dataSource:DataSource dataSourceRef:DataSourceRef "
        "volumeAttributesClassName:e"
    ),
    "VolumeResources": "limits:{q} requests:{q}",
    "DataSource": "apiGroup:s kind:s name:s",
    "DataSourceRef": "apiGroup:s kind:s name:s namespace:s",
    "VolumeClaimStatus": (
        "phase:s accessModes:[s] capacity:{q} conditions:[Condition] allocatedResources:{q} "
        "allocatedResourceStatuses:{s} currentVolumeAttributesClassName:s modifyVolumeStatus:*"
    ),
    "StorageClass": (
        f"{_TOP} provisioner:s parameters:{{s}} reclaimPolicy:s mountOptions:[s] "
        "allowVolumeExpansion:b volumeBindingMode:s allowedTopologies:[TopologyTerm]"
    ),
    "TopologyTerm": "matchLabelExpressions:[TopologyRequirement]",
    "TopologyRequirement": "key:s values:[s]",
    "CSINode": f"{_TOP} spec:CSINodeSpec",
    "CSINodeSpec": "drivers:[CSINodeDriver]",
    "CSINodeDriver": "name:s nodeID:s topologyKeys:[s] allocatable:VolumeCount",
    "VolumeCount": "count:i",
    "CSIDriver": f"{_TOP} spec:CSIDriverSpec",
    "CSIDriverSpec": (
        "attachRequired:b podInfoOnMount:b volumeLifecycleModes:[s] storageCapacity:b "
        "fsGroupPolicy:s tokenRequests:* requiresRepublish:b seLinuxMount:b "
        "nodeAllocatableUpdatePeriodSeconds:i serviceAccountTokenInSecrets:b "
        "preventPodSchedulingIfMissing:b"
    ),
    "CSIStorageCapacity": (
        f"{_TOP} nodeTopology:Selector storageClassName:s capacity:q maximumVolumeSize:q"
    ),
    "VolumeAttachment": f"{_TOP} spec:VolumeAttachmentSpec status:VolumeAttachmentStatus",
    "VolumeAttachmentSpec": "attacher:s source:VolumeAttachmentSource nodeName:s",
    "VolumeAttachmentSource": ("persistentVolumeName:s inlineVolumeSpec:PersistentVolumeSpec"),
    "VolumeAttachmentStatus": (
        "attached:b attachmentMetadata:{s} attachError:VolumeError detachError:VolumeError"
    ),
    "VolumeError": "time:s message:s errorCode:i",
}
