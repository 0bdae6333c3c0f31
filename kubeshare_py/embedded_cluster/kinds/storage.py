"""PersistentVolumes, their claims and storage.k8s.io: defaults, checks, rows of `kubectl get`."""

import math

from kubeshare_py.embedded_cluster.protocol import quantities
from kubeshare_py.embedded_cluster.protocol.checks import IMMUTABLE, NOT_NEGATIVE, POSITIVE, Checked
from kubeshare_py.embedded_cluster.protocol.fields import VOLUME_SOURCES
from kubeshare_py.embedded_cluster.protocol.merge import META_KEYS
from kubeshare_py.embedded_cluster.protocol.names import qualified_problem, subdomain_problem
from kubeshare_py.embedded_cluster.protocol.quantities import canonical_amounts
from kubeshare_py.embedded_cluster.protocol.resources import (
    STATUS,
    Admission,
    PrinterColumn,
    Resource,
    age_of,
    columns,
    without_status,
)
from kubeshare_py.embedded_cluster.protocol.selectors import check_node_selector, check_selector
from kubeshare_py.embedded_cluster.protocol.status import Json
from kubeshare_py.embedded_cluster.protocol.store import ApiStore
from kubeshare_py.embedded_cluster.protocol.times import default_times, timestamp

_SHORT_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_ALONE = "ReadWriteOncePod"
_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", _ALONE)
_VOLUME_MODES = ("Block", "Filesystem")
_UNSET = "<unset>"


def _check_access_modes(spec: Checked) -> None:
    """Known modes only, and ReadWriteOncePod alone."""
    modes = spec.get("accessModes", [])
    for mode in modes:
        if mode not in _MODES:
            spec.unsupported("accessModes", mode, _MODES)
    if _ALONE in modes and any(mode in _MODES and mode != _ALONE for mode in modes):
        spec.forbid("accessModes", "may not use ReadWriteOncePod with other access modes")


def _check_size(part: Checked, field: str, size: str) -> None:
    """An amount of storage is above zero."""
    if quantities.value(size) <= 0:
        part.wrong(field, size, POSITIVE)


def _check_class_name(spec: Checked) -> None:
    """The name of a class is a subdomain, or empty."""
    if spec.get("storageClassName"):
        spec.valid("storageClassName", subdomain_problem)


def _modes(part: Json) -> str:
    given = part.get("accessModes") or []
    return ",".join(short for mode, short in _SHORT_MODES.items() if mode in given)


def _phase(obj: Json) -> str:
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    return str((obj.get("status") or {}).get("phase", ""))


def _protect(metadata: Json, finalizer: str) -> None:
    held = metadata.get("finalizers") or []
    if finalizer not in held:
        metadata["finalizers"] = [*held, finalizer]


# PersistentVolumeClaims (v1).
#
# Not checked here: that a claim only grows if its StorageClass allows it.


#: A StorageClass with this annotation is that of claims that name none.
IS_DEFAULT = "storageclass.kubernetes.io/is-default-class"
#: Keeps a claim that is being deleted until no pod uses it.
CLAIM_FINALIZER = "kubernetes.io/pvc-protection"
_FIXED_CLAIM_SPEC = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for "
    "bound claims"
)


def default_claim_spec(spec: Json) -> None:
    """The defaults of a claim, and of the template of one; raises BadQuantity."""
    canonical_amounts(spec.setdefault("resources", {}), "limits", "requests")
    spec.setdefault("volumeMode", "Filesystem")


def check_claim_spec(spec: Checked) -> None:
    """The spec of a claim, or of the template of one."""
    spec.require("accessModes", text="at least 1 access mode is required")
    check_selector(spec.at("selector"))
    _check_access_modes(spec)
    size = (spec.value["resources"].get("requests") or {}).get("storage")
    if size is None:
        spec.lacks("resources[storage]")
    else:
        _check_size(spec, "resources[storage]", size)
    _check_class_name(spec)
    spec.one_of("volumeMode", _VOLUME_MODES)


def _prepare_claim(claim: Json, admission: Admission) -> None:
    claim["status"] = {}
    _protect(claim["metadata"], CLAIM_FINALIZER)
    spec = claim.setdefault("spec", {})
    name = _default_class(admission.store)
    if "storageClassName" not in spec and name:
        spec["storageClassName"] = name


def _default_class(store: ApiStore) -> str:
    """The name of the newest class that is marked as default; "" if there is none."""
    marked = [
        entry.object["metadata"]
        for entry in store.entries(STORAGE_CLASSES.store_bucket)
        if (entry.object["metadata"].get("annotations") or {}).get(IS_DEFAULT) == "true"
    ]
    newest = sorted(marked, key=lambda one: one["name"])
    newest.sort(key=lambda one: str(one["creationTimestamp"]), reverse=True)
    return str(newest[0]["name"]) if newest else ""


def _default_claim(claim: Json) -> None:
    default_claim_spec(claim.setdefault("spec", {}))
    status = claim.setdefault("status", {})
    status.setdefault("phase", "Pending")
    canonical_amounts(status, "capacity", "allocatedResources")
    default_times(status, "lastProbeTime")


def _check_claim_update(claim: Checked, old: Json) -> None:
    """The volume is named once; a bound claim may grow."""
    new = claim.value
    spec, held = new["spec"], dict(old["spec"])
    kept = dict(spec)
    if not held.get("volumeName"):
        held["volumeName"] = spec.get("volumeName")
        kept.setdefault("volumeName", None)
    if "storageClassName" not in held and "storageClassName" in spec:
        held["storageClassName"] = spec["storageClassName"]
    if new["status"].get("phase") == "Bound":
        kept["resources"] = held["resources"]
        for part in (kept, held):
            part.pop("volumeAttributesClassName", None)
    if kept != held:
        claim.forbid("spec", _FIXED_CLAIM_SPEC)
    sizes = [
        quantities.value((one["resources"].get("requests") or {}).get("storage", "0"))
        for one in (spec, old["spec"])
    ]
    done = (new["status"].get("capacity") or {}).get("storage", "0")
    if sizes[0] < sizes[1] and sizes[0] <= quantities.value(done):
        text = "field can not be less than status.capacity"
        claim.forbid("spec.resources.requests.storage", text)


def _claim_cells(claim: Json, now: float) -> list[object]:
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
        age_of(claim, now),
        spec.get("volumeMode", _UNSET),
    ]


CLAIMS = Resource(
    plural="persistentvolumeclaims",
    kind="PersistentVolumeClaim",
    short_names=("pvc",),
    subresources=(STATUS,),
    columns=columns(
        "Status, Volume, Capacity, Access Modes, StorageClass, VolumeAttributesClass, Age",
        "VolumeMode",
    ),
    cells=_claim_cells,
    merge_keys={**META_KEYS, "conditions": "type"},
    returns_deleted=True,
    prepare=_prepare_claim,
    default=_default_claim,
    check=lambda claim: check_claim_spec(claim.at("spec")),
    check_update=_check_claim_update,
)


# PersistentVolumes (v1).


#: Keeps a volume that is being deleted until no claim is bound to it.
VOLUME_FINALIZER = "kubernetes.io/pv-protection"
_FIXED_VOLUME_FIELDS = {
    "volumeMode": "",
    "nodeAffinity": ", except for updating from beta label to GA",
}
_POLICIES = ("Delete", "Recycle", "Retain")
_NEEDED = {"local": ("path",), "hostPath": ("path",), "csi": ("driver", "volumeHandle")}


def _prepare_volume(volume: Json, admission: Admission) -> None:
    volume["status"] = {"phase": "Pending", "lastPhaseTransitionTime": timestamp(admission.now)}
    _protect(volume["metadata"], VOLUME_FINALIZER)


def _default_volume(volume: Json) -> None:
    spec = volume.setdefault("spec", {})
    canonical_amounts(spec, "capacity")
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    if "hostPath" in spec:
        spec["hostPath"].setdefault("type", "")
    volume.setdefault("status", {}).setdefault("phase", "Pending")


def _check_volume(volume: Checked) -> None:
    spec = volume.at("spec")
    spec.require("accessModes")
    _check_access_modes(spec)
    _check_capacity(spec)
    spec.one_of("persistentVolumeReclaimPolicy", _POLICIES)
    if "nodeAffinity" in spec.value:
        affinity = spec.at("nodeAffinity")
        if "required" in affinity.value:
            check_node_selector(affinity.at("required"))
        else:
            affinity.lacks("required", "must specify required node constraints")
    _check_source(spec)
    _check_class_name(spec)
    spec.one_of("volumeMode", _VOLUME_MODES)


def _check_capacity(spec: Checked) -> None:
    spec.require("capacity")
    capacity = spec.get("capacity", {})
    if set(capacity) != {"storage"}:
        spec.unsupported("capacity", capacity, ("storage",))
    for name, size in capacity.items():
        if (amount := quantities.value(size)) < 0:
            text = "must be a valid resource quantity"
            spec.wrong(f"capacity[{name}]", math.ceil(amount), text)
        _check_size(spec, f"capacity[{name}]", size)


def _check_source(spec: Checked) -> None:
    first, *more = [name for name in VOLUME_SOURCES if name in spec.value] or [""]
    if not first:
        spec.lacks("", "must specify a volume type")
        return
    for name in more:
        spec.forbid(name, "may not specify more than 1 volume type")
    spec.at(first).require(*_NEEDED.get(first, ()))
    if first == "local" and "nodeAffinity" not in spec.value:
        spec.lacks("nodeAffinity", "Local volume requires node affinity")


def _check_volume_update(volume: Checked, old: Json) -> None:
    """The source and the mode stay, and the node affinity once it is set."""
    spec, held = volume.value["spec"], old["spec"]
    if any(spec.get(name) != held.get(name) for name in VOLUME_SOURCES):
        text = "spec.persistentvolumesource is immutable after creation"
        volume.forbid("spec.persistentvolumesource", text)
    for name, exception in _FIXED_VOLUME_FIELDS.items():
        if name in held and spec.get(name) != held[name]:
            volume.wrong(name, spec.get(name), f"{IMMUTABLE}{exception}")


def _volume_cells(volume: Json, now: float) -> list[object]:
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
        age_of(volume, now),
        spec.get("volumeMode", _UNSET),
    ]


VOLUMES = Resource(
    plural="persistentvolumes",
    kind="PersistentVolume",
    namespaced=False,
    short_names=("pv",),
    subresources=(STATUS,),
    columns=columns(
        "Capacity, Access Modes, Reclaim Policy, Status, Claim, StorageClass, "
        "VolumeAttributesClass, Reason, Age",
        "VolumeMode",
    ),
    cells=_volume_cells,
    returns_deleted=True,
    prepare=_prepare_volume,
    default=_default_volume,
    check=_check_volume,
    check_update=_check_volume_update,
)


# StorageClasses, the kinds of CSI drivers, VolumeAttachments (storage.k8s.io/v1).


_GROUP = "storage.k8s.io"
_ONE_SOURCE = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
_CLASS_FIXED = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
_RECLAIM = ("Delete", "Retain")
_BINDING = ("Immediate", "WaitForFirstConsumer")
_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
_SHORTEST_PERIOD_S = 10
_LIFECYCLES = ("Persistent", "Ephemeral")
_DRIVER_DEFAULTS = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
    "seLinuxMount": False,
}


def _default_storage_class(one: Json) -> None:
    one.setdefault("provisioner", "")
    one.setdefault("reclaimPolicy", "Delete")
    one.setdefault("volumeBindingMode", "Immediate")


def _check_storage_class(one: Checked) -> None:
    one.named("provisioner", qualified_problem, lower=True)
    one.one_of("reclaimPolicy", _RECLAIM)
    one.one_of("volumeBindingMode", _BINDING)
    for term in one.each("allowedTopologies"):
        for line in term.each("matchLabelExpressions"):
            line.require("values")


def _storage_class_cells(one: Json, now: float) -> list[object]:
    metadata = one["metadata"]
    is_default = (metadata.get("annotations") or {}).get(IS_DEFAULT) == "true"
    return [
        f"{metadata['name']} (default)" if is_default else metadata["name"],
        one.get("provisioner", ""),
        one.get("reclaimPolicy", "Delete"),
        one.get("volumeBindingMode", "Immediate"),
        one.get("allowVolumeExpansion", False),
        age_of(one, now),
    ]


STORAGE_CLASSES = Resource(
    group=_GROUP,
    plural="storageclasses",
    kind="StorageClass",
    namespaced=False,
    short_names=("sc",),
    columns=(
        PrinterColumn("Name", format="name"),
        *columns("Provisioner, ReclaimPolicy, VolumeBindingMode, AllowVolumeExpansion, Age"),
    ),
    cells=_storage_class_cells,
    returns_deleted=True,
    default=_default_storage_class,
    check=_check_storage_class,
    check_update=lambda one, old: one.unchanged(old, *_CLASS_FIXED),
)


def _default_csi_node(node: Json) -> None:
    spec = node.setdefault("spec", {})
    spec.setdefault("drivers", None)
    for driver in spec["drivers"] or []:
        driver.setdefault("topologyKeys", None)


def _check_csi_node(node: Checked) -> None:
    seen: set[str] = set()
    for driver in node.at("spec").each("drivers"):
        driver.named("name", subdomain_problem, lower=True)
        driver.require("nodeID")
        driver.at("allocatable").at_least(0, "count")
        driver.repeats("name", seen)


def _check_csi_node_update(node: Checked, old: Json) -> None:
    """A driver keeps its id and keys; its count may change."""
    held = {driver["name"]: driver for driver in old["spec"]["drivers"] or []}
    for driver in node.value["spec"]["drivers"] or []:
        before = held.get(driver["name"], driver)
        if any(driver.get(name) != before.get(name) for name in ("nodeID", "topologyKeys")):
            node.wrong("spec.drivers", driver, IMMUTABLE)


CSI_NODES = Resource(
    group=_GROUP,
    plural="csinodes",
    kind="CSINode",
    namespaced=False,
    columns=columns("Drivers:integer, Age"),
    cells=lambda node, now: [len(node["spec"].get("drivers") or []), age_of(node, now)],
    merge_keys={**META_KEYS, "drivers": "name"},
    returns_deleted=True,
    unconditional_update=False,
    default=_default_csi_node,
    check=_check_csi_node,
    check_update=_check_csi_node_update,
)


def _default_csi_driver(driver: Json) -> None:
    spec = driver.setdefault("spec", {})
    for name, value in _DRIVER_DEFAULTS.items():
        spec.setdefault(name, value)
    spec.setdefault("volumeLifecycleModes", ["Persistent"])


def _check_csi_driver(driver: Checked) -> None:
    spec = driver.at("spec")
    spec.one_of("fsGroupPolicy", _GROUP_POLICIES)
    for mode in spec.value["volumeLifecycleModes"]:
        if mode not in _LIFECYCLES:
            spec.unsupported("volumeLifecycleModes", mode, _LIFECYCLES)
    text = "must be greater than or equal to 10 seconds"
    spec.at_least(_SHORTEST_PERIOD_S, "nodeAllocatableUpdatePeriodSeconds", text=text)


def _check_csi_driver_update(driver: Checked, old: Json) -> None:
    spec, held = driver.value["spec"], old["spec"]
    fixed = {"attachRequired": "attachedRequired", "volumeLifecycleModes": "volumeLifecycleModes"}
    for name, shown in fixed.items():
        if spec[name] != held[name]:
            driver.wrong(f"spec.{shown}", spec[name], IMMUTABLE)


def _csi_driver_cells(driver: Json, now: float) -> list[object]:
    spec = driver["spec"]
    tokens = spec.get("tokenRequests")
    return [
        spec.get("attachRequired", True),
        spec.get("podInfoOnMount", False),
        spec.get("storageCapacity", False),
        _UNSET if tokens is None else ",".join(one.get("audience", "") for one in tokens),
        spec.get("requiresRepublish", False),
        ",".join(spec.get("volumeLifecycleModes") or []) or "<none>",
        age_of(driver, now),
    ]


CSI_DRIVERS = Resource(
    group=_GROUP,
    plural="csidrivers",
    kind="CSIDriver",
    namespaced=False,
    columns=columns(
        "AttachRequired:boolean, PodInfoOnMount:boolean, StorageCapacity:boolean, TokenRequests, "
        "RequiresRepublish:boolean, Modes, Age"
    ),
    cells=_csi_driver_cells,
    returns_deleted=True,
    unconditional_update=False,
    default=_default_csi_driver,
    check=_check_csi_driver,
    check_update=_check_csi_driver_update,
)


def _default_capacity(capacity: Json) -> None:
    capacity.setdefault("storageClassName", "")
    for name in ("capacity", "maximumVolumeSize"):
        if name in capacity:
            capacity[name] = quantities.canonical(capacity[name])


def _check_storage_capacity(capacity: Checked) -> None:
    check_selector(capacity.at("nodeTopology"))
    capacity.valid("storageClassName", subdomain_problem)
    size = capacity.get("capacity", "0")
    if quantities.value(size) < 0:
        capacity.wrong("capacity", size, NOT_NEGATIVE)


CAPACITIES = Resource(
    group=_GROUP,
    plural="csistoragecapacities",
    kind="CSIStorageCapacity",
    columns=columns("Created At:date"),  # real servers have none of this kind's own
    cells=lambda capacity, _now: [capacity["metadata"].get("creationTimestamp")],
    unconditional_update=False,
    default=_default_capacity,
    check=_check_storage_capacity,
    check_update=lambda one, old: one.unchanged(old, "nodeTopology", "storageClassName"),
)


def _default_attachment(attachment: Json) -> None:
    attachment.setdefault("spec", {}).setdefault("source", {})
    attachment.setdefault("status", {}).setdefault("attached", False)


def _check_attachment(attachment: Checked) -> None:
    spec = attachment.at("spec")
    spec.named("attacher", subdomain_problem, lower=True)
    if len(spec.value["source"]) != 1:
        spec.lacks("source", _ONE_SOURCE)
    spec.valid("nodeName", subdomain_problem)


def _attachment_cells(attachment: Json, now: float) -> list[object]:
    spec = attachment["spec"]
    return [
        spec.get("attacher", ""),
        (spec.get("source") or {}).get("persistentVolumeName", ""),
        spec.get("nodeName", ""),
        (attachment.get("status") or {}).get("attached", False),
        age_of(attachment, now),
    ]


ATTACHMENTS = Resource(
    group=_GROUP,
    plural="volumeattachments",
    kind="VolumeAttachment",
    namespaced=False,
    subresources=(STATUS,),
    columns=(
        PrinterColumn("Attacher", format="name"),
        *columns("PV, Node, Attached:boolean, Age"),
    ),
    cells=_attachment_cells,
    returns_deleted=True,
    unconditional_update=False,
    prepare=without_status,
    default=_default_attachment,
    check=_check_attachment,
    check_update=lambda one, old: one.unchanged(old, "spec"),
)
