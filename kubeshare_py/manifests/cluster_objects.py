"""Objects that placement depends on besides pods and nodes: where they are, how they are read."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from kubeshare_py.domain.events import AnyObject, ObjectGone, ObjectSeen, ObjectsListed
from kubeshare_py.domain.needs.cluster_objects import NamespaceObject, ObjectKey, WatchedKind
from kubeshare_py.manifests.devices import resource_claim, resource_slice
from kubeshare_py.manifests.events import Translation
from kubeshare_py.manifests.metadata import ObjectMeta
from kubeshare_py.manifests.pods import pod_owners
from kubeshare_py.manifests.volumes import claims, csi, persistent_volumes, storage_classes

_STORAGE = "/apis/storage.k8s.io/v1"
_DEVICES = "/apis/resource.k8s.io/v1"
_APPS = "/apis/apps/v1"


class _NamespaceFields(msgspec.Struct, frozen=True, rename="camel"):
    """A v1 Namespace, of which the labels matter."""

    metadata: ObjectMeta = ObjectMeta()


def _namespace(fields: _NamespaceFields) -> NamespaceObject:
    meta = fields.metadata
    return NamespaceObject(name=meta.name, labels=tuple(sorted((meta.labels or {}).items())))


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedObjects:
    """One kind: its path in the API, its fields as a msgspec struct, and what is kept of them.

    The struct has `metadata`.
    """

    kind: WatchedKind
    path: str
    fields: type[Any]
    to_domain: Callable[[Any], AnyObject]

    def translation(self) -> Translation[Any, AnyObject]:
        """How its lists and changes become events."""
        kind = self.kind
        return Translation(
            reduce=self.to_domain,
            seen=ObjectSeen,
            gone=lambda one: ObjectGone(kind, _key(one.metadata)),
            deleted=lambda problem: ObjectGone(kind, ObjectKey(problem.namespace, problem.name)),
            listed=lambda update: ObjectsListed(
                kind,
                tuple(update.items),
                unreadable=frozenset(
                    ObjectKey(problem.namespace, problem.name) for problem in update.problems
                ),
            ),
        )


def _key(meta: ObjectMeta) -> ObjectKey:
    return ObjectKey(meta.namespace, meta.name)


#: All kinds that the scheduler follows.
WATCHED = (
    WatchedObjects(
        kind=WatchedKind.NAMESPACE,
        path="/api/v1/namespaces",
        fields=_NamespaceFields,
        to_domain=_namespace,
    ),
    WatchedObjects(
        kind=WatchedKind.CLAIM,
        path="/api/v1/persistentvolumeclaims",
        fields=claims.ClaimFields,
        to_domain=claims.to_domain,
    ),
    WatchedObjects(
        kind=WatchedKind.VOLUME,
        path="/api/v1/persistentvolumes",
        fields=persistent_volumes.PersistentVolumeFields,
        to_domain=persistent_volumes.to_domain,
    ),
    WatchedObjects(
        kind=WatchedKind.STORAGE_CLASS,
        path=f"{_STORAGE}/storageclasses",
        fields=storage_classes.StorageClassFields,
        to_domain=storage_classes.to_domain,
    ),
    WatchedObjects(
        kind=WatchedKind.CSI_NODE,
        path=f"{_STORAGE}/csinodes",
        fields=csi.CsiNodeFields,
        to_domain=csi.csi_node,
    ),
    WatchedObjects(
        kind=WatchedKind.CSI_DRIVER,
        path=f"{_STORAGE}/csidrivers",
        fields=csi.CsiDriverFields,
        to_domain=csi.csi_driver,
    ),
    WatchedObjects(
        kind=WatchedKind.CSI_CAPACITY,
        path=f"{_STORAGE}/csistoragecapacities",
        fields=csi.CsiStorageCapacityFields,
        to_domain=csi.csi_storage_capacity,
    ),
    WatchedObjects(
        kind=WatchedKind.ATTACHMENT,
        path=f"{_STORAGE}/volumeattachments",
        fields=csi.VolumeAttachmentFields,
        to_domain=csi.volume_attachment,
    ),
    WatchedObjects(
        kind=WatchedKind.DEVICE_CLASS,
        path=f"{_DEVICES}/deviceclasses",
        fields=resource_claim.DeviceClassFields,
        to_domain=resource_claim.to_device_class,
    ),
    WatchedObjects(
        kind=WatchedKind.RESOURCE_SLICE,
        path=f"{_DEVICES}/resourceslices",
        fields=resource_slice.ResourceSliceFields,
        to_domain=resource_slice.to_resource_slice,
    ),
    WatchedObjects(
        kind=WatchedKind.RESOURCE_CLAIM,
        path=f"{_DEVICES}/resourceclaims",
        fields=resource_claim.ResourceClaimFields,
        to_domain=resource_claim.to_resource_claim,
    ),
    WatchedObjects(
        kind=WatchedKind.SERVICE,
        path="/api/v1/services",
        fields=pod_owners.SelectingLabelsFields,
        to_domain=pod_owners.service,
    ),
    WatchedObjects(
        kind=WatchedKind.REPLICATION_CONTROLLER,
        path="/api/v1/replicationcontrollers",
        fields=pod_owners.SelectingLabelsFields,
        to_domain=pod_owners.replication_controller,
    ),
    WatchedObjects(
        kind=WatchedKind.REPLICA_SET,
        path=f"{_APPS}/replicasets",
        fields=pod_owners.SelectingPodsFields,
        to_domain=pod_owners.replica_set,
    ),
    WatchedObjects(
        kind=WatchedKind.STATEFUL_SET,
        path=f"{_APPS}/statefulsets",
        fields=pod_owners.SelectingPodsFields,
        to_domain=pod_owners.stateful_set,
    ),
)
