"""Services, and APIServices: groups of the API that other servers serve.

https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/api-service-v1/
"""

from collections.abc import Iterator
from typing import Any

from kubeshare_py.embedded_cluster.protocol.checks import Checked
from kubeshare_py.embedded_cluster.protocol.merge import META_KEYS
from kubeshare_py.embedded_cluster.protocol.names import label_1035_problem, subdomain_problem
from kubeshare_py.embedded_cluster.protocol.resources import (
    STATUS,
    Admission,
    PrinterColumn,
    Resource,
    age_of,
    columns,
)
from kubeshare_py.embedded_cluster.protocol.selectors import selector_text
from kubeshare_py.embedded_cluster.protocol.status import Json
from kubeshare_py.embedded_cluster.protocol.store import ApiStore
from kubeshare_py.embedded_cluster.protocol.times import timestamp

# Services: defaults, and rows of `kubectl get` (v1). No addresses are given out here.


_NONE = "<none>"


def _default_service(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    for port in spec.get("ports") or []:
        port.setdefault("protocol", "TCP")
    spec.setdefault("type", "ClusterIP")
    obj.setdefault("status", {"loadBalancer": {}})


def _service_cells(service: Json, now: float) -> list[object]:
    spec = service["spec"]
    return [
        spec["type"],
        (spec.get("clusterIPs") or [_NONE])[0],
        _external(spec),
        ",".join(map(_port, spec.get("ports") or [])) or _NONE,
        age_of(service, now),
        selector_text({"matchLabels": spec.get("selector") or {}}) or _NONE,
    ]


def _external(spec: Json) -> str:
    if spec["type"] == "ExternalName":
        return str(spec.get("externalName", ""))
    missing = "<pending>" if spec["type"] == "LoadBalancer" else _NONE
    return ",".join(spec.get("externalIPs") or []) or missing


def _port(port: dict[str, Any]) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port', 0)}{node}/{port['protocol']}"


SERVICES = Resource(
    plural="services",
    kind="Service",
    short_names=("svc",),
    categories=("all",),
    subresources=(STATUS,),
    columns=columns("Type, Cluster-IP, External-IP, Port(s), Age", "Selector"),
    cells=_service_cells,
    merge_keys={**META_KEYS, "ports": "port"},
    returns_deleted=True,
    default=_default_service,
)


# APIServices.


AVAILABLE = "Available"
_PORT = 443
_MAX_GROUP, _MAX_VERSION, _MAX_PORT = 20_000, 1000, 65_535
_COLUMNS = (
    PrinterColumn(
        "Service", description="The reference to the service that hosts this API endpoint."
    ),
    PrinterColumn("Available", description="Whether this service is available."),
    PrinterColumn("Age"),
)


def condition_of(service: Json) -> Json:
    """The Available condition; {} if it is not known yet."""
    conditions = (service.get("status") or {}).get("conditions") or []
    return next((one for one in conditions if one["type"] == AVAILABLE), {})


def registered(store: ApiStore) -> Iterator[Json]:
    """The APIServices of other servers, by name."""
    for entry in store.entries(API_SERVICES.store_bucket):
        if entry.object["spec"].get("service"):
            yield entry.object


def service_of(store: ApiStore, path: str) -> Json | None:
    """The APIService that a path belongs to, if another server serves it.

    Such are paths below /apis, and the OpenAPI documents of their groups.
    """
    below = path.strip("/").removeprefix("openapi/v3/")
    first, group, version = ([*below.split("/"), "", ""])[:3]
    if first != "apis" or not version:
        return None
    named = f"{version}.{group}"
    return next((one for one in registered(store) if one["metadata"]["name"] == named), None)


def resources_of(service: Json, listed: Json) -> tuple[Resource, ...]:
    """Rows for discovery, from the APIResourceList of the server behind an APIService."""
    spec = service["spec"]
    return tuple(
        Resource(
            group=spec["group"],
            version=spec["version"],
            plural=one["name"],
            kind=one.get("kind", ""),
            singular_name=one.get("singularName", ""),
            namespaced=bool(one.get("namespaced")),
            short_names=tuple(one.get("shortNames") or ()),
            listed_verbs=tuple(one.get("verbs") or ()),
            verbs=(),
            definition=service["metadata"]["name"],
        )
        for one in listed.get("resources") or []
        if "/" not in one["name"]
    )


def _prepare_api_service(service: Json, admission: Admission) -> None:
    service["status"] = {}
    if not (service.get("spec") or {}).get("service"):
        service["status"]["conditions"] = [
            {
                "type": AVAILABLE,
                "status": "True",
                "lastTransitionTime": timestamp(admission.now),
                "reason": "Local",
                "message": "Local APIServices are always available",
            }
        ]


def _default_api_service(service: Json) -> None:
    spec = service.setdefault("spec", {})
    for name in ("groupPriorityMinimum", "versionPriority"):
        spec.setdefault(name, 0)
    if spec.get("service") is not None:
        spec["service"].setdefault("port", _PORT)
    service.setdefault("status", {})


def _check(service: Checked) -> None:
    spec, name = service.at("spec"), service.value["metadata"]["name"]
    group, version = spec.get("group"), spec.get("version")
    if name != f"{version}.{group}":
        text = f'must be `spec.version+"."+spec.group`: "{version}.{group}"'
        service.wrong("metadata.name", name, text)
    if group:
        spec.valid("group", subdomain_problem)
    spec.valid("version", label_1035_problem)
    for field, most in (("groupPriorityMinimum", _MAX_GROUP), ("versionPriority", _MAX_VERSION)):
        if not 0 < spec.get(field) <= most:
            spec.wrong(field, spec.get(field), f"must be positive and less than {most}")
    _check_service(spec)


def _check_service(spec: Checked) -> None:
    bundle = spec.get("caBundle")
    if spec.get("service", None) is None:
        if bundle:
            shown = f"{len(bundle) * 3 // 4 - bundle.count('=')} bytes"
            spec.wrong("caBundle", shown, "local APIServices may not have a caBundle")
        return
    service = spec.at("service")
    service.require("namespace", "name")
    if not 0 < service.get("port") <= _MAX_PORT:
        text = f"port is not valid: must be between 1 and {_MAX_PORT}, inclusive"
        service.wrong("port", service.get("port"), text)
    if spec.get("insecureSkipTLSVerify") and bundle:
        spec.wrong("insecureSkipTLSVerify", True, "may not be true if caBundle is present")


def _api_service_cells(service: Json, now: float) -> list[object]:
    behind, condition = service["spec"].get("service"), condition_of(service)
    status = condition.get("status", "Unknown")
    if status != "True" and condition.get("reason"):
        status = f"{status} ({condition['reason']})"
    return [
        f"{behind['namespace']}/{behind['name']}" if behind else "Local",
        status,
        age_of(service, now),
    ]


API_SERVICES = Resource(
    group="apiregistration.k8s.io",
    plural="apiservices",
    kind="APIService",
    namespaced=False,
    categories=("api-extensions",),
    subresources=(STATUS,),
    columns=_COLUMNS,
    cells=_api_service_cells,
    merge_keys={**META_KEYS, "conditions": "type"},
    unconditional_update=False,
    prepare=_prepare_api_service,
    default=_default_api_service,
    check=_check,
)
