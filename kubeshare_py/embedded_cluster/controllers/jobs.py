"""What a Job's controller changes: pods to create, pods to delete, and its status.

A minimal Job controller after https://kubernetes.io/docs/concepts/workloads/controllers/job/:
completions, parallelism, backoffLimit, suspend, Indexed mode. Left out: back-off between failed
pods, deadlines, TTL, pod failure and success policies, restarts counted by `OnFailure`, and the
finalizer job-tracking (so a pod that is deleted before it finished is not counted).
"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kubeshare_py.embedded_cluster.controllers.controller import (
    ControllerCache,
    ControllerEvent,
    ControllerRole,
    ControllerWork,
    Creation,
    Deletion,
    MaybeObject,
    body_of,
    controller_of,
    new_pod,
    reference_to,
    surplus_pod,
)
from kubeshare_py.embedded_cluster.controllers.unstructured import (
    JOBS,
    PODS,
    Json,
    ObjectKind,
    UnstructuredObject,
    condition_of,
    is_finished,
    is_ready,
)
from kubeshare_py.embedded_cluster.protocol.times import timestamp

# Completed indexes of an Indexed Job as its status writes them: `0-2,5`.


def parse_indexes(text: str) -> set[int]:
    """The numbers of a list of numbers and ranges; other parts are ignored."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found.update(range(int(first), int(last or first) + 1))
    return found


def format_indexes(indexes: Iterable[int]) -> str:
    """Numbers as a sorted list, two and more neighbours as a range."""
    ranges: list[list[int]] = []
    for index in sorted(indexes):
        if ranges and index == ranges[-1][1] + 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


# The pods of a Job: made from its template, identified by owner, label and index.


INDEX = "batch.kubernetes.io/job-completion-index"
_PREFIX = "batch.kubernetes.io/"
#: A generated name has at most 63 characters, 5 of them random.
_LONGEST_PREFIX = 58


def pod_of(job: UnstructuredObject, index: int | None = None) -> Json:
    """A new pod of `job`, with the completion index of an Indexed Job."""
    template = copy.deepcopy(job.spec.get("template") or {})
    metadata: Json = template.get("metadata") or {}
    spec: Json = template.get("spec") or {}
    name = job.metadata.name
    labels = {**_marks(job), **(metadata.get("labels") or {})}
    annotations = dict(metadata.get("annotations") or {})
    prefix = f"{name}-"
    if index is not None:
        labels[INDEX] = annotations[INDEX] = str(index)
        prefix = f"{name}-{index}-"
        spec.setdefault("hostname", f"{name}-{index}")
        _add_index_variable(spec)
    about = {
        "generateName": prefix[-_LONGEST_PREFIX:].lstrip("-."),
        "namespace": job.metadata.namespace,
        "labels": labels,
        "annotations": annotations,
        "ownerReferences": [reference_to(job, JOBS)],
    }
    return body_of(PODS, about, spec)


def owning_job(pod: UnstructuredObject) -> str | None:
    """The uid of the Job that controls a pod."""
    owner = controller_of(pod)
    return owner.uid if owner is not None and owner.kind == JOBS.kind else None


def pod_index(pod: UnstructuredObject) -> int | None:
    """The completion index of a pod."""
    text = (pod.metadata.annotations or {}).get(INDEX, "")
    return int(text) if text.isascii() and text.isdecimal() else None


def _marks(job: UnstructuredObject) -> dict[str, str]:
    """Labels that an API server adds to the template; added here if it did not."""
    marks = {"controller-uid": job.uid, "job-name": job.metadata.name}
    return {**marks, **{_PREFIX + name: value for name, value in marks.items()}}


def _add_index_variable(spec: Json) -> None:
    reference = {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}}
    for container in [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]:
        variables = container.setdefault("env", [])
        if all(variable.get("name") != "JOB_COMPLETION_INDEX" for variable in variables):
            variables.append({"name": "JOB_COMPLETION_INDEX", "valueFrom": reference})


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
    """The changes that bring a Job on, by its pods and, by uid, how its pods ended so far."""
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
    return condition_of(job, kind).get("status") == "True"


# Jobs and their pods as the Job controller has seen them.


class JobCache(ControllerCache):
    """Remembers how pods ended, even after they are gone."""

    role = ControllerRole(
        component="job-controller", owner=JOBS, dependents=PODS, watched=(JOBS, PODS)
    )

    def __init__(self) -> None:
        super().__init__()
        self._finished: dict[str, dict[str, Finished]] = {}

    def work_for(self, owner: UnstructuredObject, now: float) -> ControllerWork:
        """The changes that bring a Job on; see `jobs`."""
        pods = self.dependents.of(owner.uid)
        return work_for(owner, pods, self._finished.get(owner.uid, {}), now)

    def changed(self, kind: ObjectKind, before: MaybeObject, after: MaybeObject) -> None:
        """Remember how a pod ended, for as long as its Job is there."""
        if kind == PODS and after is not None:
            self._remember(after)
        elif kind == JOBS and after is None and before is not None:
            self._finished.pop(before.uid, None)

    def _remember(self, pod: UnstructuredObject) -> None:
        owner, end = owning_job(pod), finish_of(pod)
        if owner is not None and end is not None and (owner in self.owners or self._unlisted):
            self._finished.setdefault(owner, {})[pod.uid] = end
