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
from kubeshare_py.manifests.pods import pod_owners, resource_quotas
from kubeshare_py.manifests.volumes import claims, csi, persistent_volumes, storage_classes

_CORE = "api/v1"
_STORAGE = "apis/storage.k8s.io/v1"
_DEVICES = "apis/resource.k8s.io/v1"
_APPS = "apis/apps/v1"


class _NamespaceFields(msgspec.Struct, frozen=True, rename="camel"):
    """A v1 Namespace, of which the labels matter."""

    metadata: ObjectMeta = ObjectMeta()


def _namespace(fields: _NamespaceFields) -> NamespaceObject:
    meta = fields.metadata
    return NamespaceObject(name=meta.name, labels=tuple(sorted((meta.labels or {}).items())))


@dataclass(frozen=True, slots=True)
class WatchedObjects:
    """One kind: its API group, its fields as a msgspec struct, and what is kept of them.

    The struct has `metadata`.
    """

    group: str
    kind: WatchedKind
    fields: type[Any]
    to_domain: Callable[[Any], AnyObject]

    @property
    def path(self) -> str:
        """The path of its list in the API."""
        return f"/{self.group}/{self.kind}"

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
    WatchedObjects(_CORE, WatchedKind.NAMESPACE, _NamespaceFields, _namespace),
    WatchedObjects(_CORE, WatchedKind.CLAIM, claims.ClaimFields, claims.to_domain),
    WatchedObjects(
        _CORE,
        WatchedKind.VOLUME,
        persistent_volumes.PersistentVolumeFields,
        persistent_volumes.to_domain,
    ),
    WatchedObjects(
        _STORAGE,
        WatchedKind.STORAGE_CLASS,
        storage_classes.StorageClassFields,
        storage_classes.to_domain,
    ),
    WatchedObjects(_STORAGE, WatchedKind.CSI_NODE, csi.CsiNodeFields, csi.csi_node),
    WatchedObjects(_STORAGE, WatchedKind.CSI_DRIVER, csi.CsiDriverFields, csi.csi_driver),
    WatchedObjects(
        _STORAGE, WatchedKind.CSI_CAPACITY, csi.CsiStorageCapacityFields, csi.csi_storage_capacity
    ),
    WatchedObjects(
        _STORAGE, WatchedKind.ATTACHMENT, csi.VolumeAttachmentFields, csi.volume_attachment
    ),
    WatchedObjects(
        _DEVICES,
        WatchedKind.DEVICE_CLASS,
        resource_claim.DeviceClassFields,
        resource_claim.to_device_class,
    ),
    WatchedObjects(
        _DEVICES,
        WatchedKind.RESOURCE_SLICE,
        resource_slice.ResourceSliceFields,
        resource_slice.to_resource_slice,
    ),
    WatchedObjects(
        _DEVICES,
        WatchedKind.RESOURCE_CLAIM,
        resource_claim.ResourceClaimFields,
        resource_claim.to_resource_claim,
    ),
    WatchedObjects(
        _CORE, WatchedKind.SERVICE, pod_owners.SelectingLabelsFields, pod_owners.service
    ),
    WatchedObjects(
        _CORE,
        WatchedKind.REPLICATION_CONTROLLER,
        pod_owners.SelectingLabelsFields,
        pod_owners.replication_controller,
    ),
    WatchedObjects(
        _APPS, WatchedKind.REPLICA_SET, pod_owners.SelectingPodsFields, pod_owners.replica_set
    ),
    WatchedObjects(
        _APPS, WatchedKind.STATEFUL_SET, pod_owners.SelectingPodsFields, pod_owners.stateful_set
    ),
    WatchedObjects(
        _CORE,
        WatchedKind.RESOURCE_QUOTA,
        resource_quotas.ResourceQuotaFields,
        resource_quotas.to_quota,
    ),
)
