"""POST pods/binding, GET pods/log, and the streams, which are not offered here.

Binding as measured on kube-apiserver 1.36: one write sets spec.nodeName, merges the Binding's
annotations and labels, adds the node's topology labels, clears status.nominatedNodeName and sets
PodScheduled=True. Neither the node's existence, nor capacity, nor annotation keys are checked.
"""

from typing import Any

from kubeshare_py.embedded_cluster.apiserver.bodies import decode_part
from kubeshare_py.embedded_cluster.apiserver.creation import is_dry_run
from kubeshare_py.embedded_cluster.apiserver.deletion import PODS
from kubeshare_py.embedded_cluster.apiserver.reads import existing
from kubeshare_py.embedded_cluster.protocol.messages import ApiResponse, Call, json_response
from kubeshare_py.embedded_cluster.protocol.status import (
    ApiRefusal,
    Json,
    StatusSubject,
    bad_request,
    conflict,
    failure,
    success,
)
from kubeshare_py.embedded_cluster.protocol.times import timestamp

_TOPOLOGY = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def bind(call: Call) -> ApiResponse:
    """POST pods/{name}/binding; 201, or 409 with details.kind `pods` or `pods/binding`."""
    binding, warnings = decode_part(call.request, "Binding", "v1")
    metadata, target = binding.get("metadata", {}), binding.get("target", {})
    if metadata.get("namespace", call.namespace) != call.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if metadata.get("name") != call.name:
        raise bad_request("name in URL does not match name in Binding object")
    _check_target(target)
    pod = existing(call).object
    _check_preconditions(call.name, pod["metadata"], metadata)
    _check_unbound(call.name, pod)
    bound = _bound(call, pod, metadata, target["name"])
    if not is_dry_run(call):
        call.store.put(PODS, bound)
    return json_response(success(201), 201, warnings)


def log(call: Call) -> ApiResponse:
    """GET pods/{name}/log: one line, since no simulated container writes anything."""
    pod = existing(call).object
    if not pod["spec"].get("nodeName"):
        return ApiResponse(status=204, content_type="text/plain")
    text = f"{call.name}: simulated containers write no logs\n"
    return ApiResponse(body=text.encode(), content_type="text/plain")


def stream(call: Call) -> ApiResponse:
    """exec, attach, port-forward: refused, because there is no container."""
    pod = existing(call).object
    if not pod["spec"].get("nodeName"):
        raise bad_request(f"pod {call.name} does not have a host assigned")
    raise bad_request(f"simulated containers offer no {call.subresource}")


def _check_target(target: Json) -> None:
    problem = ""
    if target.get("kind", "Node") not in ("", "Node"):
        kind = target["kind"]
        problem = f'target.kind: Unsupported value: "{kind}": supported values: "Node", "<empty>"'
    elif not target.get("name"):
        problem = "target.name: Required value"
    if problem:
        raise ApiRefusal(failure(500, "", problem))


def _check_preconditions(name: str, held: Json, wanted: Json) -> None:
    for key, shown in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if key in wanted and wanted[key] != held[key]:
            raise conflict(
                StatusSubject("pods", name),
                f"Precondition failed: {shown} in precondition: {wanted[key]}, "
                f"{shown} in object meta: {held[key]}",
            )


def _check_unbound(name: str, pod: Json) -> None:
    why = ""
    if "deletionTimestamp" in pod["metadata"]:
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif pod["spec"].get("nodeName"):
        why = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
    elif pod["spec"].get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    if why:
        raise conflict(StatusSubject("pods/binding", name), why)


def _bound(call: Call, pod: Json, binding: Json, node: str) -> Json:
    metadata = dict(pod["metadata"])
    added = {
        "labels": {**_topology_labels(call, node), **binding.get("labels", {})},
        "annotations": binding.get("annotations", {}),
    }
    for part, entries in added.items():
        if entries:
            metadata[part] = {**metadata.get(part, {}), **entries}
    status = {k: v for k, v in pod.get("status", {}).items() if k != "nominatedNodeName"}
    status["conditions"] = _scheduled(status.get("conditions", []), call.now)
    spec = {**pod["spec"], "nodeName": node}
    return {**pod, "metadata": metadata, "spec": spec, "status": status}


def _topology_labels(call: Call, node: str) -> Json:
    entry = call.store.get("nodes.", "", node)
    labels = (entry.object["metadata"].get("labels") or {}) if entry else {}
    return {key: labels[key] for key in _TOPOLOGY if key in labels}


def _scheduled(conditions: list[Any], now: float) -> list[Any]:
    """PodScheduled=True in its old place, without the old reason and message."""
    fresh = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": timestamp(now),
    }
    kept = [fresh if held["type"] == "PodScheduled" else held for held in conditions]
    return kept if fresh in kept else [*kept, fresh]
