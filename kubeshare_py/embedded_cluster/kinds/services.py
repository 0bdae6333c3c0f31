"""APIServices: groups of the API that other servers serve (apiregistration.k8s.io/v1).

https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/api-service-v1/
"""

from collections.abc import Iterator
from typing import Any

from kubeshare_py.embedded_cluster.protocol.merge_keys import META_KEYS
from kubeshare_py.embedded_cluster.protocol.names import label_1035_problem, subdomain_problem
from kubeshare_py.embedded_cluster.protocol.resources import (
    Admission,
    PrinterColumn,
    Resource,
    status_subresource,
)
from kubeshare_py.embedded_cluster.protocol.status import Json, StatusCause, required, wrong
from kubeshare_py.embedded_cluster.protocol.store import ApiStore
from kubeshare_py.embedded_cluster.protocol.times import timestamp
from kubeshare_py.views.ages import age

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


def _prepare(service: Json, admission: Admission) -> None:
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


def _default(service: Json) -> None:
    spec = service.setdefault("spec", {})
    for name in ("groupPriorityMinimum", "versionPriority"):
        spec.setdefault(name, 0)
    if spec.get("service") is not None:
        spec["service"].setdefault("port", _PORT)
    service.setdefault("status", {})


def _causes(service: Json) -> list[StatusCause]:
    spec, name = service["spec"], service["metadata"]["name"]
    group, version = spec.get("group", ""), spec.get("version", "")
    causes: list[StatusCause] = []
    if name != f"{version}.{group}":
        text = f'must be `spec.version+"."+spec.group`: "{version}.{group}"'
        causes.append(wrong("metadata.name", name, text))
    if group and (problem := subdomain_problem(group)):
        causes.append(wrong("spec.group", group, problem))
    if problem := label_1035_problem(version):
        causes.append(wrong("spec.version", version, problem))
    for field, most in (("groupPriorityMinimum", _MAX_GROUP), ("versionPriority", _MAX_VERSION)):
        if not 0 < spec[field] <= most:
            text = f"must be positive and less than {most}"
            causes.append(wrong(f"spec.{field}", spec[field], text))
    return causes + _service_causes(spec)


def _service_causes(spec: dict[str, Any]) -> list[StatusCause]:
    service, bundle = spec.get("service"), spec.get("caBundle", "")
    if service is None:
        shown = f"{len(bundle) * 3 // 4 - bundle.count('=')} bytes"
        text = "local APIServices may not have a caBundle"
        return [wrong("spec.caBundle", shown, text)] if bundle else []
    causes = [
        required(f"spec.service.{field}")
        for field in ("namespace", "name")
        if not service.get(field)
    ]
    if not 0 < service["port"] <= _MAX_PORT:
        text = f"port is not valid: must be between 1 and {_MAX_PORT}, inclusive"
        causes.append(wrong("spec.service.port", service["port"], text))
    if spec.get("insecureSkipTLSVerify") and bundle:
        text = "may not be true if caBundle is present"
        causes.append(wrong("spec.insecureSkipTLSVerify", True, text))
    return causes


def _cells(service: Json, now: float) -> list[object]:
    behind, condition = service["spec"].get("service"), condition_of(service)
    status = condition.get("status", "Unknown")
    if status != "True" and condition.get("reason"):
        status = f"{status} ({condition['reason']})"
    return [
        f"{behind['namespace']}/{behind['name']}" if behind else "Local",
        status,
        age(service["metadata"].get("creationTimestamp"), now),
    ]


API_SERVICES = Resource(
    group="apiregistration.k8s.io",
    plural="apiservices",
    kind="APIService",
    fields="APIService",
    namespaced=False,
    categories=("api-extensions",),
    subresources=(status_subresource(),),
    columns=_COLUMNS,
    cells=_cells,
    merge_keys={**META_KEYS, "conditions": "type"},
    has_status=True,
    unconditional_update=False,
    prepare=_prepare,
    default=_default,
    causes=_causes,
)
