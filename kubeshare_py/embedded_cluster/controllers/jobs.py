"""The work for a Job: pods to create, pods to delete, and its status.

A minimal Job controller after https://kubernetes.io/docs/concepts/workloads/controllers/job/:
completions, parallelism, backoffLimit, suspend, Indexed mode. Left out: back-off between failed
pods, deadlines, TTL, pod failure and success policies, restarts counted by `OnFailure`, and the
finalizer job-tracking (so a pod that is deleted before it finished is not counted).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kubeshare_py.embedded_cluster.controllers.controller_work import (
    ControllerEvent,
    ControllerWork,
    Creation,
    Deletion,
    new_pod,
    surplus_pod,
)
from kubeshare_py.embedded_cluster.controllers.job_indexes import format_indexes, parse_indexes
from kubeshare_py.embedded_cluster.controllers.job_pods import pod_index, pod_of
from kubeshare_py.embedded_cluster.controllers.unstructured import (
    Json,
    UnstructuredObject,
    is_finished,
    is_ready,
)
from kubeshare_py.embedded_cluster.protocol.times import timestamp

COMPLETE, FAILED = "Complete", "Failed"
DEFAULT_BACKOFF_LIMIT = 6


@dataclass(frozen=True, slots=True)
class Finished:
    """How a pod of a Job ended; kept after the pod is gone."""

    succeeded: bool
    index: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _JobCount:
    """The counts of a Job."""

    active: list[UnstructuredObject]
    terminating: int
    succeeded: int
    failed: int
    done: frozenset[int]  # completed indexes


def is_over(job: UnstructuredObject) -> bool:
    """Whether a Job is complete or failed for good."""
    return any(_has_condition(job, kind) for kind in (COMPLETE, FAILED))


def finish_of(pod: UnstructuredObject) -> Finished | None:
    """How a pod ended; None if it has not."""
    if not is_finished(pod):
        return None
    return Finished(pod.status["phase"] == "Succeeded", pod_index(pod))


def work_for(
    job: UnstructuredObject,
    pods: Sequence[UnstructuredObject],
    finished: Mapping[str, Finished],
    now: float,
) -> ControllerWork:
    """The work for `job`, given its pods and, by uid, how its pods ended so far."""
    if is_over(job) or job.metadata.deletionTimestamp is not None:
        return ControllerWork()
    count = _count(job, pods, finished)
    verdict = _verdict(job, count)
    if verdict is not None:
        return _conclusion(job, count, verdict, now)
    missing = _wanted(job, count) - len(count.active)
    create = _new_pods(job, count, missing) if missing > 0 else ()
    delete = _surplus(count, -missing) if missing < 0 else ()
    return ControllerWork(
        create=create, delete=delete, status=_patch(job, _status(job, count, now))
    )


def _count(
    job: UnstructuredObject, pods: Sequence[UnstructuredObject], finished: Mapping[str, Finished]
) -> _JobCount:
    ended = {**finished, **{pod.uid: end for pod in pods if (end := finish_of(pod)) is not None}}
    running = [pod for pod in pods if pod.uid not in ended]
    done = parse_indexes(job.status.get("completedIndexes", ""))
    if _is_indexed(job):
        done |= {end.index for end in ended.values() if end.succeeded and end.index is not None}
        succeeded = len(done)
    else:
        succeeded = sum(end.succeeded for end in ended.values())
    return _JobCount(
        active=[pod for pod in running if pod.metadata.deletionTimestamp is None],
        terminating=sum(pod.metadata.deletionTimestamp is not None for pod in running),
        # Never less than before: an earlier process may have counted pods that are gone.
        succeeded=max(succeeded, job.status.get("succeeded") or 0),
        failed=max(sum(not end.succeeded for end in ended.values()), job.status.get("failed") or 0),
        done=frozenset(done),
    )


def _verdict(job: UnstructuredObject, count: _JobCount) -> str | None:
    """COMPLETE or FAILED once that is certain."""
    if _has_condition(job, "SuccessCriteriaMet"):
        return COMPLETE
    limit = job.spec.get("backoffLimit", DEFAULT_BACKOFF_LIMIT)
    if _has_condition(job, "FailureTarget") or count.failed > limit:
        return FAILED
    completions = job.spec.get("completions")
    if completions is None:
        enough = count.succeeded > 0 and not count.active
    else:
        enough = count.succeeded >= completions
    return COMPLETE if enough else None


def _wanted(job: UnstructuredObject, count: _JobCount) -> int:
    """How many pods should be active."""
    if job.spec.get("suspend"):
        return 0
    parallelism = int(job.spec.get("parallelism", 1))
    completions = job.spec.get("completions")
    if completions is None:
        # A work queue: after the first success the others finish, and no new pod starts.
        return min(parallelism, len(count.active)) if count.succeeded else parallelism
    return min(parallelism, int(completions) - count.succeeded)


def _new_pods(job: UnstructuredObject, count: _JobCount, number: int) -> tuple[Creation, ...]:
    if not _is_indexed(job):
        return tuple(new_pod(pod_of(job)) for _ in range(number))
    taken = {pod_index(pod) for pod in count.active} | count.done
    free = (index for index in range(job.spec["completions"]) if index not in taken)
    free_indexes = (index for _, index in zip(range(number), free, strict=False))
    return tuple(new_pod(pod_of(job, index)) for index in free_indexes)


def _surplus(count: _JobCount, number: int) -> tuple[Deletion, ...]:
    """The pods that lose least: those not bound first, then those created last."""
    bound_first = sorted(
        count.active,
        key=lambda pod: (
            not pod.spec.get("nodeName"),
            pod.metadata.creationTimestamp or "",
            pod.metadata.name,
        ),
    )
    return tuple(surplus_pod(pod) for pod in bound_first[len(bound_first) - number :])


def _conclusion(
    job: UnstructuredObject, count: _JobCount, verdict: str, now: float
) -> ControllerWork:
    """The end: first the verdict, and the last condition once no pod runs any more."""
    status = _status(job, count, now)
    early, reason, message = {
        COMPLETE: ("SuccessCriteriaMet", "CompletionsReached", "Reached expected number of pods"),
        FAILED: ("FailureTarget", "BackoffLimitExceeded", "Job has reached the backoff limit"),
    }[verdict]
    kinds = [early]
    events: tuple[ControllerEvent, ...] = ()
    if not count.active and not count.terminating:
        kinds.append(verdict)
        if verdict == COMPLETE:
            status["completionTime"] = timestamp(now)
            events = (ControllerEvent("Normal", "Completed", "Job completed"),)
        else:
            events = (ControllerEvent("Warning", reason, message),)
    present = list(job.status.get("conditions") or [])
    times = {"lastProbeTime": timestamp(now), "lastTransitionTime": timestamp(now)}
    status["conditions"] = present + [
        {"type": kind, "status": "True", "reason": reason, "message": message, **times}
        for kind in kinds
        if not _has_condition(job, kind)
    ]
    delete = tuple(surplus_pod(pod) for pod in count.active)
    return ControllerWork(delete=delete, status=_patch(job, status), events=events)


def _status(job: UnstructuredObject, count: _JobCount, now: float) -> Json:
    status: Json = {
        "active": len(count.active),
        "ready": sum(is_ready(pod) for pod in count.active),
        "terminating": count.terminating,
        "succeeded": count.succeeded,
        "failed": count.failed,
    }
    if not job.spec.get("suspend"):
        status["startTime"] = job.status.get("startTime") or timestamp(now)
    if _is_indexed(job):
        status["completedIndexes"] = format_indexes(count.done)
    return status


def _patch(job: UnstructuredObject, status: Json) -> Json | None:
    """The merge patch from the Job's status to `status`; absent and zero are the same."""
    changed = {
        name: value
        for name, value in status.items()
        if (value or None) != (job.status.get(name) or None)
    }
    return {"status": changed} if changed else None


def _is_indexed(job: UnstructuredObject) -> bool:
    return job.spec.get("completionMode") == "Indexed"


def _has_condition(job: UnstructuredObject, kind: str) -> bool:
    return any(
        one.get("type") == kind and one.get("status") == "True"
        for one in job.status.get("conditions") or []
    )
