"""A v1 PersistentVolume, in the fields that placement depends on.

https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/persistent-volume-v1/
"""

from collections.abc import Sequence

import msgspec

from kubeshare_py.domain.label_selector import Requirement
from kubeshare_py.domain.needs.storage import ClaimReference, PersistentVolume
from kubeshare_py.domain.pod import NodeTerm
from kubeshare_py.domain.quantity import Quantity
from kubeshare_py.manifests.label_selector import requirement
from kubeshare_py.manifests.metadata import ObjectMeta
from kubeshare_py.manifests.pods.in_tree_plugins import PLUGINS, InTreePlugin
from kubeshare_py.manifests.pods.packed_terms import packed
from kubeshare_py.manifests.pods.pod_fields import NodeSelectorFields
from kubeshare_py.manifests.volumes.claims import class_of
from kubeshare_py.manifests.volumes.sizes import offered

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


def to_domain(volume: PersistentVolumeFields) -> PersistentVolume:
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
