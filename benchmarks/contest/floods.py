"""Floods: what one tenant may do to others, as pods in its namespace and changes of them.

Each has at most 2,000 pods. Rates are a second; what the API server cannot take arrives later.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from benchmarks.contest.cluster import node_names
from kubeshare_py.configuration.scheduler import SCHEDULER_NAME

NAMESPACE, VICTIM = "flood", "victim"
#: Names of PriorityClasses that the cluster of a flood has.
LOW, HIGH = "low", "high"

_HALF = {"sharedgpu/gpu_request": "0.5", "sharedgpu/gpu_limit": "1.0"}
#: What manifests/pods/placement.py allows a pod.
_TERMS, _VALUES_OF_A_TERM = 500, 10
_GANG = 10
_PREEMPTED, _NODES = 500, 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Flood:
    """`before` pods exist when it is measured, and are bound if they `fit`.

    `pods` come at `rate`, `edits` change the pods of before.

    `pod` and `edit` write the body number n of a pod, and of a merge patch of a pod. The victim's
    pods are of the PriorityClass `rival`.
    """

    name: str
    pod: Callable[[int], bytes]
    before: int = 0
    fit: bool = False
    pods: int = 0
    rate: float = 0.0
    edits: float = 0.0
    edit: Callable[[int], Mapping[str, Any]] = field(default=lambda _: {})
    rival: str | None = None


def _pod(number: int, name: str = NAMESPACE, **changes: Any) -> bytes:
    """A pod of half a card; `changes` are parts of the spec, labels, requests, environment."""
    requests = {"cpu": "100m", "memory": "1Gi"} | changes.pop("requests", {})
    metadata = {
        "name": f"{name}-{number:06}",
        "labels": _HALF | changes.pop("labels", {}),
    }
    environment = changes.pop("environment", [])
    container = {"name": "main", "image": "busybox", "resources": {"requests": requests}}
    spec = {
        "schedulerName": SCHEDULER_NAME, "containers": [container | {"env": environment}],
    } | changes  # fmt: skip
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return msgspec.json.encode(body)


def _too_large(number: int) -> dict[str, str]:
    """Requests that no node can serve, of a shape of its own."""
    return {"cpu": f"{200_000 + number}"}


def _affinity(number: int, terms: int, values: int) -> dict[str, Any]:
    selected = [
        {
            "matchExpressions": [
                {
                    "key": "zone",
                    "operator": "In",
                    "values": [f"{number}-{term}-{value}" for value in range(values)],
                }
            ]
        }
        for term in range(terms)
    ]
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": selected}
        }
    }


def _other(number: int) -> bytes:
    return _pod(number, schedulerName="no-scheduler", requests=_too_large(number))


def _shape(number: int) -> bytes:
    return _pod(number, requests=_too_large(number))


def _costly(number: int) -> bytes:
    return _pod(number, affinity=_affinity(number, _TERMS, _VALUES_OF_A_TERM))


def _large(number: int) -> bytes:
    """Of 330 KB in an affinity, beyond what is looked at, and of 400 KB of environment."""
    if number % 2:
        return _pod(number, affinity=_affinity(number, 20, 2000))
    environment = [{"name": f"V{one}", "value": "x" * 4000} for one in range(100)]
    return _pod(number, requests=_too_large(number), environment=environment)


def _patterns(number: int) -> dict[str, Any]:
    """Model patterns that match nothing, as many and with as many stars as there may be."""
    models = ", ".join(f"*{number}*{one}*x*" for one in range(16))
    return {"metadata": {"annotations": {"sharedgpu/gpu_models": models}}}


def _gang_member(number: int) -> bytes:
    """One of 10 of a gang of 11: it never starts."""
    labels = {
        "sharedgpu/group_name": f"gang-{number // _GANG}",
        "sharedgpu/group_headcount": str(_GANG + 1),
        "sharedgpu/group_threshold": "1.0",
    }
    return _pod(number, labels=labels, requests={"cpu": f"{100 + number // _GANG}m"})


def _full_gang_member(number: int) -> bytes:
    """One of 10 of a gang that is whole and does not fit: planned again and again."""
    labels = {
        "sharedgpu/group_name": f"gang-{number // _GANG}",
        "sharedgpu/group_headcount": str(_GANG),
        "sharedgpu/group_threshold": "1.0",
    }
    # The last member of each does not fit anywhere.
    requests = _too_large(number) if number % _GANG == _GANG - 1 else {"cpu": f"{100 + number}m"}
    return _pod(number, labels=labels, requests=requests)


def _preemptor(number: int) -> bytes:
    """One of those that give way, or one that asks for the whole of one of their nodes."""
    where = _on_first_nodes()
    if number < _PREEMPTED:
        return _pod(number, priorityClassName=LOW, affinity=where)
    labels = {"sharedgpu/gpu_request": "8", "sharedgpu/gpu_limit": "8"}
    requests = {"cpu": f"{60_000 + number}m"}
    return _pod(number, labels=labels, priorityClassName=HIGH, requests=requests, affinity=where)


def _on_first_nodes() -> dict[str, Any]:
    name = {"key": "kubernetes.io/hostname", "operator": "In", "values": node_names(_NODES)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [name]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _news(number: int) -> dict[str, Any]:
    return {"metadata": {"annotations": {"example.com/step": str(number)}}}


FLOODS = (
    Flood(name="rest", pod=_other),
    # What the API server and the cores cost by themselves: pods that are not ours.
    Flood(name="others' pods", pod=_other, pods=2000, rate=100),
    Flood(name="shapes", pod=_shape, pods=2000, rate=100),
    Flood(name="costly shapes", pod=_costly, pods=400, rate=20),
    Flood(name="large pods", pod=_large, pods=80, rate=4),
    Flood(name="edits", pod=_shape, before=30, edits=136, edit=_patterns),
    Flood(name="gangs that lack one", pod=_gang_member, pods=2000, rate=100),
    Flood(name="gangs that do not fit", pod=_full_gang_member, pods=2000, rate=100),
    Flood(
        name="preemptors",
        pod=_preemptor,
        before=_PREEMPTED,
        fit=True,
        pods=1500,
        rate=75,
        rival=HIGH,
    ),
    Flood(name="events", pod=_pod, before=200, fit=True, edits=300, edit=_news),
)


def victim(number: int, flood: Flood) -> bytes:
    """Write one of the victim's pods."""
    return _pod(number, VICTIM, priorityClassName=flood.rival)
