"""The volumes and ResourceClaims that a pod uses, as far as placement depends on them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.pod import DeviceClaimName, DeviceClaims, InlineDisk, PodClaim, PodVolumes
from kubeshare_py.manifests.common_definitions import ObjectMeta
from kubeshare_py.manifests.decoding import UNDECODABLE

# Volume plugins that were part of Kubernetes and whose volumes CSI drivers now attach.
#
# https://kubernetes.io/docs/concepts/storage/volumes/#csi-migration. The names are those of
# k8s.io/csi-translation-lib; only plugins whose volumes kube-scheduler counts are here.


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


# What a pod mounts, as far as placement depends on it.
#
# The sources of volumes:
# https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/


#: Sources that no plugin of kube-scheduler asks about: such a volume is on every node, or the
#: kubelet reports what is wrong with it.
ANYWHERE = frozenset(
    {
        *("configMap", "secret", "emptyDir", "hostPath", "projected", "downwardAPI", "nfs"),
        *("azureFile", "cephfs", "csi", "fc", "flexVolume", "flocker", "gitRepo", "glusterfs"),
        *("image", "photonPersistentDisk", "quobyte", "scaleIO", "storageos", "vsphereVolume"),
    }
)
ANYWHERE_WITH_NAME = ANYWHERE | {"name"}
_CLAIMED = frozenset({"persistentVolumeClaim", "ephemeral"})
#: The field that names the disk, by source.
_DISKS = {**{source: plugin.disk for source, plugin in PLUGINS.items()}, "iscsi": "iqn"}
_RBD = "rbd"
#: Fields of a volume that placement depends on, or that it does not depend on.
UNDERSTOOD = ANYWHERE | _CLAIMED | _DISKS.keys() | {"name", _RBD}

#: A volume of a pod's spec: `name`, and a source, undecoded.
PodVolumeFields = dict[str, msgspec.Raw]


class _ClaimSource(msgspec.Struct, frozen=True, rename="camel"):
    claim_name: str = ""


class _RbdSource(msgspec.Struct, frozen=True, rename="camel"):
    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = "rbd"
    read_only: bool = False


class _DiskSource(msgspec.Struct, frozen=True, rename="camel"):
    read_only: bool = False
    iqn: str = ""
    pd_name: str = ""
    volume_id: str = msgspec.field(default="", name="volumeID")
    disk_uri: str = msgspec.field(default="", name="diskURI")

    def disk(self, source: str) -> str:
        names = {
            "iqn": self.iqn,
            "pdName": self.pd_name,
            "volumeID": self.volume_id,
            "diskURI": self.disk_uri,
        }
        return names[_DISKS[source]]


def pod_volumes(meta: ObjectMeta, volumes: Sequence[PodVolumeFields] | None) -> PodVolumes | None:
    """The claims and disks among a pod's volumes; None for nearly all pods, and fast.

    A source that cannot be decoded is left out: see `unreadable`.
    """
    if not volumes or all(volume.keys() <= ANYWHERE_WITH_NAME for volume in volumes):
        return None
    claims: dict[str, PodClaim] = {}
    disks: dict[InlineDisk, None] = {}
    for volume in volumes:
        for one in _needs_of(meta, volume):
            if isinstance(one, PodClaim):
                claims.setdefault(one.name, one)
            else:
                disks[one] = None
    if not claims and not disks:
        return None
    return PodVolumes(namespace=meta.namespace, claims=tuple(claims.values()), disks=tuple(disks))


def unreadable(volume: PodVolumeFields) -> Iterator[str]:
    """The sources of a volume that are unknown here, or cannot be decoded, by their paths."""
    sources = volume.keys() - {"name"}
    known = sources & UNDERSTOOD
    bad = [source for source in known - ANYWHERE if not _is_readable(source, volume[source])]
    for source in sorted((sources - known) | {*bad}):
        yield f"spec.volumes[{_name(volume)}].{source}"


def _is_readable(source: str, raw: msgspec.Raw) -> bool:
    kinds = {"persistentVolumeClaim": _ClaimSource, "ephemeral": dict, _RBD: _RbdSource}
    try:
        msgspec.json.decode(raw, type=kinds.get(source, _DiskSource))
    except UNDECODABLE:
        return False
    return True


def _needs_of(meta: ObjectMeta, volume: PodVolumeFields) -> Iterator[PodClaim | InlineDisk]:
    for source in sorted(volume.keys() - ANYWHERE_WITH_NAME):
        if source in UNDERSTOOD and _is_readable(source, volume[source]):
            yield _need(meta, volume, source)


def _need(meta: ObjectMeta, volume: PodVolumeFields, source: str) -> PodClaim | InlineDisk:
    raw = volume[source]
    if source == "persistentVolumeClaim":
        return PodClaim(msgspec.json.decode(raw, type=_ClaimSource).claim_name)
    if source == "ephemeral":
        return PodClaim(f"{meta.name}-{_name(volume)}", PodUid(meta.uid), meta.name)
    if source == _RBD:
        rbd = msgspec.json.decode(raw, type=_RbdSource)
        return InlineDisk(source, f"{rbd.pool}/{rbd.image}", rbd.read_only, rbd.monitors)
    disk = msgspec.json.decode(raw, type=_DiskSource)
    driver = PLUGINS[source].driver if source in PLUGINS else ""
    return InlineDisk(source, disk.disk(source), disk.read_only, csi_driver=driver)


def _name(volume: PodVolumeFields) -> str:
    try:
        return msgspec.json.decode(volume["name"], type=str) if "name" in volume else ""
    except UNDECODABLE:
        return ""


# The ResourceClaims that a pod uses: spec.resourceClaims, and the names that its status gives.
#
# https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#resources


#: More claims are not read; Kubernetes has no bound of its own.
MAX_CLAIMS = 64


class _PodClaimFields(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class _ClaimStatusFields(msgspec.Struct, frozen=True, rename="camel"):
    """`resource_claim_name` None: the pod turned out to need no claim."""

    name: str
    resource_claim_name: str | None = None


_ClaimEntries = Annotated[tuple[_PodClaimFields, ...], Meta(max_length=MAX_CLAIMS)]


def pod_device_claims(
    meta: ObjectMeta, entries: Sequence[msgspec.Raw] | None, statuses: Sequence[msgspec.Raw] | None
) -> DeviceClaims | None:
    """The claims of a pod; None for nearly all pods, and if `unreadable_claims` names a field."""
    if not entries or unreadable_claims(entries):
        return None
    made = {one.name: one.resource_claim_name for one in _statuses(statuses)}
    names = []
    for one in _read(entries):
        if one.resource_claim_name is not None:
            names.append(DeviceClaimName(one.name, one.resource_claim_name))
        elif one.name not in made:
            names.append(DeviceClaimName(one.name, "", generated=True))
        else:
            claim = made[one.name]
            if claim is not None:
                names.append(DeviceClaimName(one.name, claim, generated=True))
    if not names:
        return None
    return DeviceClaims(namespace=meta.namespace, pod=meta.name, uid=meta.uid, names=tuple(names))


def unreadable_claims(entries: Sequence[msgspec.Raw]) -> tuple[str, ...]:
    """The field, if what it has is not understood."""
    try:
        found = _read(entries)
    except UNDECODABLE:
        return ("spec.resourceClaims",)
    return tuple(
        f"spec.resourceClaims[{one.name}]"
        for one in found
        if (one.resource_claim_name is None) == (one.resource_claim_template_name is None)
    )


def _read(entries: Sequence[msgspec.Raw]) -> _ClaimEntries:
    return msgspec.json.decode(_list(entries), type=_ClaimEntries)


def _statuses(statuses: Sequence[msgspec.Raw] | None) -> tuple[_ClaimStatusFields, ...]:
    try:
        return msgspec.json.decode(_list(statuses or ()), type=tuple[_ClaimStatusFields, ...])
    except UNDECODABLE:
        return ()


def _list(entries: Sequence[msgspec.Raw]) -> bytes:
    return b"[" + b",".join(bytes(one) for one in entries) + b"]"
