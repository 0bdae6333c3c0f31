"""The subresources of objects: binding, eviction, log and streams of pods, `/scale`."""

from typing import Any

import msgspec

from kubeshare_py.embedded_cluster.apiserver.bodies import (
    NotDecodable,
    decode_bytes,
    decode_part,
    media_type,
    prune_part,
)
from kubeshare_py.embedded_cluster.apiserver.reads import existing
from kubeshare_py.embedded_cluster.apiserver.writes import (
    PODS,
    change,
    check_preconditions,
    delete_entry,
    is_dry_run,
)
from kubeshare_py.embedded_cluster.controllers.budgets import ALLOWED, FAILED, allowed_condition
from kubeshare_py.embedded_cluster.kinds.workloads import ALWAYS_ALLOW, BUDGETS
from kubeshare_py.embedded_cluster.protocol.merge import PatchProblem, json_patch, merge_patch
from kubeshare_py.embedded_cluster.protocol.messages import ApiResponse, Call, json_response
from kubeshare_py.embedded_cluster.protocol.resources import Scale
from kubeshare_py.embedded_cluster.protocol.selectors import selects, value_at
from kubeshare_py.embedded_cluster.protocol.status import (
    ApiRefusal,
    Json,
    StatusSubject,
    bad_request,
    conflict,
    failure,
    invalid,
    not_found,
    success,
    unsupported_media_type,
    wrong,
)
from kubeshare_py.embedded_cluster.protocol.store import ApiStore, StoredObject
from kubeshare_py.embedded_cluster.protocol.times import timestamp

# POST pods/binding, GET pods/log, and the streams, which are not offered here.
#
# Binding as measured on kube-apiserver 1.36: one write sets spec.nodeName, merges the Binding's
# annotations and labels, adds the node's topology labels, clears status.nominatedNodeName and sets
# PodScheduled=True. Neither the node's existence, nor capacity, nor annotation keys are checked.


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
    check_preconditions(call, pod["metadata"], metadata)
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


# POST pods/{name}/eviction: a DELETE that needs the permission of the pod's disruption budget.
#
# As measured on kube-apiserver 1.36: pods that are pending, finished or already being deleted need
# no budget; a granted eviction uses one disruption, even if the deletion is then refused.


_UNGUARDED = ("Pending", "Succeeded", "Failed")
_TARGET = "DisruptionTarget"
_RETRY_S = 10
_REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
_SEVERAL = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
    "support."
)


def evict(call: Call) -> ApiResponse:
    """201, or 429 if a budget does not allow it, or 500 if several budgets apply."""
    eviction, _ = decode_part(call.request, "Eviction", "policy/v1")
    if eviction.get("metadata", {}).get("name") != call.name:
        raise bad_request("name in URL does not match name in Eviction object")
    options = dict(eviction.get("deleteOptions", {}))
    if is_dry_run(call):
        options["dryRun"] = ["All"]
    entry = existing(call)
    _ask_budget(call, entry.object, is_real=not options.get("dryRun"))
    if not options.get("dryRun"):
        _check_eviction_preconditions(entry.object["metadata"], options.get("preconditions") or {})
        entry = _marked(call, entry)
        # The mark is a write of our own.
        held = options.get("preconditions") or {}
        unversioned = {name: text for name, text in held.items() if name != "resourceVersion"}
        options["preconditions"] = unversioned
    delete_entry(call, entry, options)
    return json_response(success(201), 201)


def _ask_budget(call: Call, pod: Json, *, is_real: bool) -> None:
    """Use one disruption of the pod's budget if it needs one; refuses with 429 or 500."""
    phase = (pod.get("status") or {}).get("phase")
    if phase in _UNGUARDED or "deletionTimestamp" in pod["metadata"]:
        return
    budgets = _budgets_of(call.store, pod)
    if len(budgets) > 1:
        raise ApiRefusal(failure(500, "", _SEVERAL))
    for budget in budgets:
        if _is_ready(pod) or not _lets_unready_go(budget):
            _check_budget(budget)
            if is_real:
                taken = _with_one_less(budget, pod["metadata"]["name"], call.now)
                call.store.put(BUDGETS.store_bucket, taken)


def _budgets_of(store: ApiStore, pod: Json) -> list[Json]:
    metadata = pod["metadata"]
    found = store.entries(BUDGETS.store_bucket, metadata["namespace"])
    return [
        entry.object
        for entry in found
        if selects(entry.object["spec"].get("selector"))(metadata.get("labels"))
    ]


def _is_ready(pod: Json) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(one["type"] == "Ready" and one.get("status") == "True" for one in conditions)


def _lets_unready_go(budget: Json) -> bool:
    """Whether evicting an unready pod is no disruption: by the budget's policy, or its health."""
    if budget["spec"].get("unhealthyPodEvictionPolicy") == ALWAYS_ALLOW:
        return True
    status = budget["status"]
    return bool(status["currentHealthy"] >= status["desiredHealthy"] > 0)


def _check_budget(budget: Json) -> None:
    """Refuse with 429 unless the budget has a disruption left."""
    name, status = budget["metadata"]["name"], budget["status"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        why = f"The disruption budget {name} is still being processed by the server."
        raise _too_many(why, retry_s=_RETRY_S)
    if status["disruptionsAllowed"] <= 0:
        raise _too_many(f"The disruption budget {name} {_refused_reason(status)}")


def _refused_reason(status: Json) -> str:
    conditions = status.get("conditions") or []
    condition: Json = next((one for one in conditions if one.get("type") == ALLOWED), {})
    why = condition.get("message") if condition.get("status") == "False" else ""
    wanted, healthy = status["desiredHealthy"], status["currentHealthy"]
    if why and condition.get("reason") == FAILED:
        return f"does not allow evicting pods currently because it failed sync: {why}"
    if healthy <= wanted:
        return f"needs {wanted} healthy pods and has {healthy} currently"
    if why:
        return f"does not allow evicting pods currently ({condition.get('reason')}): {why}"
    return "does not allow evicting pods currently"


def _too_many(why: str, retry_s: int = 0) -> ApiRefusal:
    details: Json = {"causes": [{"reason": "DisruptionBudget", "message": why}]}
    headers = {}
    if retry_s:
        details["retryAfterSeconds"] = retry_s
        headers["Retry-After"] = str(retry_s)
    return ApiRefusal(failure(429, "TooManyRequests", _REFUSED, details), headers)


def _with_one_less(budget: Json, pod: str, now: float) -> Json:
    status = dict(budget["status"])
    status["disruptionsAllowed"] -= 1
    status["disruptedPods"] = {**status.get("disruptedPods", {}), pod: timestamp(now)}
    if not status["disruptionsAllowed"]:
        present = status.get("conditions") or []
        generation = status.get("observedGeneration", 0)
        others = [one for one in present if one.get("type") != ALLOWED]
        status["conditions"] = [*others, allowed_condition(present, status, generation, now)]
    return {**budget, "metadata": dict(budget["metadata"]), "status": status}


def _check_eviction_preconditions(held: Json, wanted: Json) -> None:
    for key, shown, more in (
        ("uid", "UID", "might have been deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "might have been modified"),
    ):
        if key in wanted and wanted[key] != held[key]:
            why = (
                f"the {shown} in the precondition ({wanted[key]}) does not match the {shown} in "
                f"record ({held[key]}). The object {more}"
            )
            raise conflict(StatusSubject("Pod", held["name"]), why)


def _marked(call: Call, entry: StoredObject) -> StoredObject:
    """The pod with a condition that says why it is evicted."""
    pod = entry.object
    fresh = {
        "type": _TARGET,
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": timestamp(call.now),
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    status = dict(pod.get("status") or {})
    conditions = status.get("conditions") or []
    if any(one["type"] == _TARGET and one.get("status") == "True" for one in conditions):
        return entry
    status["conditions"] = [*(one for one in conditions if one["type"] != _TARGET), fresh]
    return call.store.put(PODS, {**pod, "metadata": dict(pod["metadata"]), "status": status})


# `/scale`: the replicas of an object seen as an autoscaling/v1 Scale.


KIND, API_VERSION = "Scale", "autoscaling/v1"
_JSON_PATCH = "application/json-patch+json"
#: A Scale has no lists, so both kinds of merging are equal.
_MERGES = ("application/merge-patch+json", "application/strategic-merge-patch+json")
_IDENTITY = ("name", "namespace", "uid", "resourceVersion")
_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def get_scale(call: Call) -> ApiResponse:
    """The Scale of an object; 500 if a custom object has no replicas."""
    return json_response(_scale_of(call, existing(call)))


def update_scale(call: Call) -> ApiResponse:
    """PUT: only spec.replicas counts."""
    body, _ = decode_part(call.request, KIND, API_VERSION)
    return _change(call, existing(call), body)


def patch_scale(call: Call) -> ApiResponse:
    """PATCH: the patch is one of the Scale, not of the object. Raises ApiRefusal."""
    kind = media_type(call.request.content_type)
    merges = _MERGES[:1] if call.resource.definition else _MERGES
    if kind not in (_JSON_PATCH, *merges):
        raise unsupported_media_type((_JSON_PATCH, *merges))
    document = decode_bytes(call.request.body)
    entry = existing(call)
    original = _scale_of(call, entry, missing=0)
    try:
        patched = (json_patch if kind == _JSON_PATCH else merge_patch)(original, document)
    except PatchProblem as error:
        message = "the server rejected our request due to an error in our request"
        raise ApiRefusal(failure(422, "Invalid", message, {})) from error
    if not isinstance(patched, dict):
        raise bad_request("a patch must leave an object")
    try:
        body, _ = prune_part(patched, KIND, API_VERSION, call.option("fieldValidation"))
    except NotDecodable as problem:
        shown = msgspec.json.encode(patched).decode()
        raise invalid("", "", [wrong("patch", shown, str(problem))]) from problem
    return _change(call, entry, body)


def _scale_of(call: Call, entry: StoredObject, missing: int | None = None) -> Json:
    scale, obj = _paths(call), call.resource.present(entry.object)
    replicas = value_at(obj, scale.wanted)
    if replicas is None:
        replicas = missing
    if replicas is None:
        message = f'the spec replicas field ".{".".join(scale.wanted)}" does not exist'
        details = {"causes": [{"message": message}]}
        text = f"Internal error occurred: {message}"
        raise ApiRefusal(failure(500, "InternalError", text, details))
    metadata = obj["metadata"]
    status: Json = {"replicas": value_at(obj, scale.present) or 0}
    if selector := scale.selector(obj):
        status["selector"] = selector
    return {
        "kind": KIND,
        "apiVersion": API_VERSION,
        "metadata": {name: metadata[name] for name in _SHOWN if name in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _change(call: Call, entry: StoredObject, wanted: Json) -> ApiResponse:
    body = call.resource.present(msgspec.json.decode(entry.body()))
    holder = body
    *outer, last = _paths(call).wanted
    for step in outer:
        holder = holder.setdefault(step, {})
    replicas = wanted.get("spec", {}).get("replicas", 0)
    if replicas < 0 and not call.resource.definition:
        problem = wrong("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid(KIND, call.name, [problem], "autoscaling")
    holder[last] = replicas
    sent = wanted.get("metadata", {})
    body["metadata"] = {
        **body["metadata"],
        **{name: sent[name] for name in _IDENTITY if name in sent},
    }
    return json_response(_scale_of(call, change(call, entry, body)))


def _paths(call: Call) -> Scale:
    if call.resource.scale is None:
        raise not_found(call.resource.named(call.name))
    return call.resource.scale
