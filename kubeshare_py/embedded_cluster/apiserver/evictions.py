"""POST pods/{name}/eviction: a DELETE that needs the permission of the pod's disruption budget.

As measured on kube-apiserver 1.36: pods that are pending, finished or already being deleted need no
budget; a granted eviction uses one disruption, even if the deletion is then refused.
"""

from kubeshare_py.embedded_cluster.apiserver.bodies import decode_part
from kubeshare_py.embedded_cluster.apiserver.creation import is_dry_run
from kubeshare_py.embedded_cluster.apiserver.deletion import PODS, delete_entry
from kubeshare_py.embedded_cluster.apiserver.reads import existing
from kubeshare_py.embedded_cluster.controllers.budgets import ALLOWED, FAILED, allowed_condition
from kubeshare_py.embedded_cluster.kinds.budgets import ALWAYS_ALLOW, BUDGETS
from kubeshare_py.embedded_cluster.protocol.label_selectors import selects
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
from kubeshare_py.embedded_cluster.protocol.store import ApiStore, StoredObject
from kubeshare_py.embedded_cluster.protocol.times import timestamp

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
        _check_preconditions(entry.object["metadata"], options.get("preconditions") or {})
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
            _check(budget)
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


def _check(budget: Json) -> None:
    """Refuse with 429 unless the budget has a disruption left."""
    name, status = budget["metadata"]["name"], budget["status"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        why = f"The disruption budget {name} is still being processed by the server."
        raise _too_many(why, retry_s=_RETRY_S)
    if status["disruptionsAllowed"] <= 0:
        raise _too_many(f"The disruption budget {name} {_reason(status)}")


def _reason(status: Json) -> str:
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


def _check_preconditions(held: Json, wanted: Json) -> None:
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
