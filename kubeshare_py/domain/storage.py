"""Storage objects that placement depends on, and writes to objects before a pod is bound."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from kubeshare_py.domain.cluster_objects import (
    ClusterObject,
    Labels,
    ObjectKey,
    Requirement,
    WatchedKind,
)
from kubeshare_py.domain.device import ClaimAllocation
from kubeshare_py.domain.pod import NodeTerm

# Storage objects, in the fields that placement depends on.
#
# https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/. Sizes are in
# bytes, rounded up. Labels are sorted pairs.


READ_WRITE_ONCE_POD = "ReadWriteOncePod"


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistentVolumeClaim(ClusterObject):
    """A claim of a pod on a volume.

    `requested` is None if it asks for no amount. `class_name` is "" without a StorageClass.
    `selector` None selects every volume. `volume` is the PersistentVolume that it names, "" if
    none, and `bind_completed` says that the controller has bound it. `lost`: its volume is gone.
    `selected_node` is the annotation volume.kubernetes.io/selected-node, None without it.
    `controller` is the uid of the owner that controls it, "" if there is none. `version` is its
    resourceVersion.
    """

    kind: ClassVar[WatchedKind] = WatchedKind.CLAIM
    uid: str = ""
    class_name: str = ""
    requested: int | None = None
    access_modes: tuple[str, ...] = ()
    volume_mode: str = "Filesystem"
    selector: tuple[Requirement, ...] | None = None
    attributes_class: str = ""
    volume: str = ""
    bind_completed: bool = False
    lost: bool = False
    deleting: bool = False
    selected_node: str | None = None
    controller: str = ""
    version: str = ""

    @property
    def is_bound(self) -> bool:
        """Whether it has a volume, and nothing is left to do for that."""
        return bool(self.volume) and self.bind_completed


@dataclass(frozen=True, slots=True)
class ClaimReference:
    """The claim that a volume is bound to, or kept for; `uid` "" is any claim of that name."""

    namespace: str
    name: str
    uid: str = ""

    def names(self, claim: PersistentVolumeClaim) -> bool:
        """Whether the volume is this claim's."""
        return (self.namespace, self.name) == (claim.namespace, claim.name) and (
            self.uid in ("", claim.uid)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistentVolume(ClusterObject):
    """A volume. Free if `phase` is Available and `claim` None.

    `node_terms` None allows every node, an empty one none. `csi_driver` and `handle` say what a
    node attaches; for a volume of an in-tree plugin that CSI drivers replaced, `in_tree` is the
    plugin's name, `csi_driver` the driver's, and `migrated_terms` are in place of `node_terms` on
    nodes where the driver replaced the plugin. `version` is its resourceVersion.
    """

    kind: ClassVar[WatchedKind] = WatchedKind.VOLUME
    capacity: int = 0
    class_name: str = ""
    access_modes: tuple[str, ...] = ()
    volume_mode: str = "Filesystem"
    attributes_class: str = ""
    claim: ClaimReference | None = None
    phase: str = ""
    labels: Labels = ()
    node_terms: Sequence[NodeTerm] | None = None
    csi_driver: str = ""
    handle: str = ""
    in_tree: str = ""
    migrated_terms: Sequence[NodeTerm] | None = None
    deleting: bool = False
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageClass(ClusterObject):
    """How volumes of a class are made.

    `csi_driver` makes them: the provisioner, or the driver that replaced an in-tree plugin.
    `waits` is the mode WaitForFirstConsumer: a claim is bound once its pod has a node.
    `topologies` are alternatives, each of requirements that a node's labels must all satisfy; if
    there are none, volumes can be made for every node.
    """

    kind: ClassVar[WatchedKind] = WatchedKind.STORAGE_CLASS
    provisioner: str = ""
    csi_driver: str = ""
    waits: bool = False
    topologies: tuple[tuple[Requirement, ...], ...] = ()

    @property
    def provisions(self) -> bool:
        """Whether volumes are made on demand."""
        return self.provisioner not in ("", "kubernetes.io/no-provisioner")


@dataclass(frozen=True, slots=True, kw_only=True)
class CsiNode(ClusterObject):
    """CSI drivers of the node of this name: pairs of a driver and how many volumes it attaches.

    The number is None if there is no limit. `migrated` are in-tree plugins that drivers replaced.
    """

    kind: ClassVar[WatchedKind] = WatchedKind.CSI_NODE
    drivers: tuple[tuple[str, int | None], ...] = ()
    migrated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CsiDriver(ClusterObject):
    """A driver; `tracks_capacity`: it publishes CSIStorageCapacities."""

    kind: ClassVar[WatchedKind] = WatchedKind.CSI_DRIVER
    tracks_capacity: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CsiStorageCapacity(ClusterObject):
    """The largest volume of a class, None if unknown, for the nodes that `segment` selects.

    `segment` None selects no node, an empty one all.
    """

    kind: ClassVar[WatchedKind] = WatchedKind.CSI_CAPACITY
    storage_class: str = ""
    segment: tuple[Requirement, ...] | None = None
    largest: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeAttachment(ClusterObject):
    """A driver's volume that a node attaches, by its PersistentVolume's name; "" without one."""

    kind: ClassVar[WatchedKind] = WatchedKind.ATTACHMENT
    attacher: str = ""
    node: str = ""
    attached_volume: str = ""


# Writes to cluster objects that must be performed before a pod can be bound.
#
# Each but `LockNode` holds for one version (resourceVersion) of its object: if the object has
# changed meanwhile, the API server refuses the write.


class ObjectRef(NamedTuple):
    """An object by its kind, and its namespace and name."""

    kind: WatchedKind
    key: ObjectKey


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectNode:
    """Request a volume that the node can reach for a PersistentVolumeClaim, from its class.

    It is the annotation volume.kubernetes.io/selected-node
    (https://kubernetes.io/docs/reference/labels-annotations-taints/).
    """

    namespace: str
    claim: str
    version: str
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimVolume:
    """Give a free PersistentVolume to a PersistentVolumeClaim: the volume's spec.claimRef.

    `version` is the volume's, `claim_version` that of the claim when the volume was chosen.
    `is_kept`: a person has kept the volume for a claim of this name. The control plane then
    completes the claim
    (https://kubernetes.io/docs/concepts/storage/persistent-volumes/#binding).
    """

    volume: str
    version: str
    namespace: str
    claim: str
    claim_uid: str
    claim_version: str
    is_kept: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReserveDevices:
    """Reserve a ResourceClaim for a pod, and allocate devices to it if it has none.

    `device_claim` is its name. `allocation` is None if it is allocated already. `is_protected`: it
    has the finalizer of allocated claims.
    """

    namespace: str
    device_claim: str
    uid: str
    version: str
    pod: str
    pod_uid: str
    allocation: ClaimAllocation | None = None
    is_protected: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LockNode:
    """Give the free lock of a node's device plugin to a pod: see `NodeLock`.

    Refused if the annotation `key` has a value by now. With `names_owner` the pod is named in it.
    """

    node: str
    key: str
    namespace: str
    pod: str
    names_owner: bool = True


VolumeWrite = SelectNode | ClaimVolume
ObjectWrite = VolumeWrite | ReserveDevices | LockNode
