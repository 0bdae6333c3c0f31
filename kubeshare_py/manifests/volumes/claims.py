"""A v1 PersistentVolumeClaim, in the fields that placement depends on.

https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/persistent-volume-claim-v1/
"""

import msgspec

from kubeshare_py.domain.needs.storage import PersistentVolumeClaim
from kubeshare_py.domain.quantity import Quantity
from kubeshare_py.manifests.label_selector import SelectorFields, requirements
from kubeshare_py.manifests.metadata import ObjectMeta
from kubeshare_py.manifests.volumes.sizes import size

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


def to_domain(claim: ClaimFields) -> PersistentVolumeClaim:
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
