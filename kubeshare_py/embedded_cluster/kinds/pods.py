"""Pods and PriorityClasses: what creation adds, allowed updates, rows of `kubectl get pods`."""

from typing import Any

from kubeshare_py.embedded_cluster.kinds.pod_specs import (
    check_pod_spec,
    containers_of,
    default_pod_spec,
    merge_label_keys,
)
from kubeshare_py.embedded_cluster.protocol.checks import Checked
from kubeshare_py.embedded_cluster.protocol.merge import POD_KEYS
from kubeshare_py.embedded_cluster.protocol.names import suffix
from kubeshare_py.embedded_cluster.protocol.resources import (
    STATUS,
    Admission,
    Resource,
    Subresource,
    age_of,
    columns,
)
from kubeshare_py.embedded_cluster.protocol.status import Json, StatusSubject, forbidden
from kubeshare_py.embedded_cluster.protocol.store import ApiStore
from kubeshare_py.embedded_cluster.protocol.times import default_times, timestamp
from kubeshare_py.views.ages import duration, seconds

# PriorityClasses, and their effect on a pod's spec (scheduling.k8s.io/v1).
#
# As measured on kube-apiserver 1.36, where the admission plugin Priority does it. Not checked here:
# that an update makes no second global default.


#: The classes of a new server; pods of the cluster itself use them.
SYSTEM_CLASSES: tuple[Json, ...] = (
    {
        "metadata": {"name": "system-cluster-critical"},
        "value": 2_000_000_000,
        "description": "Used for system critical pods that must run in the cluster, but can be "
        "moved to another node if necessary.",
    },
    {
        "metadata": {"name": "system-node-critical"},
        "value": 2_000_001_000,
        "description": "Used for system critical pods that must not be moved from their current "
        "node.",
    },
)
_HIGHEST = 1_000_000_000
_PREEMPTING = "PreemptLowerPriority"
_POLICIES = (_PREEMPTING, "Never")
_SYSTEM = "system-"


def _admit_priority(pod: Json, store: ApiStore) -> None:
    """Set priority and policy of a new pod by its class, or the default class if it names none.

    Raises Refusal (403) for an unknown class, and for values that differ from the class.
    """
    spec, subject = pod["spec"], StatusSubject("pods", pod["metadata"].get("name", ""))
    name = spec.get("priorityClassName", "")
    found = _class_of(name, store)
    if name and not found:
        raise forbidden(subject, f"no PriorityClass with name {name} was found")
    if found:
        spec["priorityClassName"] = found["metadata"]["name"]
    value, policy = found.get("value", 0), found.get("preemptionPolicy", _PREEMPTING)
    for field, kind, wanted in (
        ("priority", "integer value of priority", value),
        ("preemptionPolicy", "string value of PreemptionPolicy", policy),
    ):
        if spec.setdefault(field, wanted) != wanted:
            why = (
                f"the {kind} ({spec[field]}) must not be provided in pod spec; priority admission "
                f"controller computed {wanted} from the given PriorityClass name"
            )
            raise forbidden(subject, why)


def _class_of(name: str, store: ApiStore) -> Json:
    """The class of that name, or the default one; {} if there is none."""
    if name:
        entry = store.get(PRIORITY_CLASSES.store_bucket, "", name)
        return entry.object if entry is not None else {}
    return min(_defaults(store), key=lambda one: int(one.get("value", 0)), default={})


def _defaults(store: ApiStore) -> list[Json]:
    entries = store.entries(PRIORITY_CLASSES.store_bucket)
    return [entry.object for entry in entries if entry.object.get("globalDefault")]


def _prepare_class(new: Json, admission: Admission) -> None:
    if not new.get("globalDefault"):
        return
    for held in _defaults(admission.store):
        why = (
            f"PriorityClass {held['metadata']['name']} is already marked as default. Only one "
            "default can exist"
        )
        raise forbidden(PRIORITY_CLASSES.named(new["metadata"]["name"]), why)


def _default_class(one: Json) -> None:
    one.setdefault("value", 0)
    one.setdefault("preemptionPolicy", _PREEMPTING)


def _check_class(one: Checked) -> None:
    name = one.value["metadata"]["name"]
    if name.startswith(_SYSTEM):
        if not any(known["metadata"]["name"] == name for known in SYSTEM_CLASSES):
            text = (
                f"priority class names with '{_SYSTEM}' prefix are reserved for system use only. "
                f"error: {name} is not a known system priority class"
            )
            one.forbid("metadata.name", text)
    elif one.get("value") > _HIGHEST:
        text = f"maximum allowed value of a user defined priority is {_HIGHEST}"
        one.forbid("value", text)
    one.one_of("preemptionPolicy", _POLICIES)


def _check_class_update(one: Checked, old: Json) -> None:
    if one.value["value"] != old["value"]:
        one.forbid("value", "may not be changed in an update.")
    one.unchanged(old, "preemptionPolicy")


def _class_cells(one: Json, now: float) -> list[object]:
    is_default = bool(one.get("globalDefault"))
    return [one.get("value", 0), is_default, age_of(one, now), one.get("preemptionPolicy")]


PRIORITY_CLASSES = Resource(
    group="scheduling.k8s.io",
    plural="priorityclasses",
    kind="PriorityClass",
    namespaced=False,
    short_names=("pc",),
    columns=columns("Value:integer, Global-Default:boolean, Age, PreemptionPolicy"),
    cells=_class_cells,
    has_generation=True,
    prepare=_prepare_class,
    default=_default_class,
    check=_check_class,
    check_update=_check_class_update,
)


# Pods: the fields that creation adds, allowed updates, quality of service.
#
# Admission as on a default kube-apiserver: priority from its class, the default service account
# with its token volume, the two NoExecute tolerations of 300 s.


GATED = "SchedulingGated"
_EVICTING_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOKEN_MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_TOKEN_SECONDS = 3607
_MODE = 0o644
_CHANGED = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set "
    "to 1 if it was previously negative)"
)


def _prepare_pod(pod: Json, admission: Admission) -> None:
    """Admission on create; refuses an unknown priority class with 403."""
    spec = pod.setdefault("spec", {})
    _admit_priority(pod, admission.store)
    _admit_service_account(spec, admission)
    tolerations = spec.setdefault("tolerations", [])
    for key in _EVICTING_TAINTS:
        if not any(_tolerates(entry, key) for entry in tolerations):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
            )
    spec.setdefault("enableServiceLinks", True)
    _default_pod(pod)
    merge_label_keys(pod)
    pod["status"] = {"phase": "Pending", "qosClass": _qos_class(spec)}
    if spec.get("schedulingGates"):
        pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": GATED,
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastProbeTime": None,
                "lastTransitionTime": timestamp(admission.now),
            }
        ]


def _default_pod(pod: Json) -> None:
    """Defaults that updates apply too; raises BadQuantity."""
    default_pod_spec(pod.setdefault("spec", {}))
    default_times(pod.get("status", {}), "lastProbeTime")


def _check_pod_update(pod: Checked, old: Json) -> None:
    """A pod's spec is fixed except images, tolerations, deadlines and gates."""
    spec, before = pod.at("spec"), old["spec"]
    known = {gate["name"] for gate in before.get("schedulingGates") or []}
    added = [one for one in spec.get("schedulingGates", []) if one.get("name") not in known]
    for gate in added:
        text = "only deletion is allowed, but found new scheduling gate"
        spec.forbid("schedulingGates", f"{text} '{gate['name']}'")
    if not added and _with_changeable(spec.value, before) != before:
        pod.forbid("spec", _CHANGED)


def _qos_class(spec: Json) -> str:
    """Guaranteed, Burstable or BestEffort; only cpu and memory count."""
    guaranteed, any_set = True, False
    for container in containers_of(spec):
        resources = container.get("resources") or {}
        for name in ("cpu", "memory"):
            request = (resources.get("requests") or {}).get(name)
            limit = (resources.get("limits") or {}).get(name)
            any_set = any_set or request is not None or limit is not None
            guaranteed = guaranteed and limit is not None and request == limit
    if not any_set:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _admit_service_account(spec: Json, admission: Admission) -> None:
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = account
    if spec.get("automountServiceAccountToken") is False:
        return
    name = f"kube-api-access-{suffix(admission.rng)}"
    spec.setdefault("volumes", []).append({"name": name, "projected": _token_sources()})
    for container in containers_of(spec):
        mounts = container.setdefault("volumeMounts", [])
        if all(mount.get("mountPath") != _TOKEN_MOUNT for mount in mounts):
            mounts.append({"name": name, "readOnly": True, "mountPath": _TOKEN_MOUNT})


def _token_sources() -> Json:
    namespace = {
        "path": "namespace",
        "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
    }
    root = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
            {"configMap": root},
            {"downwardAPI": {"items": [namespace]}},
        ],
        "defaultMode": _MODE,
    }


def _tolerates(toleration: Json, key: str) -> bool:
    named = toleration.get("key") in (None, key)
    return named and toleration.get("effect") in (None, "NoExecute")


def _with_changeable(new: Json, old: Json) -> Json:
    """The new spec with every field that may change set back to the old one."""
    held = dict(new)
    for part in ("containers", "initContainers"):
        if part in old and len(new.get(part) or []) == len(old[part]):
            held[part] = [
                {**mine, "image": theirs.get("image")} if mine.get("image") else mine
                for mine, theirs in zip(new[part], old[part], strict=True)
            ]
    if all(entry in (new.get("tolerations") or []) for entry in old.get("tolerations") or []):
        held["tolerations"] = old.get("tolerations", [])
    for name in ("schedulingGates", *_while_gated(new, old)):
        _restore(held, old, name)
    if _lowered(old.get("activeDeadlineSeconds"), new.get("activeDeadlineSeconds")):
        _restore(held, old, "activeDeadlineSeconds")
    if "tolerations" not in old and held.get("tolerations") == []:
        del held["tolerations"]
    return held


def _restore(held: Json, old: Json, name: str) -> None:
    if name in old:
        held[name] = old[name]
    else:
        held.pop(name, None)


def _while_gated(new: Json, old: Json) -> tuple[str, ...]:
    """A gated pod's nodeSelector may grow and its affinity may be narrowed."""
    if not old.get("schedulingGates"):
        return ()
    held, wanted = old.get("nodeSelector") or {}, new.get("nodeSelector") or {}
    grows = all(wanted.get(key) == value for key, value in held.items())
    return ("nodeSelector", "affinity") if grows else ("affinity",)


def _lowered(old: int | None, new: int | None) -> bool:
    return new is not None and (old is None or new <= old)


# A pod's row in `kubectl get pods`: READY, STATUS, RESTARTS and the wide columns.


_NONE = "<none>"


def _pod_cells(pod: Json, now: float) -> list[object]:
    spec, status = pod["spec"], pod.get("status") or {}
    sidecars = {
        container["name"]
        for container in spec.get("initContainers") or []
        if container.get("restartPolicy") == "Always"
    }
    main = status.get("containerStatuses") or []
    initial = status.get("initContainerStatuses") or []
    counted = main + [entry for entry in initial if entry["name"] in sidecars]
    ready = sum(1 for entry in counted if _is_ready(entry))
    total = len(spec.get("containers") or []) + len(sidecars)
    return [
        f"{ready}/{total}",
        pod_status(pod),
        _restarts(counted, now),
        age_of(pod, now),
        status.get("podIP") or _NONE,
        spec.get("nodeName") or _NONE,
        status.get("nominatedNodeName") or _NONE,
        _readiness_gates(spec, status),
    ]


def pod_status(pod: Json) -> str:
    """The STATUS column."""
    status = pod.get("status") or {}
    reason = status.get("reason") or status.get("phase") or "Unknown"
    for condition in status.get("conditions") or []:
        gated = condition.get("reason") == "SchedulingGated"
        if condition.get("type") == "PodScheduled" and gated:
            reason = "SchedulingGated"
    waiting = _initialising(pod)
    reason = waiting or _running(status, reason)
    if "deletionTimestamp" in pod["metadata"]:
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return reason


def _initialising(pod: Json) -> str:
    """`Init:…` of the first init container that is not done, or ""."""
    spec, status = pod["spec"], pod.get("status") or {}
    containers = spec.get("initContainers") or []
    sidecars = {c["name"] for c in containers if c.get("restartPolicy") == "Always"}
    for index, entry in enumerate(status.get("initContainerStatuses") or []):
        state = entry.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if terminated is not None and terminated.get("exitCode", 0) == 0:
            continue
        if entry["name"] in sidecars and entry.get("started"):
            continue
        if terminated is not None:
            return f"Init:{terminated.get('reason') or _exit(terminated)}"
        if waiting.get("reason") not in (None, "", "PodInitializing"):
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{len(containers)}"
    return ""


def _running(status: Json, reason: str) -> str:
    """Containers last to first; a later (earlier listed) one wins."""
    running = False
    for entry in reversed(status.get("containerStatuses") or []):
        state = entry.get("state") or {}
        waiting, terminated = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif terminated is not None:
            reason = terminated.get("reason") or _exit(terminated)
        elif entry.get("ready") and "running" in state:
            running = True
    if reason == "Completed" and running:
        ready = any(
            condition.get("type") == "Ready" and condition.get("status") == "True"
            for condition in status.get("conditions") or []
        )
        return "Running" if ready else "NotReady"
    return reason


def _exit(terminated: Json) -> str:
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _is_ready(entry: Json) -> bool:
    return bool(entry.get("ready")) and "running" in (entry.get("state") or {})


def _restarts(entries: list[Any], now: float) -> str:
    total = sum(entry.get("restartCount", 0) for entry in entries)
    finished = [
        seconds(entry["lastState"]["terminated"]["finishedAt"])
        for entry in entries
        if ((entry.get("lastState") or {}).get("terminated") or {}).get("finishedAt")
    ]
    if total and finished:
        return f"{total} ({duration(now - max(finished))} ago)"
    return str(total)


def _readiness_gates(spec: Json, status: Json) -> str:
    gates = spec.get("readinessGates") or []
    if not gates:
        return _NONE
    true = {c["type"] for c in status.get("conditions") or [] if c.get("status") == "True"}
    return f"{sum(1 for gate in gates if gate['conditionType'] in true)}/{len(gates)}"


_SELECTABLE_SPEC = ("nodeName", "restartPolicy", "schedulerName", "serviceAccountName")
_SELECTABLE_STATUS = ("phase", "podIP", "podIPs", "nominatedNodeName")
PODS = Resource(
    plural="pods",
    kind="Pod",
    short_names=("po",),
    categories=("all",),
    subresources=(
        STATUS,
        Subresource(name="binding", verbs=("create",), kind="Binding"),
        Subresource(
            name="eviction", verbs=("create",), kind="Eviction", group="policy", version="v1"
        ),
        Subresource(name="log", verbs=("get",)),
        Subresource(name="exec", verbs=("create", "get")),
        Subresource(name="attach", verbs=("create", "get")),
        Subresource(name="portforward", verbs=("create", "get")),
    ),
    columns=columns("Ready, Status, Restarts, Age", "IP, Node, Nominated Node, Readiness Gates"),
    cells=_pod_cells,
    merge_keys=POD_KEYS,
    selectable={
        **{f"spec.{name}": ("spec", name) for name in (*_SELECTABLE_SPEC, "hostNetwork")},
        **{f"status.{name}": ("status", name) for name in _SELECTABLE_STATUS},
    },
    has_generation=True,
    returns_deleted=True,
    prepare=_prepare_pod,
    default=_default_pod,
    check=lambda pod: check_pod_spec(pod.at("spec")),
    check_update=_check_pod_update,
)
