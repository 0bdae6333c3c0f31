"""PersistentVolumes: defaults, and what may be asked of them (v1)."""

import math

from kubeshare_py.embedded_cluster.kinds.storage_cells import VOLUME_COLUMNS, volume_cells
from kubeshare_py.embedded_cluster.kinds.volume_claims import (
    access_mode_causes,
    canonical_amounts,
    class_name_causes,
    size_causes,
    volume_mode_causes,
)
from kubeshare_py.embedded_cluster.protocol import quantities
from kubeshare_py.embedded_cluster.protocol.merge_keys import META_KEYS
from kubeshare_py.embedded_cluster.protocol.node_selectors import node_selector_causes
from kubeshare_py.embedded_cluster.protocol.resources import Admission, Resource, status_subresource
from kubeshare_py.embedded_cluster.protocol.status import (
    Json,
    StatusCause,
    not_allowed,
    required,
    unsupported,
    wrong,
)
from kubeshare_py.embedded_cluster.protocol.storage_fields import VOLUME_SOURCES
from kubeshare_py.embedded_cluster.protocol.times import timestamp

#: Keeps a volume that is being deleted until no claim is bound to it.
VOLUME_FINALIZER = "kubernetes.io/pv-protection"
_FIXED = {"volumeMode": "", "nodeAffinity": ", except for updating from beta label to GA"}
_POLICIES = ("Delete", "Recycle", "Retain")
_NEEDED = {"local": ("path",), "hostPath": ("path",), "csi": ("driver", "volumeHandle")}


def _prepare(volume: Json, admission: Admission) -> None:
    volume["status"] = {"phase": "Pending", "lastPhaseTransitionTime": timestamp(admission.now)}
    metadata = volume["metadata"]
    held = metadata.get("finalizers") or []
    if VOLUME_FINALIZER not in held:
        metadata["finalizers"] = [*held, VOLUME_FINALIZER]


def _default(volume: Json) -> None:
    spec = volume.setdefault("spec", {})
    canonical_amounts(spec, "capacity")
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    if "hostPath" in spec:
        spec["hostPath"].setdefault("type", "")
    volume.setdefault("status", {}).setdefault("phase", "Pending")


def _causes(volume: Json) -> list[StatusCause]:
    spec = volume["spec"]
    modes = spec.get("accessModes") or []
    causes = [] if modes else [required("spec.accessModes")]
    causes += access_mode_causes(modes, "spec")
    causes += _capacity_causes(spec.get("capacity") or {})
    policy = spec["persistentVolumeReclaimPolicy"]
    if policy not in _POLICIES:
        causes.append(unsupported("spec.persistentVolumeReclaimPolicy", policy, _POLICIES))
    if "nodeAffinity" in spec:
        causes += _affinity_causes(spec["nodeAffinity"])
    causes += _source_causes(spec)
    causes += class_name_causes(spec.get("storageClassName"), "spec.storageClassName")
    return causes + volume_mode_causes(spec, "spec")


def _capacity_causes(capacity: Json) -> list[StatusCause]:
    causes = [] if capacity else [required("spec.capacity")]
    if set(capacity) != {"storage"}:
        causes.append(unsupported("spec.capacity", capacity, ("storage",)))
    for name, size in capacity.items():
        if (amount := quantities.value(size)) < 0:
            text = "must be a valid resource quantity"
            causes.append(wrong(f"spec.capacity[{name}]", math.ceil(amount), text))
        causes += size_causes(size, f"spec.capacity[{name}]")
    return causes


def _affinity_causes(affinity: Json) -> list[StatusCause]:
    path = "spec.nodeAffinity.required"
    if "required" not in affinity:
        return [required(path, "must specify required node constraints")]
    return node_selector_causes(affinity["required"], path)


def _source_causes(spec: Json) -> list[StatusCause]:
    found = [name for name in VOLUME_SOURCES if name in spec]
    causes: list[StatusCause] = []
    if not found:
        causes.append(required("spec", "must specify a volume type"))
    for name in found[1:]:
        causes.append(not_allowed(f"spec.{name}", "may not specify more than 1 volume type"))
    for name in found[:1]:
        missing = [field for field in _NEEDED.get(name, ()) if not spec[name].get(field)]
        causes += [required(f"spec.{name}.{field}") for field in missing]
    if found[:1] == ["local"] and "nodeAffinity" not in spec:
        causes.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    return causes


def _update_causes(new: Json, old: Json) -> list[StatusCause]:
    """The source and the mode stay, and the node affinity once it is set."""
    spec, held = new["spec"], old["spec"]
    causes: list[StatusCause] = []
    if any(spec.get(name) != held.get(name) for name in VOLUME_SOURCES):
        text = "spec.persistentvolumesource is immutable after creation"
        causes.append(not_allowed("spec.persistentvolumesource", text))
    for name, exception in _FIXED.items():
        if name in held and spec.get(name) != held[name]:
            causes.append(wrong(name, spec.get(name), f"field is immutable{exception}"))
    return causes


VOLUMES = Resource(
    plural="persistentvolumes",
    kind="PersistentVolume",
    fields="PersistentVolume",
    namespaced=False,
    short_names=("pv",),
    subresources=(status_subresource(),),
    columns=VOLUME_COLUMNS,
    cells=volume_cells,
    merge_keys=META_KEYS,
    has_status=True,
    returns_deleted=True,
    prepare=_prepare,
    default=_default,
    causes=_causes,
    update_causes=_update_causes,
)
