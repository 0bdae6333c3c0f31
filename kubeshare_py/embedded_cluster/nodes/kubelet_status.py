"""Pod status as a kubelet reports it, as bodies of strategic merge patches to pods/status."""

import zlib

from kubeshare_py.embedded_cluster.controllers.unstructured import Json, UnstructuredObject
from kubeshare_py.embedded_cluster.protocol.times import timestamp

#: Exit code of a process that ended by SIGTERM.
TERMINATED = 143


def pod_ip(pod: UnstructuredObject) -> str:
    """An address made from the pod's uid."""
    number = zlib.crc32(pod.uid.encode())
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def creating(pod: UnstructuredObject, host_ip: str, now: float) -> Json:
    """The node has the pod and its containers are being created."""
    return _waiting(pod, host_ip, now, {"reason": "ContainerCreating"})


def not_creatable(pod: UnstructuredObject, host_ip: str, now: float, message: str) -> Json:
    """The node cannot start the pod; `message` says why."""
    return _waiting(pod, host_ip, now, {"reason": "CreateContainerConfigError", "message": message})


def running(pod: UnstructuredObject, host_ip: str, now: float, restarts: int, last: Json) -> Json:
    """All containers run since `now`; `last` is how they ended before ({} if they did not)."""
    state = {"running": {"startedAt": timestamp(now)}}
    status = _status(pod, host_ip, now, "Running", ready=True)
    if restarts:
        # The pod itself started once.
        status["startTime"] = pod.status.get("startTime") or status["startTime"]
    address = pod_ip(pod)
    status |= {"podIP": address, "podIPs": [{"ip": address}]}
    status["initContainerStatuses"] = _init_containers(pod, now)
    status["containerStatuses"] = _containers(pod, state, restarts, last, ready=True)
    return {"status": status}


def backing_off(
    pod: UnstructuredObject, host_ip: str, now: float, restarts: int, last: Json
) -> Json:
    """All containers ended and wait for their next start."""
    state = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting container"}}
    status = _status(pod, host_ip, now, "Running", ready=False, reason="ContainersNotReady")
    status["containerStatuses"] = _containers(pod, state, restarts, last, ready=False)
    return {"status": status}


def ended(pod: UnstructuredObject, host_ip: str, restarts: int, last: Json) -> Json:
    """All containers ended for good, as `last` says."""
    succeeded = last["terminated"]["exitCode"] == 0
    now_text = last["terminated"]["finishedAt"]
    reason = "PodCompleted" if succeeded else "PodFailed"
    return {
        "status": {
            "phase": "Succeeded" if succeeded else "Failed",
            "conditions": _conditions(now_text, ready=False, reason=reason),
            "containerStatuses": _containers(pod, last, restarts, {}, ready=False),
        }
    }


def never_started(now: float) -> Json:
    """The state of a container that a deletion came before, as kubelet's TerminatePod writes it."""
    unknown = termination(now, now, TERMINATED)
    unknown["terminated"]["reason"] = "ContainerStatusUnknown"
    return unknown


def termination(started_at: float, now: float, exit_code: int) -> Json:
    """A container state that ended at `now`."""
    return {
        "terminated": {
            "exitCode": exit_code,
            "reason": "Completed" if exit_code == 0 else "Error",
            "startedAt": timestamp(started_at),
            "finishedAt": timestamp(now),
        }
    }


def _waiting(pod: UnstructuredObject, host_ip: str, now: float, why: Json) -> Json:
    status = _status(pod, host_ip, now, "Pending", ready=False, reason="ContainersNotReady")
    status["containerStatuses"] = _containers(pod, {"waiting": why}, 0, {}, ready=False)
    return {"status": status}


def _status(
    pod: UnstructuredObject, host_ip: str, now: float, phase: str, *, ready: bool, reason: str = ""
) -> Json:
    return {
        "phase": phase,
        "startTime": pod.status.get("startTime") or timestamp(now),
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "conditions": [
            {"type": "Initialized", "status": "True", "lastTransitionTime": timestamp(now)},
            *_conditions(timestamp(now), ready=ready, reason=reason),
        ],
    }


def _conditions(now: str, *, ready: bool, reason: str) -> list[Json]:
    state: Json = {"status": "True" if ready else "False", "lastTransitionTime": now}
    # null removes the reason that an earlier report gave.
    state["reason"] = reason or None
    return [{"type": kind, **state} for kind in ("ContainersReady", "Ready")]


def _containers(
    pod: UnstructuredObject, state: Json, restarts: int, last: Json, *, ready: bool
) -> list[Json]:
    return [
        {
            "name": container["name"],
            "image": container.get("image", ""),
            "imageID": f"simulated://{container.get('image', '')}",
            "containerID": f"simulated://{pod.uid}/{container['name']}/{restarts}",
            "ready": ready,
            "started": "running" in state,
            "restartCount": restarts,
            "state": state,
            "lastState": last,
        }
        for container in pod.spec.get("containers") or []
    ]


def _init_containers(pod: UnstructuredObject, now: float) -> list[Json]:
    """Init containers take no time; those with restartPolicy Always (sidecars) go on running."""
    done = termination(now, now, 0)
    going = {"running": {"startedAt": timestamp(now)}}
    return [
        {
            "name": container["name"],
            "image": container.get("image", ""),
            "imageID": f"simulated://{container.get('image', '')}",
            "ready": True,
            "started": container.get("restartPolicy") == "Always",
            "restartCount": 0,
            "state": going if container.get("restartPolicy") == "Always" else done,
            "lastState": {},
        }
        for container in pod.spec.get("initContainers") or []
    ]
