"""Rows of `kubectl get` for every kind but pods."""

from kubeshare_py.embedded_cluster.protocol.resources import PrinterColumn
from kubeshare_py.embedded_cluster.protocol.status import Json
from kubeshare_py.views.ages import age, duration, seconds

_ROLE = "node-role.kubernetes.io/"
NODE_COLUMNS = (
    PrinterColumn("Status"),
    PrinterColumn("Roles"),
    PrinterColumn("Age"),
    PrinterColumn("Version"),
    PrinterColumn("Internal-IP", priority=1),
    PrinterColumn("External-IP", priority=1),
    PrinterColumn("OS-Image", priority=1),
    PrinterColumn("Kernel-Version", priority=1),
    PrinterColumn("Container-Runtime", priority=1),
)
JOB_COLUMNS = (
    PrinterColumn("Status"),
    PrinterColumn("Completions"),
    PrinterColumn("Duration"),
    PrinterColumn("Age"),
    PrinterColumn("Containers", priority=1),
    PrinterColumn("Images", priority=1),
    PrinterColumn("Selector", priority=1),
)
EVENT_COLUMNS = (
    PrinterColumn("Last Seen"),
    PrinterColumn("Type"),
    PrinterColumn("Reason"),
    PrinterColumn("Object"),
    PrinterColumn("Subobject", priority=1),
    PrinterColumn("Source", priority=1),
    PrinterColumn("Message"),
    PrinterColumn("First Seen", priority=1),
    PrinterColumn("Count", priority=1),
    PrinterColumn("Name", priority=1, format="name"),
)
NAMESPACE_COLUMNS = (PrinterColumn("Status"), PrinterColumn("Age"))
CONFIG_MAP_COLUMNS = (PrinterColumn("Data"), PrinterColumn("Age"))
LEASE_COLUMNS = (PrinterColumn("Holder"), PrinterColumn("Age"))
PRIORITY_CLASS_COLUMNS = (
    PrinterColumn("Value", "integer"),
    PrinterColumn("Global-Default", "boolean"),
    PrinterColumn("Age"),
    PrinterColumn("PreemptionPolicy"),
)


def node_cells(node: Json, now: float) -> list[object]:
    """Status, roles, age, version; addresses and versions when wide."""
    status = node.get("status") or {}
    info = status.get("nodeInfo") or {}
    addresses = {entry["type"]: entry["address"] for entry in status.get("addresses") or []}
    kernel = info.get("kernelVersion")
    if kernel and info.get("architecture"):
        kernel = f"{kernel} ({info['architecture']})"
    return [
        _node_status(node),
        ",".join(_roles(node)) or "<none>",
        _age(node, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP", "<none>"),
        addresses.get("ExternalIP", "<none>"),
        info.get("osImage") or "<unknown>",
        kernel or "<unknown>",
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def job_cells(job: Json, now: float) -> list[object]:
    """Status, completions, duration, age; containers, images and selector when wide."""
    spec, status = job["spec"], job.get("status") or {}
    containers = spec["template"]["spec"].get("containers") or []
    labels = (spec.get("selector") or {}).get("matchLabels") or {}
    return [
        _job_status(spec, status),
        _completions(spec, status),
        _job_duration(status, now),
        _age(job, now),
        ",".join(container["name"] for container in containers),
        ",".join(container.get("image", "") for container in containers),
        ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or "<none>",
    ]


def event_cells(event: Json, now: float) -> list[object]:
    """One stored (core form) event."""
    series = event.get("series") or {}
    first = event.get("firstTimestamp") or event.get("eventTime")
    last = series.get("lastObservedTime") or event.get("lastTimestamp") or first
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent", "")
    host = source.get("host") or event.get("reportingInstance", "")
    about = event.get("involvedObject") or {}
    return [
        age(last, now),
        event.get("type", ""),
        event.get("reason", ""),
        f"{about.get('kind', '').lower()}/{about.get('name', '')}",
        about.get("fieldPath", ""),
        f"{component}, {host}" if host else component,
        event.get("message", "").strip(),
        age(first, now),
        str(series.get("count") or event.get("count") or 1),
        event["metadata"]["name"],
    ]


def namespace_cells(namespace: Json, now: float) -> list[object]:
    """Status and age."""
    return [namespace["status"]["phase"], _age(namespace, now)]


def config_map_cells(config_map: Json, now: float) -> list[object]:
    """How many keys, and age."""
    keys = len(config_map.get("data") or {}) + len(config_map.get("binaryData") or {})
    return [keys, _age(config_map, now)]


def lease_cells(lease: Json, now: float) -> list[object]:
    """Holder and age."""
    return [(lease.get("spec") or {}).get("holderIdentity", ""), _age(lease, now)]


def priority_class_cells(entry: Json, now: float) -> list[object]:
    """Value, whether it is the default, age, policy."""
    is_default = bool(entry.get("globalDefault"))
    return [entry.get("value", 0), is_default, _age(entry, now), entry.get("preemptionPolicy")]


def _age(obj: Json, now: float) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


def _node_status(node: Json) -> str:
    conditions = {
        c["type"]: c.get("status") for c in (node.get("status") or {}).get("conditions") or []
    }
    shown = "Unknown"
    if "Ready" in conditions:
        shown = "Ready" if conditions["Ready"] == "True" else "NotReady"
    return f"{shown},SchedulingDisabled" if node["spec"].get("unschedulable") else shown


def _roles(node: Json) -> list[str]:
    labels = node["metadata"].get("labels") or {}
    found = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE)}
    if labels.get("kubernetes.io/role"):
        found.add(labels["kubernetes.io/role"])
    return sorted(role for role in found if role)


def _job_status(spec: Json, status: Json) -> str:
    true = {c["type"] for c in status.get("conditions") or [] if c.get("status") == "True"}
    for condition in ("Complete", "Failed"):
        if condition in true:
            return condition
    if spec.get("suspend") or "Suspended" in true:
        return "Suspended"
    return "FailureTarget" if "FailureTarget" in true else "Running"


def _completions(spec: Json, status: Json) -> str:
    succeeded = status.get("succeeded", 0)
    if "completions" in spec:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism", 0)
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(status: Json, now: float) -> str:
    if "startTime" not in status:
        return ""
    finished = status.get("completionTime")
    end = seconds(finished) if finished else now
    return duration(end - seconds(status["startTime"]))
