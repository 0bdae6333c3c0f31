"""Services: defaults, and rows of `kubectl get` (v1). No addresses are given out here."""

from typing import Any

from kubeshare_py.embedded_cluster.protocol.merge_keys import META_KEYS
from kubeshare_py.embedded_cluster.protocol.resources import (
    PrinterColumn,
    Resource,
    status_subresource,
)
from kubeshare_py.embedded_cluster.protocol.status import Json
from kubeshare_py.views.ages import age

_NONE = "<none>"
_COLUMNS = (
    PrinterColumn("Type"),
    PrinterColumn("Cluster-IP"),
    PrinterColumn("External-IP"),
    PrinterColumn("Port(s)"),
    PrinterColumn("Age"),
    PrinterColumn("Selector", priority=1),
)


def _default(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    for port in spec.get("ports") or []:
        port.setdefault("protocol", "TCP")
    spec.setdefault("type", "ClusterIP")
    obj.setdefault("status", {"loadBalancer": {}})


def _cells(service: Json, now: float) -> list[object]:
    spec = service["spec"]
    labels = spec.get("selector") or {}
    return [
        spec["type"],
        (spec.get("clusterIPs") or [_NONE])[0],
        _external(spec),
        ",".join(map(_port, spec.get("ports") or [])) or _NONE,
        age(service["metadata"].get("creationTimestamp"), now),
        ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or _NONE,
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
    fields="Service",
    short_names=("svc",),
    categories=("all",),
    subresources=(status_subresource(),),
    columns=_COLUMNS,
    cells=_cells,
    merge_keys={**META_KEYS, "ports": "port"},
    has_status=True,
    returns_deleted=True,
    default=_default,
)
