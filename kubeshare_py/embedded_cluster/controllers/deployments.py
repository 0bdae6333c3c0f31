"""What a Deployment's controller changes: a ReplicaSet for its template, sizes, its status.

After https://kubernetes.io/docs/concepts/workloads/controllers/deployment/: rolling updates and
recreation, scaling, pauses, revisions and their history, progress deadlines.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from kubeshare_py.embedded_cluster.controllers.controller import (
    Change,
    ControllerCache,
    ControllerEvent,
    ControllerRole,
    ControllerWork,
    Creation,
    Deletion,
    Dependents,
    MaybeObject,
    OwnershipClaim,
    changed_annotations,
    claim,
    status_patch,
)
from kubeshare_py.embedded_cluster.controllers.rollouts import (
    RECREATE,
    REVISION,
    Limits,
    Revisions,
    Sizes,
    active,
    count,
    first_size,
    is_scaling,
    limits_of,
    new_annotations,
    new_set,
    noted_sizes,
    revision,
    revisions_of,
    rolling_sizes,
    scaled_sizes,
    set_name,
    size,
)
from kubeshare_py.embedded_cluster.controllers.unstructured import (
    DEPLOYMENTS,
    PODS,
    REPLICA_SETS,
    Json,
    ObjectKind,
    UnstructuredObject,
    condition_of,
    is_finished,
)
from kubeshare_py.embedded_cluster.protocol.times import timestamp
from kubeshare_py.views.ages import seconds

# The status of a Deployment: counts, availability, and progress.


NEW_SET_AVAILABLE, TIMED_OUT = "NewReplicaSetAvailable", "ProgressDeadlineExceeded"
_PAUSED, _RESUMED = "DeploymentPaused", "DeploymentResumed"
_AVAILABLE, _PROGRESSING, _FAILURE = "Available", "Progressing", "ReplicaFailure"
_NO_DEADLINE = 2**31 - 1
_ENOUGH = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
_TOO_FEW = (
    "False",
    "MinimumReplicasUnavailable",
    "Deployment does not have minimum availability.",
)

#: Status, reason and message of a condition.
ConditionText = tuple[str, str, str]


def counted_status(
    deployment: UnstructuredObject, found: Revisions, limits: Limits, now: float
) -> Json:
    """The status without progress."""
    available = sum(count(one, "availableReplicas") for one in found.all)
    counts = {
        "observedGeneration": deployment.metadata.generation,
        "replicas": sum(count(one, "replicas") for one in found.all),
        "updatedReplicas": count(found.new, "replicas") if found.new is not None else 0,
        "readyReplicas": sum(count(one, "readyReplicas") for one in found.all),
        "availableReplicas": available,
        "unavailableReplicas": max(sum(map(size, found.all)) - available, 0),
        "collisionCount": deployment.status.get("collisionCount", 0),
    }
    text = _ENOUGH if available >= limits.least_available else _TOO_FEW
    conditions = with_condition(_conditions(deployment), _AVAILABLE, text, now)
    return {
        **{name: number for name, number in counts.items() if number},
        "terminatingReplicas": sum(count(one, "terminatingReplicas") for one in found.all),
        "conditions": conditions,
    }


def with_progress(
    deployment: UnstructuredObject, status: Json, found: Revisions, limits: Limits, now: float
) -> Json:
    """The status with the progress of an ongoing rollout."""
    conditions = status["conditions"]
    before = progressing(deployment)
    if not has_deadline(deployment):
        conditions = _without(conditions, _PROGRESSING)
    elif not _was_complete(status, before):
        text = _progress(deployment, status, found, limits, now)
        if text is not None:
            # Continuing progress is reported with its new time.
            renewed = text[1] == "ReplicaSetUpdated" and before.get("status") == "True"
            change = _renewed if renewed else with_condition
            conditions = change(conditions, _PROGRESSING, text, now)
    conditions = _without(conditions, _FAILURE)
    failure = _failure([found.new, *found.old] if found.new else found.old)
    if failure is not None:
        conditions = [*conditions, failure]
    return {**status, "conditions": conditions}


def is_complete(status: Json, limits: Limits, generation: int) -> bool:
    """Whether all replicas are new and available, and no old ones are left."""
    names = ("updatedReplicas", "replicas", "availableReplicas")
    return all(status.get(name, 0) == limits.wanted for name in names) and (
        status.get("observedGeneration", 0) >= generation
    )


def progressing(deployment: UnstructuredObject) -> Json:
    """The Progressing condition; {} if there is none."""
    return condition_of(deployment, _PROGRESSING)


def has_deadline(deployment: UnstructuredObject) -> bool:
    """Whether there is a progress deadline."""
    return bool(deployment.spec.get("progressDeadlineSeconds", _NO_DEADLINE) != _NO_DEADLINE)


def deadline(deployment: UnstructuredObject) -> float:
    """When a rollout without progress is given up, as Unix time (s)."""
    updated = progressing(deployment).get("lastUpdateTime")
    started = seconds(updated) if updated else 0.0
    return started + float(deployment.spec["progressDeadlineSeconds"])


def pause_condition(deployment: UnstructuredObject) -> ConditionText | None:
    """The condition of a pause that began or ended; None if there was no change."""
    if not has_deadline(deployment):
        return None
    reason = progressing(deployment).get("reason")
    if reason == TIMED_OUT:
        return None
    if deployment.spec.get("paused") and reason != _PAUSED:
        return "Unknown", _PAUSED, "Deployment is paused"
    if not deployment.spec.get("paused") and reason == _PAUSED:
        return "Unknown", _RESUMED, "Deployment is resumed"
    return None


def with_progressing(status: Json, text: ConditionText, now: float) -> Json:
    """The status with another Progressing condition."""
    conditions = with_condition(status.get("conditions") or [], _PROGRESSING, text, now)
    return {**status, "conditions": conditions}


def with_condition(
    conditions: list[Json], kind: str, text: ConditionText, now: float
) -> list[Json]:
    """Set a condition, unless it is set already; a new message alone is no change."""
    before = next((one for one in conditions if one["type"] == kind), {})
    if (before.get("status"), before.get("reason")) == text[:2]:
        return conditions
    return _renewed(conditions, kind, text, now)


def _renewed(conditions: list[Json], kind: str, text: ConditionText, now: float) -> list[Json]:
    status, reason, message = text
    before = next((one for one in conditions if one["type"] == kind), {})
    changed = before.get("lastTransitionTime") if before.get("status") == status else None
    fresh = {
        "type": kind,
        "status": status,
        "lastUpdateTime": timestamp(now),
        "lastTransitionTime": changed or timestamp(now),
        "reason": reason,
        "message": message,
    }
    return [*_without(conditions, kind), fresh]


def _progress(
    deployment: UnstructuredObject, status: Json, found: Revisions, limits: Limits, now: float
) -> ConditionText | None:
    name = deployment.metadata.name
    what = f'ReplicaSet "{found.new.metadata.name}"' if found.new else f'Deployment "{name}"'
    if is_complete(status, limits, deployment.metadata.generation):
        return "True", NEW_SET_AVAILABLE, f"{what} has successfully progressed."
    if _has_progressed(deployment.status, status):
        return "True", "ReplicaSetUpdated", f"{what} is progressing."
    before = progressing(deployment)
    if before and before.get("reason") != NEW_SET_AVAILABLE and deadline(deployment) < now:
        return "False", TIMED_OUT, f"{what} has timed out progressing."
    return None


def _has_progressed(before: Json, status: Json) -> bool:
    def old(one: Json) -> int:
        return int(one.get("replicas", 0) - one.get("updatedReplicas", 0))

    grown = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return old(status) < old(before) or any(
        status.get(name, 0) > before.get(name, 0) for name in grown
    )


def _was_complete(status: Json, before: Json) -> bool:
    only_new = status.get("replicas", 0) == status.get("updatedReplicas", 0)
    return only_new and before.get("reason") == NEW_SET_AVAILABLE


def _failure(sets: Sequence[UnstructuredObject]) -> Json | None:
    found = [condition for one in sets if (condition := condition_of(one, _FAILURE))]
    return {**found[0], "lastUpdateTime": found[0]["lastTransitionTime"]} if found else None


def _without(conditions: Sequence[Json], kind: str) -> list[Json]:
    return [one for one in conditions if one["type"] != kind]


def _conditions(deployment: UnstructuredObject) -> list[Json]:
    return list(deployment.status.get("conditions") or [])


_NO_LIMIT = 2**31 - 1
#: Added to the deadline, so that whole seconds cannot hide that it has passed.
_SECOND = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentContext:
    """Other inputs: used names of ReplicaSets, whether pods of one run, the time."""

    names: frozenset[str]
    has_pods: Callable[[UnstructuredObject], bool]
    now: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The next step. `first` is the size of a new ReplicaSet."""

    sizes: Sizes
    first: int | None = None
    rollout: bool = True
    tidy: bool = False


def work_for(
    deployment: UnstructuredObject, claim: OwnershipClaim, around: DeploymentContext
) -> ControllerWork:
    """The changes that bring a Deployment and its ReplicaSets nearer to its template.

    `claim` has the ReplicaSets that the Deployment's selector claims.
    """
    found = revisions_of(deployment, claim.objects)
    limits = limits_of(deployment.spec)
    if deployment.metadata.deletionTimestamp is not None:
        counted = counted_status(deployment, found, limits, around.now)
        return ControllerWork(change=claim.changes, status=status_patch(deployment, counted))
    plan = _plan(deployment, found, limits, around)
    present = _present(deployment, found, around.now)
    status = counted_status(present, found, limits, around.now)
    if plan.first is not None:
        return _beginning(deployment, found, status, plan.first, around)
    if plan.rollout:
        status = with_progress(present, status, found, limits, around.now)
    annotations = new_annotations(deployment, found) if found.new is not None else {}
    noted = {REVISION: annotations[REVISION]} if REVISION in annotations else {}
    return ControllerWork(
        change=(*claim.changes, *_changes(deployment, found, limits, plan.sizes, annotations)),
        delete=_outdated(deployment, found) if plan.tidy else (),
        status=status_patch(deployment, status, noted),
        look_at=_look_at(deployment, status, limits),
    )


def _present(deployment: UnstructuredObject, found: Revisions, now: float) -> UnstructuredObject:
    """The Deployment with the condition of a pause, or of an existing ReplicaSet."""
    text = pause_condition(deployment)
    is_new = has_deadline(deployment) and not progressing(deployment)
    if text is None and is_new and found.new is not None:
        name = found.new.metadata.name
        text = ("True", "FoundNewReplicaSet", f'Found new replica set "{name}"')
    if text is None:
        return deployment
    status = with_progressing(deployment.status, text, now)
    return msgspec.structs.replace(deployment, status=status)


def _plan(
    deployment: UnstructuredObject, found: Revisions, limits: Limits, around: DeploymentContext
) -> _Plan:
    spec = deployment.spec
    paused = bool(spec.get("paused"))
    if paused or is_scaling(limits, found.all):
        sizes = scaled_sizes(spec, limits, found.new, found.old)
        return _Plan(sizes=sizes, rollout=False, tidy=paused)
    if spec["strategy"]["type"] == RECREATE:
        return _recreation(deployment, found, limits, around)
    if found.new is None:
        return _Plan(sizes={}, first=first_size(limits, found.old))
    sizes = rolling_sizes(limits, found.new, found.old)
    return _Plan(sizes=sizes, tidy=not sizes and _is_done(deployment, limits))


def _recreation(
    deployment: UnstructuredObject, found: Revisions, limits: Limits, around: DeploymentContext
) -> _Plan:
    """Remove old pods first; the new ones wait until they are gone."""
    if live := active(found.old):
        return _Plan(sizes={one.uid: 0 for one in live})
    if any(count(one, "replicas") or around.has_pods(one) for one in found.old):
        return _Plan(sizes={})
    if found.new is None:
        return _Plan(sizes={}, first=limits.wanted)
    return _Plan(sizes={found.new.uid: limits.wanted}, tidy=_is_done(deployment, limits))


def _is_done(deployment: UnstructuredObject, limits: Limits) -> bool:
    return is_complete(deployment.status, limits, deployment.metadata.generation)


def _beginning(
    deployment: UnstructuredObject,
    found: Revisions,
    status: Json,
    first: int,
    around: DeploymentContext,
) -> ControllerWork:
    """Begin a new revision. A name that is in use needs another hash."""
    collisions = deployment.status.get("collisionCount", 0)
    name = set_name(deployment, collisions)
    if name in around.names:
        status = {**status, "collisionCount": collisions + 1}
        return ControllerWork(status=status_patch(deployment, status))
    limits = limits_of(deployment.spec)
    annotations = new_annotations(deployment, found)
    body = new_set(deployment, {**annotations, **noted_sizes(limits)}, first, collisions)
    refused = f'Failed to create new replica set "{name}": {{error}}'
    creation = Creation(
        body=body,
        made=_scaling(0, first) if first else None,
        refused=ControllerEvent("Warning", "ReplicaSetCreateError", refused),
    )
    if has_deadline(deployment):
        text = ("True", "NewReplicaSetCreated", f'Created new replica set "{name}"')
        status = with_progressing(status, text, around.now)
    noted = {REVISION: annotations[REVISION]}
    return ControllerWork(create=(creation,), status=status_patch(deployment, status, noted))


def _changes(
    deployment: UnstructuredObject,
    found: Revisions,
    limits: Limits,
    sizes: Sizes,
    annotations: dict[str, str],
) -> tuple[Change, ...]:
    changes = []
    for one in found.all:
        wanted = annotations if one is found.new else {}
        spec: Json = {}
        done = None
        if one.uid in sizes:
            wanted = {**wanted, **noted_sizes(limits)}
            if sizes[one.uid] != size(one):
                spec["replicas"] = sizes[one.uid]
                done = _scaling(size(one), sizes[one.uid])
        ready_s = deployment.spec.get("minReadySeconds", 0)
        if one is found.new and one.spec.get("minReadySeconds", 0) != ready_s:
            spec["minReadySeconds"] = ready_s
        noted = changed_annotations(one, wanted)
        body = {"metadata": {"annotations": noted}} if noted else {}
        if spec:
            body["spec"] = spec
        if body:
            changes.append(Change(object=one, body=body, done=done))
    return tuple(changes)


def _outdated(deployment: UnstructuredObject, found: Revisions) -> tuple[Deletion, ...]:
    """Empty ReplicaSets beyond the history that is kept, the oldest revisions first."""
    limit = deployment.spec.get("revisionHistoryLimit", _NO_LIMIT)
    kept = [one for one in found.old if one.metadata.deletionTimestamp is None]
    surplus = sorted(kept, key=revision)[: max(len(kept) - limit, 0)]
    return tuple(
        Deletion(object=one)
        for one in surplus
        if not size(one)
        and not count(one, "replicas")
        and count(one, "observedGeneration") >= one.metadata.generation
    )


def _scaling(before: int, after: int) -> ControllerEvent:
    way = "up" if after > before else "down"
    text = f"Scaled {way} replica set {{name}} from {before} to {after}"
    return ControllerEvent("Normal", "ScalingReplicaSet", text)


def _look_at(deployment: UnstructuredObject, status: Json, limits: Limits) -> float | None:
    """When the progress deadline of an ongoing rollout will have passed."""
    before = progressing(deployment)
    if not before or not has_deadline(deployment) or before.get("reason") == TIMED_OUT:
        return None
    if is_complete(status, limits, deployment.metadata.generation):
        return None
    return deadline(deployment) + _SECOND


# Deployments, their ReplicaSets and the pods of these, as the Deployment controller saw them.


class DeploymentCache(ControllerCache):
    """Pods matter only to Deployments that wait for the last old one."""

    role = ControllerRole(
        component="deployment-controller",
        owner=DEPLOYMENTS,
        dependents=REPLICA_SETS,
        watched=(DEPLOYMENTS, REPLICA_SETS, PODS),
    )
    adopts = True

    def __init__(self) -> None:
        super().__init__()
        self._pods = Dependents(REPLICA_SETS.kind, self._pods_changed)

    def work_for(self, owner: UnstructuredObject, now: float) -> ControllerWork:
        """What a Deployment needs."""
        namespace = owner.metadata.namespace
        owned, unowned = self.dependents.of(owner.uid), self.dependents.unowned(namespace)
        around = DeploymentContext(
            names=self.dependents.names(namespace), has_pods=self._has_pods, now=now
        )
        return work_for(owner, claim(owner, DEPLOYMENTS, owned, unowned), around)

    def changed(self, kind: ObjectKind, before: MaybeObject, after: MaybeObject) -> None:
        """Take in pods."""
        if kind == PODS and after is not None:
            self._pods.seen(after)
        elif kind == PODS and before is not None:
            self._pods.gone(before.uid)
            self._pods.all_answered()  # this controller creates no pods

    def _has_pods(self, replica_set: UnstructuredObject) -> bool:
        return any(not is_finished(pod) for pod in self._pods.of(replica_set.uid))

    def _pods_changed(self, replica_set: str) -> None:
        for uid, owner in self.owners.items():
            waits = owner.spec.get("strategy", {}).get("type") == RECREATE
            if waits and any(one.uid == replica_set for one in self.dependents.of(uid)):
                self.look_again(uid)
