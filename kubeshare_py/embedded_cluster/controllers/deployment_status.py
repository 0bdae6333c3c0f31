"""The status of a Deployment: counts, availability, and progress."""

from collections.abc import Sequence

from kubeshare_py.embedded_cluster.controllers.revisions import Revisions
from kubeshare_py.embedded_cluster.controllers.rollouts import Limits, count, size
from kubeshare_py.embedded_cluster.controllers.unstructured import Json, UnstructuredObject
from kubeshare_py.embedded_cluster.protocol.times import timestamp
from kubeshare_py.views.ages import seconds

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
            conditions = (
                _renewed(conditions, _PROGRESSING, text, now)
                if renewed
                else (with_condition(conditions, _PROGRESSING, text, now))
            )
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
    conditions = _conditions(deployment)
    return next((one for one in conditions if one["type"] == _PROGRESSING), {})


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
    for one in sets:
        for condition in one.status.get("conditions") or []:
            if condition["type"] == _FAILURE:
                times = {"lastUpdateTime": condition["lastTransitionTime"]}
                return {**condition, **times}
    return None


def _without(conditions: Sequence[Json], kind: str) -> list[Json]:
    return [one for one in conditions if one["type"] != kind]


def _conditions(deployment: UnstructuredObject) -> list[Json]:
    return list(deployment.status.get("conditions") or [])
