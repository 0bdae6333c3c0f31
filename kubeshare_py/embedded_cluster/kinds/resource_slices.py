"""ResourceSlices: devices that drivers publish (resource.k8s.io/v1)."""

from typing import Any

from kubeshare_py.embedded_cluster.kinds.device_claims import GROUP
from kubeshare_py.embedded_cluster.protocol import quantities
from kubeshare_py.embedded_cluster.protocol.merge_keys import META_KEYS
from kubeshare_py.embedded_cluster.protocol.names import label_problem, subdomain_problem
from kubeshare_py.embedded_cluster.protocol.node_selectors import node_selector_causes
from kubeshare_py.embedded_cluster.protocol.resources import PrinterColumn, Resource
from kubeshare_py.embedded_cluster.protocol.status import (
    Json,
    StatusCause,
    duplicate,
    required,
    wrong,
)
from kubeshare_py.views.ages import age

_SELECTIONS = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_ONE_SELECTION = (
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
)
_FIXED = ("driver", "nodeName")


def _default(one: Json) -> None:
    spec = one.setdefault("spec", {})
    spec.setdefault("driver", "")
    pool = spec.setdefault("pool", {})
    for name, empty in (("name", ""), ("generation", 0), ("resourceSliceCount", 0)):
        pool.setdefault(name, empty)
    for device in spec.get("devices") or []:
        for capacity in (device.get("capacity") or {}).values():
            capacity["value"] = quantities.canonical(capacity.get("value", "0"))
    for counted in [*(spec.get("sharedCounters") or []), *_consumptions(spec)]:
        for counter in (counted.get("counters") or {}).values():
            counter["value"] = quantities.canonical(counter.get("value", "0"))


def _consumptions(spec: Json) -> list[Json]:
    devices = spec.get("devices") or []
    return [one for device in devices for one in device.get("consumesCounters") or []]


def _causes(one: Json) -> list[StatusCause]:
    spec = one["spec"]
    pool = spec["pool"]
    causes: list[StatusCause] = []
    if not spec["driver"]:
        causes.append(required("spec.driver"))
    elif problem := subdomain_problem(spec["driver"].lower()):
        causes.append(wrong("spec.driver", spec["driver"].lower(), problem))
    if not pool["name"]:
        causes.append(required("spec.pool.name"))
    if pool["resourceSliceCount"] <= 0:
        text = "must be greater than zero"
        causes.append(wrong("spec.pool.resourceSliceCount", pool["resourceSliceCount"], text))
    if pool["generation"] < 0:
        text = "must be greater than or equal to zero"
        causes.append(wrong("spec.pool.generation", pool["generation"], text))
    return causes + _selection_causes(spec) + _device_causes(spec.get("devices") or [])


def _selection_causes(spec: Json) -> list[StatusCause]:
    causes: list[StatusCause] = []
    found = [name for name in _SELECTIONS if spec.get(name)]
    for name in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(name) is False:
            causes.append(wrong(f"spec.{name}", False, "must be either unset or set to true"))
    if spec.get("nodeName") == "":
        text = "must be either unset or set to a non-empty string"
        causes.append(wrong("spec.nodeName", "", text))
    if "nodeSelector" in spec:
        causes += node_selector_causes(spec["nodeSelector"], "spec.nodeSelector")
    if not found:
        causes.append(required("spec", _ONE_SELECTION))
    elif len(found) > 1:
        shown = "{" + ", ".join(f"`{name}`" for name in found) + "}"
        causes.append(wrong("spec", shown, f"{_ONE_SELECTION}, but multiple fields are set"))
    return causes


def _device_causes(devices: list[Any]) -> list[StatusCause]:
    causes: list[StatusCause] = []
    seen: set[str] = set()
    for index, device in enumerate(devices):
        path, name = f"spec.devices[{index}]", device.get("name", "")
        if problem := label_problem(name):
            causes.append(wrong(f"{path}.name", name, problem))
        if name in seen:
            causes.append(duplicate(path, name))
        seen.add(name)
        for key, value in (device.get("attributes") or {}).items():
            if len(value) != 1:
                text = "exactly one value must be specified"
                causes.append(wrong(f"{path}.attributes[{key}]", "", text))
    return causes


def _update_causes(new: Json, old: Json) -> list[StatusCause]:
    spec, held, text = new["spec"], old["spec"], "field is immutable"
    causes = [
        wrong(f"spec.{name}", spec.get(name), text)
        for name in _FIXED
        if spec.get(name) != held.get(name)
    ]
    if spec["pool"]["name"] != held["pool"]["name"]:
        causes.append(wrong("spec.pool.name", spec["pool"]["name"], text))
    return causes


def _cells(one: Json, now: float) -> list[object]:
    spec = one["spec"]
    return [
        spec.get("nodeName", ""),
        spec["driver"],
        spec["pool"]["name"],
        age(one["metadata"].get("creationTimestamp"), now),
    ]


RESOURCE_SLICES = Resource(
    group=GROUP,
    plural="resourceslices",
    kind="ResourceSlice",
    fields="ResourceSlice",
    namespaced=False,
    columns=(
        PrinterColumn("Node"),
        PrinterColumn("Driver"),
        PrinterColumn("Pool"),
        PrinterColumn("Age"),
    ),
    cells=_cells,
    merge_keys=META_KEYS,
    selectable={"spec.nodeName": ("spec", "nodeName"), "spec.driver": ("spec", "driver")},
    has_generation=True,
    returns_deleted=True,
    default=_default,
    causes=_causes,
    update_causes=_update_causes,
)
