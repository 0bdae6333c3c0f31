"""The work for a Deployment: a ReplicaSet for its template, sizes, its status.

After https://kubernetes.io/docs/concepts/workloads/controllers/deployment/: rolling updates and
recreation, scaling, pauses, revisions and their history, progress deadlines.
"""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from kubeshare_py.embedded_cluster.controllers.controller_work import (
    Change,
    ControllerEvent,
    ControllerWork,
    Creation,
    Deletion,
    changed_annotations,
    status_patch,
)
from kubeshare_py.embedded_cluster.controllers.deployment_status import (
    TIMED_OUT,
    counted_status,
    deadline,
    has_deadline,
    is_complete,
    pause_condition,
    progressing,
    with_progress,
    with_progressing,
)
from kubeshare_py.embedded_cluster.controllers.ownership import OwnershipClaim
from kubeshare_py.embedded_cluster.controllers.revisions import (
    REVISION,
    Revisions,
    new_annotations,
    new_set,
    noted_sizes,
    revision,
    revisions_of,
    set_name,
)
from kubeshare_py.embedded_cluster.controllers.rollouts import (
    RECREATE,
    Limits,
    Sizes,
    active,
    count,
    first_size,
    is_scaling,
    limits_of,
    rolling_sizes,
    scaled_sizes,
    size,
)
from kubeshare_py.embedded_cluster.controllers.unstructured import Json, UnstructuredObject

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
    """The work for `deployment`, given the ReplicaSets that its selector claims."""
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
