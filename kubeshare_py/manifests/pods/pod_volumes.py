"""What a pod mounts, as far as placement depends on it.

The sources of volumes: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
"""

from collections.abc import Iterator, Sequence

import msgspec

from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.needs.volumes import InlineDisk, PodClaim, PodVolumes
from kubeshare_py.manifests.metadata import ObjectMeta
from kubeshare_py.manifests.pods.in_tree_plugins import PLUGINS
from kubeshare_py.manifests.undecodable import UNDECODABLE

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
