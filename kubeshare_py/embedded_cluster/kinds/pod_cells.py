"""A pod's row in `kubectl get pods`: READY, STATUS, RESTARTS and the wide columns."""

from typing import Any

from kubeshare_py.embedded_cluster.protocol.resources import PrinterColumn
from kubeshare_py.embedded_cluster.protocol.status import Json
from kubeshare_py.views.ages import age, duration, seconds

POD_COLUMNS = (
    PrinterColumn("Ready"),
    PrinterColumn("Status"),
    PrinterColumn("Restarts"),
    PrinterColumn("Age"),
    PrinterColumn("IP", priority=1),
    PrinterColumn("Node", priority=1),
    PrinterColumn("Nominated Node", priority=1),
    PrinterColumn("Readiness Gates", priority=1),
)
_NONE = "<none>"


def pod_cells(pod: Json, now: float) -> list[object]:
    """The cells after the name."""
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
        age(pod["metadata"].get("creationTimestamp"), now),
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
