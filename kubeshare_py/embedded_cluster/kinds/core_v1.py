"""Nodes, namespaces, events and small kinds: defaults, checks, rows of `kubectl get`."""

from kubeshare_py.embedded_cluster.protocol.checks import IMMUTABLE, Checked
from kubeshare_py.embedded_cluster.protocol.merge import META_KEYS
from kubeshare_py.embedded_cluster.protocol.names import qualified_problem
from kubeshare_py.embedded_cluster.protocol.quantities import canonical_amounts
from kubeshare_py.embedded_cluster.protocol.resources import (
    STATUS,
    Admission,
    PrinterColumn,
    Resource,
    age_of,
    columns,
)
from kubeshare_py.embedded_cluster.protocol.status import Json
from kubeshare_py.embedded_cluster.protocol.times import default_times, is_micro_time
from kubeshare_py.views.ages import age

# Nodes.
#
# The real server's admission plugin TaintNodesByCondition, which gives every new Node the taint
# `node.kubernetes.io/not-ready:NoSchedule` until a controller removes it, is off here, because
# there is no such controller.


_ROLE = "node-role.kubernetes.io/"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def _default_node(node: Json) -> None:
    """Canonical quantities; allocatable is capacity unless it is set."""
    node.setdefault("spec", {})
    status = node.setdefault("status", {})
    canonical_amounts(status, "capacity", "allocatable")
    default_times(status, "lastHeartbeatTime")
    if "capacity" in status:
        status.setdefault("allocatable", dict(status["capacity"]))


def _check_node(node: Checked) -> None:
    for index, taint in enumerate(node.at("spec").each("taints")):
        taint.path = f"metadata.taints[{index}]"
        taint.require("key")
        taint.one_of("effect", _EFFECTS)


def _node_cells(node: Json, now: float) -> list[object]:
    status = node.get("status") or {}
    info = status.get("nodeInfo") or {}
    addresses = {entry["type"]: entry["address"] for entry in status.get("addresses") or []}
    kernel = info.get("kernelVersion")
    if kernel and info.get("architecture"):
        kernel = f"{kernel} ({info['architecture']})"
    return [
        _node_status(node),
        ",".join(_roles(node)) or "<none>",
        age_of(node, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP", "<none>"),
        addresses.get("ExternalIP", "<none>"),
        info.get("osImage") or "<unknown>",
        kernel or "<unknown>",
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


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


NODES = Resource(
    plural="nodes",
    kind="Node",
    namespaced=False,
    short_names=("no",),
    subresources=(STATUS,),
    columns=columns(
        "Status, Roles, Age, Version",
        "Internal-IP, External-IP, OS-Image, Kernel-Version, Container-Runtime",
    ),
    cells=_node_cells,
    merge_keys={**META_KEYS, "conditions": "type", "addresses": "type", "podCIDRs": ""},
    selectable={"spec.unschedulable": ("spec", "unschedulable")},
    default=_default_node,
    check=_check_node,
)


# Namespaces.


def _end_namespace(namespace: Json, _now: float) -> None:
    """Let it wait until it is empty."""
    namespace["status"] = {**namespace.get("status", {}), "phase": "Terminating"}


def _prepare_namespace(namespace: Json, _admission: Admission) -> None:
    """Active, with its name as a label."""
    namespace["spec"] = {"finalizers": ["kubernetes"]}
    namespace["status"] = {"phase": "Active"}
    metadata = namespace["metadata"]
    metadata.setdefault("labels", {})["kubernetes.io/metadata.name"] = metadata["name"]


NAMESPACES = Resource(
    plural="namespaces",
    kind="Namespace",
    namespaced=False,
    short_names=("ns",),
    verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
    subresources=(STATUS,),
    columns=columns("Status, Age"),
    cells=lambda namespace, now: [namespace["status"]["phase"], age_of(namespace, now)],
    merge_keys={**META_KEYS, "conditions": "type"},
    selectable={"status.phase": ("status", "phase")},
    name_is_label=True,
    returns_deleted=True,
    prepare=_prepare_namespace,
    ending=_end_namespace,
)


# Events, stored once in core/v1 form and served through core/v1 and events.k8s.io/v1.


_RENAMED = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_STORED = {wire: stored for stored, wire in _RENAMED.items()}
_SERIES_MINIMUM = 2
_LIMITS = {"note": 1024, "reason": 128, "action": 128, "reportingInstance": 128}
_TYPES = ("Normal", "Warning")


def _present_new(event: Json) -> Json:
    """The stored event as events.k8s.io/v1 shows it."""
    return {_RENAMED.get(key, key): value for key, value in event.items()}


def _absorb_new(event: Json) -> Json:
    """An events.k8s.io/v1 body as it is stored."""
    return {_STORED.get(key, key): value for key, value in event.items()}


def _default_event(event: Json) -> None:
    event.setdefault("involvedObject", {})


def _check_core_event(event: Checked) -> None:
    """The loose old rules, unless the event has the new style's eventTime."""
    if "eventTime" in event.value:
        _check_new_event(event)
    else:
        _check_namespace(event)


def _check_new_event(event: Checked) -> None:
    """The rules of events.k8s.io/v1, on the stored form."""
    if not event.value["involvedObject"].get("namespace"):
        _check_namespace(event)
    seen = Checked(_present_new(event.value), "", event.causes)
    if "eventTime" not in seen.value:
        seen.lacks("eventTime")
    seen.require("reportingController", "reportingInstance", "action", "reason")
    if seen.get("reportingController"):
        seen.valid("reportingController", qualified_problem)
    for name, limit in _LIMITS.items():
        if len(seen.get(name)) > limit:
            seen.wrong(name, "", f"can have at most {limit} bytes")
    seen.one_of("type", _TYPES)
    series = seen.at("series")
    if "series" in seen.value and series.get("count", 0) < _SERIES_MINIMUM:
        series.wrong("count", series.get("count", 0), "should be at least 2")


def _check_event_update(event: Checked, old: Json) -> None:
    """A new-style event keeps everything but its series."""
    for name in sorted({*event.value, *old} - {"metadata", "series"}):
        if "eventTime" in old and event.value.get(name) != old.get(name):
            event.forbid(name, IMMUTABLE)


def _check_namespace(event: Checked) -> None:
    """The namespace must be the involved object's, or default for objects without one."""
    namespace = event.value["involvedObject"].get("namespace", "")
    own = event.value["metadata"].get("namespace", "")
    if namespace != own and (namespace or own != "default"):
        event.wrong("involvedObject.namespace", namespace, "does not match event.namespace")


def _event_time_problem(event: Json) -> str:
    """Why eventTime or series.lastObservedTime does not parse ("" if they do)."""
    return _bad(event.get("eventTime"), (event.get("series") or {}).get("lastObservedTime"))


def _bad(*times: object) -> str:
    for text in times:
        if text is not None and not is_micro_time(text):
            return f'parsing time "{text}" as "2006-01-02T15:04:05.000000Z07:00": cannot parse'
    return ""


def _event_cells(event: Json, now: float) -> list[object]:
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


_REFERENCE = ("kind", "namespace", "name", "uid")
_EVENT_FIELDS = {
    "type": ("type",),
    "reason": ("reason",),
    "reportingComponent": ("reportingComponent",),
    **{
        f"involvedObject.{name}": ("involvedObject", name)
        for name in (*_REFERENCE, "apiVersion", "resourceVersion", "fieldPath")
    },
}
_NEW_EVENT_FIELDS = {
    **{key: path for key, path in _EVENT_FIELDS.items() if "." not in key},
    "reportingController": ("reportingComponent",),
    **{
        key.replace("involvedObject", "regarding"): path
        for key, path in _EVENT_FIELDS.items()
        if "." in key
    },
}
_EVENT_COLUMNS = (
    *columns("Last Seen, Type, Reason, Object", "Subobject, Source"),
    *columns("Message", "First Seen, Count"),
    PrinterColumn("Name", priority=1, format="name"),
)
EVENTS = Resource(
    plural="events",
    kind="Event",
    fields="CoreEvent",
    short_names=("ev",),
    columns=_EVENT_COLUMNS,
    cells=_event_cells,
    selectable=_EVENT_FIELDS,
    create_on_update=True,
    bucket="events.",
    default=_default_event,
    time_problem=_event_time_problem,
    check=_check_core_event,
)
NEW_EVENTS = Resource(
    group="events.k8s.io",
    plural="events",
    kind="Event",
    fields="NewEvent",
    short_names=("ev",),
    columns=_EVENT_COLUMNS,
    cells=_event_cells,
    selectable=_NEW_EVENT_FIELDS,
    create_on_update=True,
    bucket="events.",
    default=_default_event,
    time_problem=_event_time_problem,
    check=_check_new_event,
    check_update=_check_event_update,
    present=_present_new,
    absorb=_absorb_new,
)


# ConfigMaps, ServiceAccounts and Leases.


def _config_map_cells(config_map: Json, now: float) -> list[object]:
    keys = len(config_map.get("data") or {}) + len(config_map.get("binaryData") or {})
    return [keys, age_of(config_map, now)]


def _lease_time_problem(lease: Json) -> str:
    spec = lease.get("spec") or {}
    return _bad(spec.get("acquireTime"), spec.get("renewTime"))


def _lease_cells(lease: Json, now: float) -> list[object]:
    return [(lease.get("spec") or {}).get("holderIdentity", ""), age_of(lease, now)]


CONFIG_MAPS = Resource(
    plural="configmaps",
    kind="ConfigMap",
    short_names=("cm",),
    columns=columns("Data, Age"),
    cells=_config_map_cells,
)
SERVICE_ACCOUNTS = Resource(
    plural="serviceaccounts",
    kind="ServiceAccount",
    short_names=("sa",),
    merge_keys={**META_KEYS, "secrets": "name", "imagePullSecrets": "name"},
    returns_deleted=True,
)
LEASES = Resource(
    group="coordination.k8s.io",
    plural="leases",
    kind="Lease",
    columns=columns("Holder, Age"),
    cells=_lease_cells,
    create_on_update=True,
    time_problem=_lease_time_problem,
)
