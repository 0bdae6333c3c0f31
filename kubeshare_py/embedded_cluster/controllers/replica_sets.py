"""What a ReplicaSet's controller changes: pods to create, delete or adopt, and its status.

After https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/. Left out: the slow
start of many pods.
"""

import copy
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from kubeshare_py.embedded_cluster.controllers.controller import (
    ControllerCache,
    ControllerRole,
    ControllerWork,
    Creation,
    Deletion,
    OwnershipClaim,
    body_of,
    claim,
    controller_of,
    new_pod,
    reference_to,
    status_patch,
    surplus_pod,
)
from kubeshare_py.embedded_cluster.controllers.unstructured import (
    PODS,
    REPLICA_SETS,
    Json,
    UnstructuredObject,
    is_finished,
    is_ready,
    phase,
    ready_since,
)
from kubeshare_py.embedded_cluster.protocol.selectors import selects
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
    """The changes that give a ReplicaSet its number of pods; `claim` has those that it selects."""
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
    return body_of(PODS, metadata, template.get("spec") or {})


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


# ReplicaSets and their pods as the ReplicaSet controller has seen them.


class ReplicaSetCache(ControllerCache):
    """A ReplicaSet whose pods were refused reports it in its status before it tries again."""

    role = ControllerRole(
        component="replicaset-controller",
        owner=REPLICA_SETS,
        dependents=PODS,
        watched=(REPLICA_SETS, PODS),
    )
    adopts = True

    def work_for(self, owner: UnstructuredObject, now: float) -> ControllerWork:
        """The changes that give a ReplicaSet its number of pods; see `replica_sets`."""
        unowned = self.dependents.unowned(owner.metadata.namespace)
        claimed = claim(owner, REPLICA_SETS, self.dependents.of(owner.uid), unowned)
        around = ReplicaSetContext(
            siblings=partial(self._siblings, owner),
            now=now,
            refusal=self.refusals.get(owner.uid),
            may_try=owner.uid not in self.resting,
        )
        return work_for(owner, claimed, around)

    def refused(self, uid: str, why: str) -> None:
        """Record that a pod was refused, which is reported at once."""
        super().refused(uid, why)
        self.look_again(uid)

    def _siblings(self, replica_set: UnstructuredObject) -> list[UnstructuredObject]:
        """The pods of all ReplicaSets of the same controller, its own included."""
        controller = controller_of(replica_set)
        if controller is None:
            return self.dependents.of(replica_set.uid)
        return [
            pod
            for uid, other in self.owners.items()
            if (found := controller_of(other)) is not None and found.uid == controller.uid
            for pod in self.dependents.of(uid)
        ]
