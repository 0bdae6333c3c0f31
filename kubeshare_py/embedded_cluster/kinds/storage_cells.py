"""Rows of `kubectl get` for volumes, their claims and the kinds of storage.k8s.io."""

from kubeshare_py.embedded_cluster.protocol.resources import PrinterColumn
from kubeshare_py.embedded_cluster.protocol.status import Json
from kubeshare_py.views.ages import age

#: A StorageClass with this annotation is that of claims that name none.
IS_DEFAULT = "storageclass.kubernetes.io/is-default-class"
_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_UNSET = "<unset>"
VOLUME_COLUMNS = (
    PrinterColumn("Capacity"),
    PrinterColumn("Access Modes"),
    PrinterColumn("Reclaim Policy"),
    PrinterColumn("Status"),
    PrinterColumn("Claim"),
    PrinterColumn("StorageClass"),
    PrinterColumn("VolumeAttributesClass"),
    PrinterColumn("Reason"),
    PrinterColumn("Age"),
    PrinterColumn("VolumeMode", priority=1),
)
CLAIM_COLUMNS = (
    PrinterColumn("Status"),
    PrinterColumn("Volume"),
    PrinterColumn("Capacity"),
    PrinterColumn("Access Modes"),
    PrinterColumn("StorageClass"),
    PrinterColumn("VolumeAttributesClass"),
    PrinterColumn("Age"),
    PrinterColumn("VolumeMode", priority=1),
)
STORAGE_CLASS_COLUMNS = (
    PrinterColumn("Name", format="name"),
    PrinterColumn("Provisioner"),
    PrinterColumn("ReclaimPolicy"),
    PrinterColumn("VolumeBindingMode"),
    PrinterColumn("AllowVolumeExpansion"),
    PrinterColumn("Age"),
)
CSI_NODE_COLUMNS = (PrinterColumn("Drivers", "integer"), PrinterColumn("Age"))
CSI_DRIVER_COLUMNS = (
    PrinterColumn("AttachRequired", "boolean"),
    PrinterColumn("PodInfoOnMount", "boolean"),
    PrinterColumn("StorageCapacity", "boolean"),
    PrinterColumn("TokenRequests"),
    PrinterColumn("RequiresRepublish", "boolean"),
    PrinterColumn("Modes"),
    PrinterColumn("Age"),
)
CAPACITY_COLUMNS = (PrinterColumn("Created At", "date"),)
ATTACHMENT_COLUMNS = (
    PrinterColumn("Attacher", format="name"),
    PrinterColumn("PV"),
    PrinterColumn("Node"),
    PrinterColumn("Attached", "boolean"),
    PrinterColumn("Age"),
)


def volume_cells(volume: Json, now: float) -> list[object]:
    """A PersistentVolume: capacity, modes, policy, phase, claim, classes, reason, age, mode."""
    spec, status = volume["spec"], volume.get("status") or {}
    claim = spec.get("claimRef") or {}
    return [
        (spec.get("capacity") or {}).get("storage", "0"),
        _modes(spec),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase(volume),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName", _UNSET),
        status.get("reason", ""),
        _age(volume, now),
        spec.get("volumeMode", _UNSET),
    ]


def claim_cells(claim: Json, now: float) -> list[object]:
    """A PersistentVolumeClaim: phase, volume, its capacity and modes, classes, age, mode."""
    spec, status = claim["spec"], claim.get("status") or {}
    volume = spec.get("volumeName", "")
    capacity = (status.get("capacity") or {}).get("storage", "0")
    return [
        _phase(claim),
        volume,
        capacity if volume else "",
        _modes(status) if volume else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName", _UNSET),
        _age(claim, now),
        spec.get("volumeMode", _UNSET),
    ]


def storage_class_cells(one: Json, now: float) -> list[object]:
    """Name with its mark, provisioner, policy, mode, whether volumes may grow, age."""
    metadata = one["metadata"]
    is_default = (metadata.get("annotations") or {}).get(IS_DEFAULT) == "true"
    return [
        f"{metadata['name']} (default)" if is_default else metadata["name"],
        one.get("provisioner", ""),
        one.get("reclaimPolicy", "Delete"),
        one.get("volumeBindingMode", "Immediate"),
        one.get("allowVolumeExpansion", False),
        _age(one, now),
    ]


def csi_node_cells(node: Json, now: float) -> list[object]:
    """How many drivers, and age."""
    return [len(node["spec"].get("drivers") or []), _age(node, now)]


def csi_driver_cells(driver: Json, now: float) -> list[object]:
    """What the driver asks for, its modes, age."""
    spec = driver["spec"]
    tokens = spec.get("tokenRequests")
    return [
        spec.get("attachRequired", True),
        spec.get("podInfoOnMount", False),
        spec.get("storageCapacity", False),
        _UNSET if tokens is None else ",".join(one.get("audience", "") for one in tokens),
        spec.get("requiresRepublish", False),
        ",".join(spec.get("volumeLifecycleModes") or []) or "<none>",
        _age(driver, now),
    ]


def capacity_cells(capacity: Json, _now: float) -> list[object]:
    """The time of creation: real servers have no columns of this kind's own."""
    return [capacity["metadata"].get("creationTimestamp")]


def attachment_cells(attachment: Json, now: float) -> list[object]:
    """Attacher, volume, node, whether it is attached, age."""
    spec = attachment["spec"]
    return [
        spec.get("attacher", ""),
        (spec.get("source") or {}).get("persistentVolumeName", ""),
        spec.get("nodeName", ""),
        (attachment.get("status") or {}).get("attached", False),
        _age(attachment, now),
    ]


def _modes(part: Json) -> str:
    given = part.get("accessModes") or []
    return ",".join(short for mode, short in _MODES.items() if mode in given)


def _phase(obj: Json) -> str:
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    return str((obj.get("status") or {}).get("phase", ""))


def _age(obj: Json, now: float) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)
