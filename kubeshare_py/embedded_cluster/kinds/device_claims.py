"""ResourceClaims, their templates and DeviceClasses (resource.k8s.io/v1).

Not checked here: that CEL expressions compile.
"""

from kubeshare_py.embedded_cluster.protocol.merge_keys import META_KEYS
from kubeshare_py.embedded_cluster.protocol.names import (
    label_problem,
    qualified_problem,
    subdomain_problem,
)
from kubeshare_py.embedded_cluster.protocol.node_selectors import node_selector_causes
from kubeshare_py.embedded_cluster.protocol.resources import (
    Admission,
    PrinterColumn,
    Resource,
    status_subresource,
)
from kubeshare_py.embedded_cluster.protocol.status import (
    Json,
    StatusCause,
    duplicate,
    not_allowed,
    required,
    unsupported,
    wrong,
)
from kubeshare_py.views.ages import age

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
_IMMUTABLE = "field is immutable"
_GOING = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"


def default_claim_spec(spec: Json) -> None:
    """The defaults of a claim, and of the template of one."""
    devices = spec.setdefault("devices", {})
    devices.setdefault("requests", None)
    for request in devices["requests"] or []:
        for one in [request.get("exactly"), *(request.get("firstAvailable") or [])]:
            if one is None:
                continue
            if one.setdefault("allocationMode", EXACT) == EXACT:
                one.setdefault("count", 1)


def claim_spec_causes(spec: Json, path: str) -> list[StatusCause]:
    """Everything wrong with the spec of a claim, or of the template of one."""
    devices, where = spec["devices"], f"{path}.devices"
    requests = devices.get("requests") or []
    causes: list[StatusCause] = []
    seen: set[str] = set()
    for index, request in enumerate(requests):
        name = request.get("name", "")
        causes += _request_causes(request, f"{where}.requests[{index}]")
        if name in seen:
            causes.append(duplicate(f"{where}.requests[{index}]", name))
        seen.add(name)
    known = _request_names(devices)
    for part in ("constraints", "config"):
        for index, one in enumerate(devices.get(part) or []):
            at = f"{where}.{part}[{index}]"
            if part == "config" and "opaque" not in one:
                causes.append(required(f"{at}.opaque"))
            elif part == "constraints" and not {"matchAttribute", "distinctAttribute"} & {*one}:
                causes.append(required(at, _ONE_ATTRIBUTE))
            causes += _reference_causes(one.get("requests") or [], known, f"{at}.requests")
    return causes


def _request_names(devices: Json) -> set[str]:
    names: set[str] = set()
    for request in devices.get("requests") or []:
        name = request.get("name", "")
        names.add(name)
        names |= {f"{name}/{one.get('name', '')}" for one in request.get("firstAvailable") or []}
    return names


def _request_causes(request: Json, path: str) -> list[StatusCause]:
    causes = _name_causes(request.get("name", ""), f"{path}.name")
    exactly, choices = request.get("exactly"), request.get("firstAvailable") or []
    if exactly is None and not choices:
        causes.append(required(path, _ONE_KIND))
    elif exactly is not None and choices:
        causes.append(wrong(path, None, f"{_ONE_KIND}, but multiple fields are set"))
    elif exactly is not None:
        causes += _device_causes(exactly, f"{path}.exactly")
    else:
        for index, choice in enumerate(choices):
            at = f"{path}.firstAvailable[{index}]"
            causes += _name_causes(choice.get("name", ""), f"{at}.name")
            causes += _device_causes(choice, at)
    return causes


def _device_causes(request: Json, path: str) -> list[StatusCause]:
    name, mode = request.get("deviceClassName", ""), request["allocationMode"]
    count = request.get("count", 0)
    causes: list[StatusCause] = []
    if not name:
        causes.append(required(f"{path}.deviceClassName"))
    elif problem := subdomain_problem(name):
        causes.append(wrong(f"{path}.deviceClassName", name, problem))
    for index, selector in enumerate(request.get("selectors") or []):
        if "cel" not in selector:
            causes.append(required(f"{path}.selectors[{index}].cel"))
    if mode == ALL and count:
        text = f"must not be specified when allocationMode is '{ALL}'"
        causes.append(wrong(f"{path}.count", count, text))
    elif mode == EXACT and count <= 0:
        causes.append(wrong(f"{path}.count", count, "must be greater than zero"))
    elif mode not in (ALL, EXACT):
        causes.append(unsupported(f"{path}.allocationMode", mode, (ALL, EXACT)))
    return causes


def _name_causes(name: str, path: str) -> list[StatusCause]:
    problem = label_problem(name)
    return [wrong(path, name, problem)] if problem else []


def _reference_causes(names: list[str], known: set[str], path: str) -> list[StatusCause]:
    return [
        wrong(f"{path}[{index}]", name, _NO_REQUEST)
        for index, name in enumerate(names)
        if name not in known
    ]


def _prepare_claim(claim: Json, _admission: Admission) -> None:
    claim["status"] = {}


def _default_claim(claim: Json) -> None:
    default_claim_spec(claim.setdefault("spec", {}))
    claim.setdefault("status", {})


def _claim_update_causes(new: Json, old: Json) -> list[StatusCause]:
    return [] if new["spec"] == old["spec"] else [wrong("spec", new["spec"], _IMMUTABLE)]


def _claim_status_causes(new: Json, old: Json) -> list[StatusCause]:
    status, before = new["status"], old["status"]
    allocation, consumers = status.get("allocation"), status.get("reservedFor") or []
    causes = _consumer_causes(consumers)
    if consumers and allocation is None:
        text = "may not be specified when `allocated` is not set"
        causes.append(not_allowed("status.reservedFor", text))
    elif "deletionTimestamp" in new["metadata"] and any(
        one not in (before.get("reservedFor") or []) for one in consumers
    ):
        causes.append(not_allowed("status.reservedFor", _GOING))
    if allocation is None:
        return causes
    if "allocation" in before:
        same = allocation == before["allocation"]
        return causes if same else [*causes, wrong("status.allocation", allocation, _IMMUTABLE)]
    return causes + _allocation_causes(allocation, _request_names(new["spec"]["devices"]))


def _consumer_causes(consumers: list[Json]) -> list[StatusCause]:
    causes: list[StatusCause] = []
    seen: set[str] = set()
    for index, consumer in enumerate(consumers):
        path = f"status.reservedFor[{index}]"
        missing = [name for name in ("resource", "name", "uid") if not consumer.get(name)]
        causes += [required(f"{path}.{name}") for name in missing]
        uid = consumer.get("uid", "")
        if uid in seen:
            causes.append(duplicate(path, uid))
        seen.add(uid)
    return causes


def _allocation_causes(allocation: Json, known: set[str]) -> list[StatusCause]:
    path = "status.allocation.devices.results"
    causes: list[StatusCause] = []
    for index, result in enumerate((allocation.get("devices") or {}).get("results") or []):
        if result.get("request", "") not in known:
            name = result.get("request", "")
            causes.append(wrong(f"{path}[{index}].request", name, _NO_REQUEST))
        missing = [name for name in ("driver", "pool") if not result.get(name)]
        causes += [required(f"{path}[{index}].{name}") for name in missing]
        causes += _name_causes(result.get("device", ""), f"{path}[{index}].device")
    if "nodeSelector" in allocation:
        where = "status.allocation.nodeSelector"
        causes += node_selector_causes(allocation["nodeSelector"], where)
    return causes


def _default_template(template: Json) -> None:
    spec = template.setdefault("spec", {})
    spec.setdefault("metadata", {})
    default_claim_spec(spec.setdefault("spec", {}))


def _template_causes(template: Json) -> list[StatusCause]:
    return claim_spec_causes(template["spec"]["spec"], "spec.spec")


def _default_class(one: Json) -> None:
    one.setdefault("spec", {})


def _class_causes(one: Json) -> list[StatusCause]:
    causes = [
        required(f"spec.selectors[{index}].cel")
        for index, selector in enumerate(one["spec"].get("selectors") or [])
        if "cel" not in selector
    ]
    resource = one["spec"].get("extendedResourceName")
    if resource is not None and ("/" not in resource or qualified_problem(resource)):
        text = "must be a valid extended resource name"
        causes.append(wrong("spec.extendedResourceName", resource, text))
    return causes


def _claim_cells(claim: Json, now: float) -> list[object]:
    status, going = claim.get("status") or {}, "deletionTimestamp" in claim["metadata"]
    states = ["deleted"] if going else []
    if "allocation" in status:
        states.append("allocated")
        states += ["reserved"] if status.get("reservedFor") else []
    elif not going:
        states.append("pending")
    return [",".join(states), age(claim["metadata"].get("creationTimestamp"), now)]


RESOURCE_CLAIMS = Resource(
    group=GROUP,
    plural="resourceclaims",
    kind="ResourceClaim",
    fields="ResourceClaim",
    subresources=(status_subresource(),),
    columns=(PrinterColumn("State"), PrinterColumn("Age")),
    cells=_claim_cells,
    merge_keys={**META_KEYS, "reservedFor": "uid"},
    has_status=True,
    returns_deleted=True,
    prepare=_prepare_claim,
    default=_default_claim,
    causes=lambda claim: claim_spec_causes(claim["spec"], "spec"),
    update_causes=_claim_update_causes,
    status_causes=_claim_status_causes,
)
CLAIM_TEMPLATES = Resource(
    group=GROUP,
    plural="resourceclaimtemplates",
    kind="ResourceClaimTemplate",
    fields="ResourceClaimTemplate",
    merge_keys=META_KEYS,
    returns_deleted=True,
    default=_default_template,
    causes=_template_causes,
    update_causes=_claim_update_causes,
)
DEVICE_CLASSES = Resource(
    group=GROUP,
    plural="deviceclasses",
    kind="DeviceClass",
    fields="DeviceClass",
    namespaced=False,
    merge_keys=META_KEYS,
    has_generation=True,
    returns_deleted=True,
    default=_default_class,
    causes=_class_causes,
)
