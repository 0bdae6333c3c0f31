"""The work for a ReplicaSet: pods to create, delete, adopt or release, and its status.

After https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/. Left out: the slow
start of many pods.
"""

import copy
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kubeshare_py.embedded_cluster.controllers.controller_work import (
    ControllerWork,
    Creation,
    Deletion,
    new_pod,
    status_patch,
    surplus_pod,
)
from kubeshare_py.embedded_cluster.controllers.object_kinds import REPLICA_SETS
from kubeshare_py.embedded_cluster.controllers.ownership import OwnershipClaim, reference_to
from kubeshare_py.embedded_cluster.controllers.unstructured import (
    Json,
    UnstructuredObject,
    is_finished,
    is_ready,
    phase,
    ready_since,
)
from kubeshare_py.embedded_cluster.protocol.label_selectors import selects
from kubeshare_py.embedded_cluster.protocol.times import timestamp
from kubeshare_py.views.ages import seconds

_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
_FAILURE = "ReplicaFailure"
_NANOSECONDS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSetContext:
    """Other inputs: pods of the same controller, the time, and earlier refusals."""

    siblings: Callable[[], Sequence[UnstructuredObject]]
    now: float
    refusal: str | None = None
    may_try: bool = True


def is_active(pod: UnstructuredObject) -> bool:
    """Whether a pod has neither ended nor is being deleted."""
    return not is_finished(pod) and pod.metadata.deletionTimestamp is None


def work_for(
    replica_set: UnstructuredObject, claim: OwnershipClaim, around: ReplicaSetContext
) -> ControllerWork:
    """The work for `replica_set`, given the pods that its selector claims."""
    active = [pod for pod in claim.objects if is_active(pod)]
    missing = replica_set.spec.get("replicas", 1) - len(active)
    create: tuple[Creation, ...] = ()
    delete: tuple[Deletion, ...] = ()
    if replica_set.metadata.deletionTimestamp is None and around.may_try:
        create = tuple(new_pod(_pod_of(replica_set)) for _ in range(missing))
        surplus = _least_wanted(active, around)[:-missing] if missing < 0 else []
        delete = tuple(surplus_pod(pod) for pod in surplus)
    status = _status(replica_set, claim.objects, around, missing)
    return ControllerWork(
        create=create,
        delete=delete,
        change=claim.changes,
        status=status_patch(replica_set, status),
        look_at=_next_available_at(replica_set, active, around.now),
    )


def available(pod: UnstructuredObject, for_s: int, now: float) -> bool:
    """Whether a pod has been ready for `for_s` (s)."""
    return is_ready(pod) and (not for_s or ready_since(pod) + for_s <= now)


def _pod_of(replica_set: UnstructuredObject) -> Json:
    template = copy.deepcopy(replica_set.spec.get("template") or {})
    given = template.get("metadata") or {}
    metadata: Json = {name: given[name] for name in ("labels", "annotations") if name in given}
    metadata |= {
        "generateName": f"{replica_set.metadata.name}-",
        "namespace": replica_set.metadata.namespace,
        "ownerReferences": [reference_to(replica_set, REPLICA_SETS)],
    }
    spec = template.get("spec") or {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _least_wanted(
    active: Sequence[UnstructuredObject], around: ReplicaSetContext
) -> list[UnstructuredObject]:
    """Pods in the order in which they are deleted.

    Not bound, not running, not ready first; then cheap ones, those with many of their kind on the
    node, those ready for a short time, often restarted, young.
    """
    crowds = Counter(pod.spec.get("nodeName") for pod in around.siblings() if is_active(pod))

    def rank(pod: UnstructuredObject) -> tuple[object, ...]:
        return (
            bool(pod.spec.get("nodeName")),
            _PHASES.get(phase(pod), 1),
            is_ready(pod),
            _deletion_cost(pod),
            -crowds[pod.spec.get("nodeName")],
            _age_class(ready_since(pod), around.now) if is_ready(pod) else 0,
            -sum(one.get("restartCount", 0) for one in pod.status.get("containerStatuses") or []),
            _age_class(seconds(pod.metadata.creationTimestamp), around.now)
            if pod.metadata.creationTimestamp
            else 0,
            pod.uid,
        )

    return sorted(active, key=rank)


def _deletion_cost(pod: UnstructuredObject) -> int:
    text = (pod.metadata.annotations or {}).get(_DELETION_COST, "0")
    try:
        return int(text)
    except ValueError:
        return 0


def _age_class(since: float, now: float) -> int:
    """The order of magnitude of an age, which alone counts."""
    return int(max(now - since, 0) * _NANOSECONDS).bit_length()


def _status(
    replica_set: UnstructuredObject,
    pods: Sequence[UnstructuredObject],
    around: ReplicaSetContext,
    missing: int,
) -> Json:
    active = [pod for pod in pods if is_active(pod)]
    ready_s = replica_set.spec.get("minReadySeconds", 0)
    template = (replica_set.spec.get("template") or {}).get("metadata") or {}
    labelled = selects({"matchLabels": template.get("labels")})
    counts = {
        "fullyLabeledReplicas": sum(labelled(pod.metadata.labels) for pod in active),
        "readyReplicas": sum(is_ready(pod) for pod in active),
        "availableReplicas": sum(available(pod, ready_s, around.now) for pod in active),
        "observedGeneration": replica_set.metadata.generation,
    }
    leaving = [pod for pod in pods if pod.metadata.deletionTimestamp is not None]
    status: Json = {
        "replicas": len(active),
        **{name: count for name, count in counts.items() if count},
        "terminatingReplicas": sum(not is_finished(pod) for pod in leaving),
    }
    if conditions := _conditions(replica_set, around, missing):
        status["conditions"] = conditions
    return status


def _conditions(
    replica_set: UnstructuredObject, around: ReplicaSetContext, missing: int
) -> list[Json]:
    present: list[Json] = replica_set.status.get("conditions") or []
    others = [one for one in present if one["type"] != _FAILURE]
    if around.refusal is None:
        return others
    if len(others) < len(present):
        return present
    failure = {
        "type": _FAILURE,
        "status": "True",
        "lastTransitionTime": timestamp(around.now),
        "reason": "FailedCreate" if missing > 0 else "FailedDelete",
        "message": around.refusal,
    }
    return [*others, failure]


def _next_available_at(
    replica_set: UnstructuredObject, active: Sequence[UnstructuredObject], now: float
) -> float | None:
    """When the next pod becomes available."""
    ready_s = replica_set.spec.get("minReadySeconds", 0)
    times = (ready_since(pod) + ready_s for pod in active if is_ready(pod))
    return min((time for time in times if time > now), default=None) if ready_s else None
