"""Storage objects as they come over the wire, and the writes to them before a pod is bound."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, assert_never

import msgspec
from msgspec import Meta

from kubeshare_py.domain.cluster_objects import Requirement
from kubeshare_py.domain.events import WriteOutcome
from kubeshare_py.domain.pod import NodeTerm
from kubeshare_py.domain.quantity import INT32, BadQuantity, Quantity, whole
from kubeshare_py.domain.storage import (
    ClaimReference,
    ClaimVolume,
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    SelectNode,
    StorageClass,
    VolumeAttachment,
    VolumeWrite,
)
from kubeshare_py.manifests.api_paths import CORE, object_path
from kubeshare_py.manifests.common_definitions import (
    ObjectMeta,
    SelectorFields,
    requirement,
    requirements,
)
from kubeshare_py.manifests.pods.placement import packed
from kubeshare_py.manifests.pods.pod_fields import NodeSelectorFields
from kubeshare_py.manifests.pods.pod_volumes import PLUGINS, REPLACED_BY, InTreePlugin

# Sizes of volumes, in bytes.


#: What a request that is no quantity asks for: more than any volume has.
UNSATISFIABLE = 1 << 63


def size(amounts: Mapping[str, Quantity] | None) -> int | None:
    """The amount of `storage`, rounded up; None if there is none."""
    return None if not amounts or "storage" not in amounts else requested(amounts["storage"])


def requested(quantity: Quantity) -> int:
    """A requested amount, rounded up."""
    try:
        return whole(str(quantity))
    except BadQuantity:
        return UNSATISFIABLE


def offered(quantity: Quantity | None) -> int | None:
    """An offered amount, rounded up; None if there is none, or if it is no quantity."""
    try:
        return None if quantity is None else whole(str(quantity))
    except BadQuantity:
        return None


# A v1 PersistentVolumeClaim, in the fields that placement depends on.
#
# https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/persistent-volume-claim-v1/


#: The class in objects that are older than the field: https://kubernetes.io/docs/concepts/storage/
#: persistent-volumes/#class
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"


class _ClaimStruct(msgspec.Struct, frozen=True, rename="camel"):
    """Camel case on the wire, no changes."""


class _ClaimResources(_ClaimStruct, frozen=True):
    requests: dict[str, Quantity] | None = None


class _ClaimSpec(_ClaimStruct, frozen=True):
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] | None = None
    resources: _ClaimResources = _ClaimResources()
    selector: SelectorFields | None = None
    volume_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class _ClaimStatus(_ClaimStruct, frozen=True):
    phase: str = ""


class ClaimFields(_ClaimStruct, frozen=True):
    """A PersistentVolumeClaim."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _ClaimSpec = _ClaimSpec()
    status: _ClaimStatus = _ClaimStatus()


def class_of(meta: ObjectMeta, name: str | None) -> str:
    """The StorageClass of a claim or volume: the annotation's, else the field's; "" without one."""
    annotated = (meta.annotations or {}).get(CLASS_ANNOTATION)
    return annotated if annotated is not None else name or ""


def to_claim(claim: ClaimFields) -> PersistentVolumeClaim:
    """The domain's claim. Never raises."""
    meta, spec = claim.metadata, claim.spec
    annotations = meta.annotations or {}
    selector = spec.selector
    return PersistentVolumeClaim(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        class_name=class_of(meta, spec.storage_class_name),
        requested=size(spec.resources.requests),
        access_modes=spec.access_modes or (),
        volume_mode=spec.volume_mode or "Filesystem",
        selector=None if selector is None else requirements(selector),
        attributes_class=spec.volume_attributes_class_name or "",
        volume=spec.volume_name,
        bind_completed=BIND_COMPLETED in annotations,
        lost=claim.status.phase == "Lost",
        deleting=meta.deletion_timestamp is not None,
        selected_node=annotations.get(SELECTED_NODE),
        controller=meta.controller_uid,
        version=meta.resource_version,
    )


# CSINode, CSIDriver, CSIStorageCapacity and VolumeAttachment of storage.k8s.io/v1.
#
# https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/


#: In-tree plugins, with commas: https://kubernetes.io/docs/reference/labels-annotations-taints/
MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"


class _CsiStruct(msgspec.Struct, frozen=True, rename="camel"):
    """Camel case on the wire, no changes."""


class _Allocatable(_CsiStruct, frozen=True):
    count: Annotated[int, Meta(ge=INT32.least, le=INT32.most)] | None = None


class _NodeDriver(_CsiStruct, frozen=True):
    name: str = ""
    allocatable: _Allocatable | None = None


class _CsiNodeSpec(_CsiStruct, frozen=True):
    drivers: tuple[_NodeDriver, ...] | None = None


class CsiNodeFields(_CsiStruct, frozen=True):
    """A CSINode."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _CsiNodeSpec = _CsiNodeSpec()


class _CsiDriverSpec(_CsiStruct, frozen=True):
    storage_capacity: bool | None = None


class CsiDriverFields(_CsiStruct, frozen=True):
    """A CSIDriver."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _CsiDriverSpec = _CsiDriverSpec()


class CsiStorageCapacityFields(_CsiStruct, frozen=True):
    """A CSIStorageCapacity, which has no spec."""

    metadata: ObjectMeta = ObjectMeta()
    storage_class_name: str = ""
    node_topology: SelectorFields | None = None
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class _AttachedSource(_CsiStruct, frozen=True):
    persistent_volume_name: str | None = None


class _AttachmentSpec(_CsiStruct, frozen=True):
    attacher: str = ""
    node_name: str = ""
    source: _AttachedSource = _AttachedSource()


class VolumeAttachmentFields(_CsiStruct, frozen=True):
    """A VolumeAttachment."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _AttachmentSpec = _AttachmentSpec()


def csi_node(fields: CsiNodeFields) -> CsiNode:
    """The domain's CSINode. Never raises."""
    migrated = (fields.metadata.annotations or {}).get(MIGRATED_PLUGINS, "")
    return CsiNode(
        name=fields.metadata.name,
        drivers=tuple(
            (one.name, one.allocatable.count if one.allocatable is not None else None)
            for one in fields.spec.drivers or ()
        ),
        migrated=tuple(migrated.split(",")) if migrated else (),
    )


def csi_driver(fields: CsiDriverFields) -> CsiDriver:
    """The domain's CSIDriver. Never raises."""
    return CsiDriver(
        name=fields.metadata.name, tracks_capacity=fields.spec.storage_capacity is True
    )


def csi_storage_capacity(fields: CsiStorageCapacityFields) -> CsiStorageCapacity:
    """The domain's capacity. Never raises.

    The largest volume, where it is known, is more precise than the capacity of all.
    """
    topology, largest = fields.node_topology, fields.maximum_volume_size
    return CsiStorageCapacity(
        namespace=fields.metadata.namespace,
        name=fields.metadata.name,
        storage_class=fields.storage_class_name,
        segment=None if topology is None else requirements(topology),
        largest=offered(fields.capacity if largest is None else largest),
    )


def volume_attachment(fields: VolumeAttachmentFields) -> VolumeAttachment:
    """The domain's attachment. Never raises."""
    spec = fields.spec
    return VolumeAttachment(
        name=fields.metadata.name,
        attacher=spec.attacher,
        node=spec.node_name,
        attached_volume=spec.source.persistent_volume_name or "",
    )


# Writes to PersistentVolumeClaims and PersistentVolumes, as merge patches for one version.
#
# With a resourceVersion in the patch, the API server refuses it with 409 if the object has another
# version by now (https://kubernetes.io/docs/reference/using-api/api-concepts/#patch-and-apply).
# Keys: https://kubernetes.io/docs/reference/labels-annotations-taints/


#: The control plane unbinds a volume with this annotation once its claim is gone, because no person
#: bound it.
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"

_UNAUTHORIZED, _CONFLICT, _TOO_MANY_REQUESTS, _SERVER_ERROR = 401, 409, 429, 500


def write_path(write: VolumeWrite) -> str:
    """The path of the object that is written to."""
    match write:
        case SelectNode(namespace=namespace, claim=claim):
            return object_path(CORE, "persistentvolumeclaims", claim, namespace)
        case ClaimVolume(volume=volume):
            return object_path(CORE, "persistentvolumes", volume)
        case _:
            assert_never(write)


def write_patch(write: VolumeWrite) -> bytes:
    """The patch."""
    metadata: dict[str, Any] = {"resourceVersion": write.version}
    body: dict[str, Any] = {"metadata": metadata}
    match write:
        case SelectNode(node=node):
            metadata["annotations"] = {SELECTED_NODE: node}
        case ClaimVolume():
            if not write.is_kept:
                metadata["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
            body["spec"] = {"claimRef": _reference(write)}
        case _:
            assert_never(write)
    return msgspec.json.encode(body)


def read_write_error(status: int) -> WriteOutcome:
    """What an error answer to such a patch means, given that it may not have been the first try."""
    if status == _CONFLICT:
        return WriteOutcome.STALE
    if status in (_UNAUTHORIZED, _TOO_MANY_REQUESTS) or status >= _SERVER_ERROR:
        return WriteOutcome.UNKNOWN
    return WriteOutcome.REFUSED


def _reference(write: ClaimVolume) -> dict[str, str]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": write.namespace,
        "name": write.claim,
        "uid": write.claim_uid,
        "resourceVersion": write.claim_version,
    }


# A v1 PersistentVolume, in the fields that placement depends on.
#
# https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/persistent-volume-v1/


_OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
_OLD_REGION = "failure-domain.beta.kubernetes.io/region"
_REGION = "topology.kubernetes.io/region"
#: Labels of a zone, the one that counts first.
_ZONES = ("topology.kubernetes.io/zone", _OLD_ZONE)
#: Between the zones of one label.
_SEPARATOR = "__"


class _VolumeStruct(msgspec.Struct, frozen=True, rename="camel"):
    """Camel case on the wire, no changes."""


class _ClaimRef(_VolumeStruct, frozen=True):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class _VolumeNodeAffinity(_VolumeStruct, frozen=True):
    required: NodeSelectorFields | None = None


class _CsiSource(_VolumeStruct, frozen=True):
    driver: str = ""
    volume_handle: str = ""


class _InTreeSource(_VolumeStruct, frozen=True):
    pd_name: str = ""
    volume_id: str = msgspec.field(default="", name="volumeID")
    disk_uri: str = msgspec.field(default="", name="diskURI")

    @property
    def handle(self) -> str:
        return self.pd_name or self.volume_id or self.disk_uri


class _VolumeSpec(_VolumeStruct, frozen=True):
    capacity: dict[str, Quantity] | None = None
    access_modes: tuple[str, ...] | None = None
    claim_ref: _ClaimRef | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: _VolumeNodeAffinity | None = None
    csi: _CsiSource | None = None
    aws_elastic_block_store: _InTreeSource | None = None
    azure_disk: _InTreeSource | None = None
    cinder: _InTreeSource | None = None
    gce_persistent_disk: _InTreeSource | None = None
    portworx_volume: _InTreeSource | None = None

    @property
    def in_tree(self) -> tuple[tuple[str, _InTreeSource | None], ...]:
        return (
            ("awsElasticBlockStore", self.aws_elastic_block_store),
            ("azureDisk", self.azure_disk),
            ("cinder", self.cinder),
            ("gcePersistentDisk", self.gce_persistent_disk),
            ("portworxVolume", self.portworx_volume),
        )


class _VolumeStatus(_VolumeStruct, frozen=True):
    phase: str = ""


class PersistentVolumeFields(_VolumeStruct, frozen=True):
    """A PersistentVolume."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _VolumeSpec = _VolumeSpec()
    status: _VolumeStatus = _VolumeStatus()


def to_volume(volume: PersistentVolumeFields) -> PersistentVolume:
    """The domain's volume. Never raises."""
    meta, spec = volume.metadata, volume.spec
    driver, handle, plugin = _attached(spec)
    claim, terms = spec.claim_ref, _terms(spec.node_affinity)
    labels = tuple(sorted((meta.labels or {}).items()))
    return PersistentVolume(
        name=meta.name,
        capacity=offered((spec.capacity or {}).get("storage")) or 0,
        class_name=class_of(meta, spec.storage_class_name),
        access_modes=spec.access_modes or (),
        volume_mode=spec.volume_mode or "Filesystem",
        attributes_class=spec.volume_attributes_class_name or "",
        claim=None if claim is None else ClaimReference(claim.namespace, claim.name, claim.uid),
        phase=volume.status.phase,
        labels=labels,
        node_terms=None if terms is None else packed(terms),
        csi_driver=driver,
        handle=handle,
        in_tree=plugin.name if plugin is not None else "",
        migrated_terms=_migrated(terms, dict(labels), plugin),
        deleting=meta.deletion_timestamp is not None,
        version=meta.resource_version,
    )


def _attached(spec: _VolumeSpec) -> tuple[str, str, InTreePlugin | None]:
    """The driver, its name for the volume, and the in-tree plugin that the driver replaced."""
    if spec.csi is not None:
        return spec.csi.driver, spec.csi.volume_handle, None
    for source, fields in spec.in_tree:
        if fields is not None:
            return PLUGINS[source].driver, fields.handle, PLUGINS[source]
    return "", "", None


def _terms(affinity: _VolumeNodeAffinity | None) -> tuple[NodeTerm, ...] | None:
    if affinity is None or affinity.required is None:
        return None
    return tuple(
        NodeTerm(
            tuple(requirement(one) for one in term.match_expressions or ()),
            tuple(requirement(one) for one in term.match_fields or ()),
        )
        for term in affinity.required.node_selector_terms or ()
    )


def _migrated(
    terms: tuple[NodeTerm, ...] | None, labels: dict[str, str], plugin: InTreePlugin | None
) -> Sequence[NodeTerm] | None:
    """The node affinity with the driver's label of the zone, as csi-translation-lib writes it.

    A zone that only the volume's labels name is added to every term. None without a plugin, too.
    """
    if plugin is None:
        return None
    if not plugin.zone_label:
        return None if terms is None else packed(terms)
    named = {one.key for term in terms or () for one in term.labels}
    zone = next((key for key in _ZONES if key in named), "")
    if zone:
        new_keys = {zone: plugin.zone_label}
        if zone == _OLD_ZONE:
            new_keys[_OLD_REGION] = _REGION
        return packed(tuple(_renamed(term, new_keys) for term in terms or ()))
    label = next((labels[key] for key in _ZONES if key in labels), "")
    zones = sorted({one.strip() for one in label.split(_SEPARATOR)} - {""})
    if not zones:
        return None if terms is None else packed(terms)
    more = Requirement(plugin.zone_label, "In", tuple(zones))
    return packed(
        tuple(NodeTerm((*term.labels, more), term.fields) for term in terms or (NodeTerm(),))
    )


def _renamed(term: NodeTerm, keys: dict[str, str]) -> NodeTerm:
    lines = (
        Requirement(keys.get(one.key, one.key), one.operator, one.values) for one in term.labels
    )
    return NodeTerm(tuple(lines), term.fields)


# A storage.k8s.io/v1 StorageClass, in the fields that placement depends on.
#
# https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/storage-class-v1/


class _ClassStruct(msgspec.Struct, frozen=True, rename="camel"):
    """Camel case on the wire, no changes."""


class _TopologyLine(_ClassStruct, frozen=True):
    key: str = ""
    values: tuple[str, ...] | None = None


class _TopologyTerm(_ClassStruct, frozen=True):
    match_label_expressions: tuple[_TopologyLine, ...] | None = None


class StorageClassFields(_ClassStruct, frozen=True):
    """A StorageClass, which has no spec."""

    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[_TopologyTerm, ...] | None = None


def to_storage_class(fields: StorageClassFields) -> StorageClass:
    """The domain's class. Never raises."""
    return StorageClass(
        name=fields.metadata.name,
        provisioner=fields.provisioner,
        csi_driver=REPLACED_BY.get(fields.provisioner, fields.provisioner),
        waits=fields.volume_binding_mode == "WaitForFirstConsumer",
        topologies=tuple(
            tuple(
                Requirement(line.key, "In", line.values or ())
                for line in term.match_label_expressions or ()
            )
            for term in fields.allowed_topologies or ()
        ),
    )
