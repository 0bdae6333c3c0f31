"""The kinds of storage.k8s.io/v1: StorageClasses, those of CSI drivers, VolumeAttachments."""

from collections.abc import Callable

from kubeshare_py.embedded_cluster.kinds.storage_cells import (
    ATTACHMENT_COLUMNS,
    CAPACITY_COLUMNS,
    CSI_DRIVER_COLUMNS,
    CSI_NODE_COLUMNS,
    STORAGE_CLASS_COLUMNS,
    attachment_cells,
    capacity_cells,
    csi_driver_cells,
    csi_node_cells,
    storage_class_cells,
)
from kubeshare_py.embedded_cluster.protocol import quantities
from kubeshare_py.embedded_cluster.protocol.label_selectors import selector_causes
from kubeshare_py.embedded_cluster.protocol.merge_keys import META_KEYS
from kubeshare_py.embedded_cluster.protocol.names import qualified_problem, subdomain_problem
from kubeshare_py.embedded_cluster.protocol.resources import (
    Resource,
    status_subresource,
    without_status,
)
from kubeshare_py.embedded_cluster.protocol.status import (
    Json,
    StatusCause,
    duplicate,
    required,
    unsupported,
    wrong,
)

_GROUP = "storage.k8s.io"
_IMMUTABLE = "field is immutable"
_NOT_NEGATIVE = "must be greater than or equal to 0"
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


def _default_class(one: Json) -> None:
    one.setdefault("provisioner", "")
    one.setdefault("reclaimPolicy", "Delete")
    one.setdefault("volumeBindingMode", "Immediate")


def _class_causes(one: Json) -> list[StatusCause]:
    provisioner, causes = one["provisioner"], []
    if not provisioner:
        causes.append(required("provisioner"))
    elif problem := qualified_problem(provisioner.lower()):
        causes.append(wrong("provisioner", provisioner.lower(), problem))
    for name, known in (("reclaimPolicy", _RECLAIM), ("volumeBindingMode", _BINDING)):
        if one[name] not in known:
            causes.append(unsupported(name, one[name], known))
    for index, term in enumerate(one.get("allowedTopologies") or []):
        for at, line in enumerate(term.get("matchLabelExpressions") or []):
            path = f"allowedTopologies[{index}].matchLabelExpressions[{at}]"
            if not line.get("values"):
                causes.append(required(f"{path}.values"))
    return causes


def _unchanged(*names: str) -> Callable[[Json, Json], list[StatusCause]]:
    """A check on update: these fields stay as they were."""

    def causes(new: Json, old: Json) -> list[StatusCause]:
        changed = [name for name in names if new.get(name) != old.get(name)]
        return [wrong(name, new.get(name), _IMMUTABLE) for name in changed]

    return causes


def _default_csi_node(node: Json) -> None:
    spec = node.setdefault("spec", {})
    spec.setdefault("drivers", None)
    for driver in spec["drivers"] or []:
        driver.setdefault("topologyKeys", None)


def _csi_node_causes(node: Json) -> list[StatusCause]:
    causes: list[StatusCause] = []
    seen: set[str] = set()
    for index, driver in enumerate(node["spec"]["drivers"] or []):
        path, name = f"spec.drivers[{index}]", driver.get("name", "")
        causes += _driver_name_causes(name, f"{path}.name")
        if not driver.get("nodeID"):
            causes.append(required(f"{path}.nodeID"))
        count = (driver.get("allocatable") or {}).get("count", 0)
        if count < 0:
            causes.append(wrong(f"{path}.allocatable.count", count, _NOT_NEGATIVE))
        if name in seen:
            causes.append(duplicate(f"{path}.name", name))
        seen.add(name)
    return causes


def _driver_name_causes(name: str, path: str) -> list[StatusCause]:
    if not name:
        return [required(path)]
    problem = subdomain_problem(name.lower())
    return [wrong(path, name.lower(), problem)] if problem else []


def _csi_node_update_causes(new: Json, old: Json) -> list[StatusCause]:
    """A driver keeps its id and keys; its count may change."""
    fixed = ("nodeID", "topologyKeys")
    held = {driver["name"]: driver for driver in old["spec"]["drivers"] or []}
    return [
        wrong("spec.drivers", driver, _IMMUTABLE)
        for driver in new["spec"]["drivers"] or []
        if driver["name"] in held
        and any(driver.get(name) != held[driver["name"]].get(name) for name in fixed)
    ]


def _default_csi_driver(driver: Json) -> None:
    spec = driver.setdefault("spec", {})
    for name, value in _DRIVER_DEFAULTS.items():
        spec.setdefault(name, value)
    spec.setdefault("volumeLifecycleModes", ["Persistent"])


def _csi_driver_causes(driver: Json) -> list[StatusCause]:
    spec, causes = driver["spec"], []
    if spec["fsGroupPolicy"] not in _GROUP_POLICIES:
        causes.append(unsupported("spec.fsGroupPolicy", spec["fsGroupPolicy"], _GROUP_POLICIES))
    for mode in spec["volumeLifecycleModes"]:
        if mode not in _LIFECYCLES:
            causes.append(unsupported("spec.volumeLifecycleModes", mode, _LIFECYCLES))
    period = spec.get("nodeAllocatableUpdatePeriodSeconds", _SHORTEST_PERIOD_S)
    if period < _SHORTEST_PERIOD_S:
        text = "must be greater than or equal to 10 seconds"
        causes.append(wrong("spec.nodeAllocatableUpdatePeriodSeconds", period, text))
    return causes


def _csi_driver_update_causes(new: Json, old: Json) -> list[StatusCause]:
    spec, held = new["spec"], old["spec"]
    fixed = {"attachRequired": "attachedRequired", "volumeLifecycleModes": "volumeLifecycleModes"}
    return [
        wrong(f"spec.{shown}", spec[name], _IMMUTABLE)
        for name, shown in fixed.items()
        if spec[name] != held[name]
    ]


def _default_capacity(capacity: Json) -> None:
    capacity.setdefault("storageClassName", "")
    for name in ("capacity", "maximumVolumeSize"):
        if name in capacity:
            capacity[name] = quantities.canonical(capacity[name])


def _capacity_causes(capacity: Json) -> list[StatusCause]:
    causes = selector_causes(capacity.get("nodeTopology") or {}, "nodeTopology")
    name = capacity["storageClassName"]
    if problem := subdomain_problem(name):
        causes.append(wrong("storageClassName", name, problem))
    size = capacity.get("capacity", "0")
    if quantities.value(size) < 0:
        causes.append(wrong("capacity", size, _NOT_NEGATIVE))
    return causes


def _default_attachment(attachment: Json) -> None:
    attachment.setdefault("spec", {}).setdefault("source", {})
    attachment.setdefault("status", {}).setdefault("attached", False)


def _attachment_causes(attachment: Json) -> list[StatusCause]:
    spec = attachment["spec"]
    causes = _driver_name_causes(spec.get("attacher", ""), "spec.attacher")
    if len(spec["source"]) != 1:
        causes.append(required("spec.source", _ONE_SOURCE))
    if problem := subdomain_problem(spec.get("nodeName", "")):
        causes.append(wrong("spec.nodeName", spec.get("nodeName", ""), problem))
    return causes


STORAGE_CLASSES = Resource(
    group=_GROUP,
    plural="storageclasses",
    kind="StorageClass",
    fields="StorageClass",
    namespaced=False,
    short_names=("sc",),
    columns=STORAGE_CLASS_COLUMNS,
    cells=storage_class_cells,
    merge_keys=META_KEYS,
    returns_deleted=True,
    default=_default_class,
    causes=_class_causes,
    update_causes=_unchanged(*_CLASS_FIXED),
)
CSI_NODES = Resource(
    group=_GROUP,
    plural="csinodes",
    kind="CSINode",
    fields="CSINode",
    namespaced=False,
    columns=CSI_NODE_COLUMNS,
    cells=csi_node_cells,
    merge_keys={**META_KEYS, "drivers": "name"},
    returns_deleted=True,
    unconditional_update=False,
    default=_default_csi_node,
    causes=_csi_node_causes,
    update_causes=_csi_node_update_causes,
)
CSI_DRIVERS = Resource(
    group=_GROUP,
    plural="csidrivers",
    kind="CSIDriver",
    fields="CSIDriver",
    namespaced=False,
    columns=CSI_DRIVER_COLUMNS,
    cells=csi_driver_cells,
    merge_keys=META_KEYS,
    returns_deleted=True,
    unconditional_update=False,
    default=_default_csi_driver,
    causes=_csi_driver_causes,
    update_causes=_csi_driver_update_causes,
)
CAPACITIES = Resource(
    group=_GROUP,
    plural="csistoragecapacities",
    kind="CSIStorageCapacity",
    fields="CSIStorageCapacity",
    columns=CAPACITY_COLUMNS,
    cells=capacity_cells,
    merge_keys=META_KEYS,
    unconditional_update=False,
    default=_default_capacity,
    causes=_capacity_causes,
    update_causes=_unchanged("nodeTopology", "storageClassName"),
)
ATTACHMENTS = Resource(
    group=_GROUP,
    plural="volumeattachments",
    kind="VolumeAttachment",
    fields="VolumeAttachment",
    namespaced=False,
    subresources=(status_subresource(),),
    columns=ATTACHMENT_COLUMNS,
    cells=attachment_cells,
    merge_keys=META_KEYS,
    has_status=True,
    returns_deleted=True,
    unconditional_update=False,
    prepare=without_status,
    default=_default_attachment,
    causes=_attachment_causes,
    update_causes=_unchanged("spec"),
)
