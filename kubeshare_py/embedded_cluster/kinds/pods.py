"""Pods: the fields that creation adds, allowed updates, quality of service.

Admission as on a default kube-apiserver: priority from its class, the default service account with
its token volume, the two NoExecute tolerations of 300 s.
"""

from typing import Any

from kubeshare_py.embedded_cluster.kinds.containers import (
    containers_of,
    default_pod_spec,
    pod_spec_causes,
)
from kubeshare_py.embedded_cluster.kinds.pod_placement import merge_label_keys
from kubeshare_py.embedded_cluster.kinds.priorities import admit_priority
from kubeshare_py.embedded_cluster.protocol.names import suffix
from kubeshare_py.embedded_cluster.protocol.resources import Admission
from kubeshare_py.embedded_cluster.protocol.status import Json, StatusCause, not_allowed
from kubeshare_py.embedded_cluster.protocol.times import default_times, timestamp

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


def prepare_pod(pod: Json, admission: Admission) -> None:
    """Admission on create; refuses an unknown priority class with 403."""
    spec = pod.setdefault("spec", {})
    admit_priority(pod, admission.store)
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
    default_pod(pod)
    merge_label_keys(pod)
    pod["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}
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


def default_pod(pod: Json) -> None:
    """Defaults that updates apply too; raises BadQuantity."""
    default_pod_spec(pod.setdefault("spec", {}))
    default_times(pod.get("status", {}), "lastProbeTime")


def pod_causes(pod: Json) -> list[StatusCause]:
    """Everything wrong with the spec."""
    return pod_spec_causes(pod["spec"], "spec")


def pod_update_causes(new: Json, old: Json) -> list[StatusCause]:
    """A pod's spec is fixed except images, tolerations, deadlines and gates."""
    causes = _gate_causes(new["spec"], old["spec"])
    if causes:
        return causes
    held = _with_changeable(new["spec"], old["spec"])
    return [] if held == old["spec"] else [not_allowed("spec", _CHANGED)]


def qos_class(spec: Json) -> str:
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


def _gate_causes(new: Json, old: Json) -> list[StatusCause]:
    held = {gate["name"] for gate in old.get("schedulingGates") or []}
    added = [g["name"] for g in new.get("schedulingGates") or [] if g.get("name") not in held]
    text = "only deletion is allowed, but found new scheduling gate"
    return [not_allowed("spec.schedulingGates", f"{text} '{name}'") for name in added]


def _with_changeable(new: Json, old: Json) -> Json:
    """The new spec with every field that may change set back to the old one."""
    held = dict(new)
    for part in ("containers", "initContainers"):
        if part in old and len(new.get(part) or []) == len(old[part]):
            held[part] = [
                {**mine, "image": theirs.get("image")} if mine.get("image") else mine
                for mine, theirs in zip(new[part], old[part], strict=True)
            ]
    if _only_added(old.get("tolerations") or [], new.get("tolerations") or []):
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


def _only_added(old: list[Any], new: list[Any]) -> bool:
    return all(entry in new for entry in old)


def _while_gated(new: Json, old: Json) -> tuple[str, ...]:
    """A gated pod's nodeSelector may grow and its affinity may be narrowed."""
    if not old.get("schedulingGates"):
        return ()
    held, wanted = old.get("nodeSelector") or {}, new.get("nodeSelector") or {}
    grows = all(wanted.get(key) == value for key, value in held.items())
    return ("nodeSelector", "affinity") if grows else ("affinity",)


def _lowered(old: int | None, new: int | None) -> bool:
    return new is not None and (old is None or new <= old)
