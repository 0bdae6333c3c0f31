"""ResourceClaims, their templates, DeviceClasses and ResourceSlices (resource.k8s.io/v1).

Not checked here: that CEL expressions compile.
"""

from kubeshare_py.embedded_cluster.protocol import quantities
from kubeshare_py.embedded_cluster.protocol.checks import POSITIVE, Checked
from kubeshare_py.embedded_cluster.protocol.merge import META_KEYS
from kubeshare_py.embedded_cluster.protocol.names import (
    label_problem,
    qualified_problem,
    subdomain_problem,
)
from kubeshare_py.embedded_cluster.protocol.resources import (
    STATUS,
    Admission,
    Resource,
    age_of,
    columns,
)
from kubeshare_py.embedded_cluster.protocol.selectors import check_node_selector
from kubeshare_py.embedded_cluster.protocol.status import Json

# ResourceClaims, their templates and DeviceClasses.


GROUP = "resource.k8s.io"
EXACT, ALL = "ExactCount", "All"
_ONE_KIND = "exactly one of `exactly` or `firstAvailable` is required"
_ONE_ATTRIBUTE = (
    'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are '
    "set"
)
_NO_REQUEST = (
    "must be the name of a request in the claim or the name of a request and a subrequest "
    "separated by '/'"
)
_GOING = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"


def _default_claim_spec(spec: Json) -> None:
    """The defaults of a claim, and of the template of one."""
    devices = spec.setdefault("devices", {})
    devices.setdefault("requests", None)
    for request in devices["requests"] or []:
        for one in [request.get("exactly"), *(request.get("firstAvailable") or [])]:
            if one is None:
                continue
            if one.setdefault("allocationMode", EXACT) == EXACT:
                one.setdefault("count", 1)


def _check_claim_spec(spec: Checked) -> None:
    """The spec of a claim, or of the template of one."""
    devices = spec.at("devices")
    seen: set[str] = set()
    for request in devices.each("requests"):
        _check_request(request)
        request.repeats("name", seen, at="")
    known = _request_names(devices.value)
    for one in devices.each("constraints"):
        if not {"matchAttribute", "distinctAttribute"} & {*one.value}:
            one.lacks("", _ONE_ATTRIBUTE)
        _check_references(one, known)
    for one in devices.each("config"):
        if "opaque" not in one.value:
            one.lacks("opaque")
        _check_references(one, known)


def _request_names(devices: Json) -> set[str]:
    names: set[str] = set()
    for request in devices.get("requests") or []:
        name = request.get("name", "")
        names.add(name)
        names |= {f"{name}/{one.get('name', '')}" for one in request.get("firstAvailable") or []}
    return names


def _check_request(request: Checked) -> None:
    request.valid("name", label_problem)
    exactly, choices = request.get("exactly", None), request.get("firstAvailable", [])
    if exactly is None and not choices:
        request.lacks("", _ONE_KIND)
    elif exactly is not None and choices:
        request.wrong("", None, f"{_ONE_KIND}, but multiple fields are set")
    elif exactly is not None:
        _check_asked_devices(request.at("exactly"))
    for choice in request.each("firstAvailable") if exactly is None else []:
        choice.valid("name", label_problem)
        _check_asked_devices(choice)


def _check_asked_devices(request: Checked) -> None:
    mode, count = request.get("allocationMode"), request.get("count", 0)
    request.named("deviceClassName", subdomain_problem)
    _check_selectors(request)
    if mode == ALL and count:
        request.wrong("count", count, f"must not be specified when allocationMode is '{ALL}'")
    elif mode == EXACT and count <= 0:
        request.wrong("count", count, POSITIVE)
    else:
        request.one_of("allocationMode", (ALL, EXACT))


def _check_selectors(part: Checked) -> None:
    for selector in part.each("selectors"):
        if "cel" not in selector.value:
            selector.lacks("cel")


def _check_references(part: Checked, known: set[str]) -> None:
    for index, name in enumerate(part.get("requests", [])):
        if name not in known:
            part.wrong(f"requests[{index}]", name, _NO_REQUEST)


def _prepare_claim(claim: Json, _admission: Admission) -> None:
    claim["status"] = {}


def _default_claim(claim: Json) -> None:
    _default_claim_spec(claim.setdefault("spec", {}))
    claim.setdefault("status", {})


def _check_claim_status(claim: Checked, old: Json) -> None:
    status, before = claim.at("status"), old["status"]
    allocation, consumers = status.get("allocation", None), status.get("reservedFor", [])
    _check_consumers(status)
    held = before.get("reservedFor") or []
    if consumers and allocation is None:
        status.forbid("reservedFor", "may not be specified when `allocated` is not set")
    elif "deletionTimestamp" in claim.value["metadata"] and any(
        one not in held for one in consumers
    ):
        status.forbid("reservedFor", _GOING)
    if allocation is not None and "allocation" in before:
        status.unchanged(before, "allocation")
    elif allocation is not None:
        _check_allocation(status.at("allocation"), _request_names(claim.value["spec"]["devices"]))


def _check_consumers(status: Checked) -> None:
    seen: set[str] = set()
    for consumer in status.each("reservedFor"):
        consumer.require("resource", "name", "uid")
        consumer.repeats("uid", seen, at="")


def _check_allocation(allocation: Checked, known: set[str]) -> None:
    for result in allocation.at("devices").each("results"):
        if result.get("request") not in known:
            result.wrong("request", result.get("request"), _NO_REQUEST)
        result.require("driver", "pool")
        result.valid("device", label_problem)
    if "nodeSelector" in allocation.value:
        check_node_selector(allocation.at("nodeSelector"))


def _default_template(template: Json) -> None:
    spec = template.setdefault("spec", {})
    spec.setdefault("metadata", {})
    _default_claim_spec(spec.setdefault("spec", {}))


def _default_class(one: Json) -> None:
    one.setdefault("spec", {})


def _check_class(one: Checked) -> None:
    spec = one.at("spec")
    _check_selectors(spec)
    resource = spec.get("extendedResourceName", None)
    if resource is not None and ("/" not in resource or qualified_problem(resource)):
        spec.wrong("extendedResourceName", resource, "must be a valid extended resource name")


def _claim_cells(claim: Json, now: float) -> list[object]:
    status, going = claim.get("status") or {}, "deletionTimestamp" in claim["metadata"]
    states = ["deleted"] if going else []
    if "allocation" in status:
        states.append("allocated")
        states += ["reserved"] if status.get("reservedFor") else []
    elif not going:
        states.append("pending")
    return [",".join(states), age_of(claim, now)]


RESOURCE_CLAIMS = Resource(
    group=GROUP,
    plural="resourceclaims",
    kind="ResourceClaim",
    subresources=(STATUS,),
    columns=columns("State, Age"),
    cells=_claim_cells,
    merge_keys={**META_KEYS, "reservedFor": "uid"},
    returns_deleted=True,
    prepare=_prepare_claim,
    default=_default_claim,
    check=lambda claim: _check_claim_spec(claim.at("spec")),
    check_update=lambda claim, old: claim.unchanged(old, "spec"),
    check_status=_check_claim_status,
)
CLAIM_TEMPLATES = Resource(
    group=GROUP,
    plural="resourceclaimtemplates",
    kind="ResourceClaimTemplate",
    returns_deleted=True,
    default=_default_template,
    check=lambda template: _check_claim_spec(template.at("spec.spec")),
    check_update=lambda template, old: template.unchanged(old, "spec"),
)
DEVICE_CLASSES = Resource(
    group=GROUP,
    plural="deviceclasses",
    kind="DeviceClass",
    namespaced=False,
    has_generation=True,
    returns_deleted=True,
    default=_default_class,
    check=_check_class,
)


# ResourceSlices: devices that drivers publish.


_SELECTIONS = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_ONE_SELECTION = (
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
)


def _default_slice(one: Json) -> None:
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


def _check_slice(one: Checked) -> None:
    spec = one.at("spec")
    spec.named("driver", subdomain_problem, lower=True)
    pool = spec.at("pool")
    pool.require("name")
    pool.at_least(1, "resourceSliceCount", text=POSITIVE)
    pool.at_least(0, "generation", text="must be greater than or equal to zero")
    _check_slice_selection(spec)
    _check_slice_devices(spec)


def _check_slice_selection(spec: Checked) -> None:
    found = [name for name in _SELECTIONS if spec.get(name)]
    for name in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(name) is False:
            spec.wrong(name, False, "must be either unset or set to true")
    if spec.get("nodeName", None) == "":
        spec.wrong("nodeName", "", "must be either unset or set to a non-empty string")
    if "nodeSelector" in spec.value:
        check_node_selector(spec.at("nodeSelector"))
    if not found:
        spec.lacks("", _ONE_SELECTION)
    elif len(found) > 1:
        shown = "{" + ", ".join(f"`{name}`" for name in found) + "}"
        spec.wrong("", shown, f"{_ONE_SELECTION}, but multiple fields are set")


def _check_slice_devices(spec: Checked) -> None:
    seen: set[str] = set()
    for device in spec.each("devices"):
        device.valid("name", label_problem)
        device.repeats("name", seen, at="")
        for key, value in device.get("attributes", {}).items():
            if len(value) != 1:
                device.wrong(f"attributes[{key}]", "", "exactly one value must be specified")


def _check_slice_update(one: Checked, old: Json) -> None:
    spec = one.at("spec")
    spec.unchanged(old["spec"], "driver", "nodeName")
    spec.at("pool").unchanged(old["spec"]["pool"], "name")


def _slice_cells(one: Json, now: float) -> list[object]:
    spec = one["spec"]
    return [
        spec.get("nodeName", ""),
        spec["driver"],
        spec["pool"]["name"],
        age_of(one, now),
    ]


RESOURCE_SLICES = Resource(
    group=GROUP,
    plural="resourceslices",
    kind="ResourceSlice",
    namespaced=False,
    columns=columns("Node, Driver, Pool, Age"),
    cells=_slice_cells,
    selectable={"spec.nodeName": ("spec", "nodeName"), "spec.driver": ("spec", "driver")},
    has_generation=True,
    returns_deleted=True,
    default=_default_slice,
    check=_check_slice,
    check_update=_check_slice_update,
)
