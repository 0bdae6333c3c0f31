"""Writes to cluster objects that must be performed before a pod can be bound.

Each but `LockNode` holds for one version (resourceVersion) of its object: if the object has changed
meanwhile, the API server refuses the write.
"""

from dataclasses import dataclass
from typing import NamedTuple

from kubeshare_py.domain.devices.resource_claim import ClaimAllocation
from kubeshare_py.domain.needs.cluster_objects import ObjectKey, WatchedKind


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
