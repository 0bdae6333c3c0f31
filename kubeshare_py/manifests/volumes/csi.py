"""CSINode, CSIDriver, CSIStorageCapacity and VolumeAttachment of storage.k8s.io/v1.

https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from kubeshare_py.domain.bounds import INT32
from kubeshare_py.domain.needs.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    VolumeAttachment,
)
from kubeshare_py.domain.quantity import Quantity
from kubeshare_py.manifests.label_selector import SelectorFields, requirements
from kubeshare_py.manifests.metadata import ObjectMeta
from kubeshare_py.manifests.volumes.sizes import offered

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
