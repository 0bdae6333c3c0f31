"""PersistentVolumeClaims: defaults, and what may be asked of them (v1).

Not checked here: that a claim only grows if its StorageClass allows it.
"""

from kubeshare_py.embedded_cluster.kinds.storage_cells import (
    CLAIM_COLUMNS,
    IS_DEFAULT,
    claim_cells,
)
from kubeshare_py.embedded_cluster.protocol import quantities
from kubeshare_py.embedded_cluster.protocol.label_selectors import selector_causes
from kubeshare_py.embedded_cluster.protocol.merge_keys import META_KEYS
from kubeshare_py.embedded_cluster.protocol.names import subdomain_problem
from kubeshare_py.embedded_cluster.protocol.resources import Admission, Resource, status_subresource
from kubeshare_py.embedded_cluster.protocol.status import (
    Json,
    StatusCause,
    not_allowed,
    required,
    unsupported,
    wrong,
)
from kubeshare_py.embedded_cluster.protocol.store import ApiStore
from kubeshare_py.embedded_cluster.protocol.times import default_times

#: Keeps a claim that is being deleted until no pod uses it.
CLAIM_FINALIZER = "kubernetes.io/pvc-protection"
STORAGE_CLASS_BUCKET = "storageclasses.storage.k8s.io"
_ALONE = "ReadWriteOncePod"
_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", _ALONE)
_VOLUME_MODES = ("Block", "Filesystem")
_FIXED = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for "
    "bound claims"
)


def canonical_amounts(part: Json, *names: str) -> None:
    """Make the quantities of these fields canonical, in place; raises BadQuantity."""
    for name in names:
        if part.get(name):
            part[name] = {key: quantities.canonical(text) for key, text in part[name].items()}


def default_claim_spec(spec: Json) -> None:
    """The defaults of a claim, and of the template of one; raises BadQuantity."""
    canonical_amounts(spec.setdefault("resources", {}), "limits", "requests")
    spec.setdefault("volumeMode", "Filesystem")


def access_mode_causes(modes: list[str], path: str) -> list[StatusCause]:
    """Known modes only, and ReadWriteOncePod alone."""
    where = f"{path}.accessModes"
    causes = [unsupported(where, mode, _MODES) for mode in modes if mode not in _MODES]
    if _ALONE in modes and any(mode in _MODES and mode != _ALONE for mode in modes):
        text = "may not use ReadWriteOncePod with other access modes"
        causes.append(not_allowed(where, text))
    return causes


def volume_mode_causes(spec: Json, path: str) -> list[StatusCause]:
    """Block or Filesystem."""
    mode = spec["volumeMode"]
    known = mode in _VOLUME_MODES
    return [] if known else [unsupported(f"{path}.volumeMode", mode, _VOLUME_MODES)]


def class_name_causes(name: str | None, path: str) -> list[StatusCause]:
    """The name of a class is a subdomain, or empty."""
    problem = subdomain_problem(name) if name else ""
    return [wrong(path, name, problem)] if problem else []


def size_causes(size: str, path: str) -> list[StatusCause]:
    """An amount of storage is above zero."""
    if quantities.value(size) > 0:
        return []
    return [wrong(path, size, "must be greater than zero")]


def claim_spec_causes(spec: Json, path: str) -> list[StatusCause]:
    """Everything wrong with the spec of a claim, or of the template of one."""
    modes = spec.get("accessModes") or []
    causes: list[StatusCause] = []
    if not modes:
        causes.append(required(f"{path}.accessModes", "at least 1 access mode is required"))
    causes += selector_causes(spec.get("selector") or {}, f"{path}.selector")
    causes += access_mode_causes(modes, path)
    size = (spec["resources"].get("requests") or {}).get("storage")
    where = f"{path}.resources[storage]"
    causes += [required(where)] if size is None else size_causes(size, where)
    causes += class_name_causes(spec.get("storageClassName"), f"{path}.storageClassName")
    return causes + volume_mode_causes(spec, path)


def _prepare(claim: Json, admission: Admission) -> None:
    claim["status"] = {}
    metadata = claim["metadata"]
    held = metadata.get("finalizers") or []
    if CLAIM_FINALIZER not in held:
        metadata["finalizers"] = [*held, CLAIM_FINALIZER]
    spec = claim.setdefault("spec", {})
    name = _default_class(admission.store)
    if "storageClassName" not in spec and name:
        spec["storageClassName"] = name


def _default_class(store: ApiStore) -> str:
    """The name of the newest class that is marked as default; "" if there is none."""
    marked = [
        entry.object["metadata"]
        for entry in store.entries(STORAGE_CLASS_BUCKET)
        if (entry.object["metadata"].get("annotations") or {}).get(IS_DEFAULT) == "true"
    ]
    newest = sorted(marked, key=lambda one: one["name"])
    newest.sort(key=lambda one: str(one["creationTimestamp"]), reverse=True)
    return str(newest[0]["name"]) if newest else ""


def _default(claim: Json) -> None:
    default_claim_spec(claim.setdefault("spec", {}))
    status = claim.setdefault("status", {})
    status.setdefault("phase", "Pending")
    canonical_amounts(status, "capacity", "allocatedResources")
    default_times(status, "lastProbeTime")


def _causes(claim: Json) -> list[StatusCause]:
    return claim_spec_causes(claim["spec"], "spec")


def _update_causes(new: Json, old: Json) -> list[StatusCause]:
    """The volume is named once; a bound claim may grow."""
    spec, held = new["spec"], dict(old["spec"])
    kept = dict(spec)
    if not held.get("volumeName"):
        held["volumeName"] = spec.get("volumeName")
        kept.setdefault("volumeName", None)
    if "storageClassName" not in held and "storageClassName" in spec:
        held["storageClassName"] = spec["storageClassName"]
    if new["status"].get("phase") == "Bound":
        kept["resources"] = held["resources"]
        for name in ("volumeAttributesClassName",):
            kept.pop(name, None)
            held.pop(name, None)
    causes = [] if kept == held else [not_allowed("spec", _FIXED)]
    sizes = [
        quantities.value((one["resources"].get("requests") or {}).get("storage", "0"))
        for one in (spec, old["spec"])
    ]
    done = (new["status"].get("capacity") or {}).get("storage", "0")
    if sizes[0] < sizes[1] and sizes[0] <= quantities.value(done):
        where = "spec.resources.requests.storage"
        causes.append(not_allowed(where, "field can not be less than status.capacity"))
    return causes


CLAIMS = Resource(
    plural="persistentvolumeclaims",
    kind="PersistentVolumeClaim",
    fields="PersistentVolumeClaim",
    short_names=("pvc",),
    subresources=(status_subresource(),),
    columns=CLAIM_COLUMNS,
    cells=claim_cells,
    merge_keys={**META_KEYS, "conditions": "type"},
    has_status=True,
    returns_deleted=True,
    prepare=_prepare,
    default=_default,
    causes=_causes,
    update_causes=_update_causes,
)
