"""StatefulSets: their pods by ordinal, the claims of these, and the status.

After https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/. Left out: adoption,
the history of revisions (a changed template replaces pods, and there is no way back), and claims
that go with their pods.
"""

import copy
from collections.abc import Mapping

from kubeshare_py.embedded_cluster.controllers.controller import (
    ControllerCache,
    ControllerEvent,
    ControllerRole,
    ControllerWork,
    Creation,
    Deletion,
    body_of,
    reference_to,
    status_patch,
)
from kubeshare_py.embedded_cluster.controllers.rollouts import template_hash
from kubeshare_py.embedded_cluster.controllers.unstructured import (
    CLAIMS,
    PODS,
    STATEFUL_SETS,
    Json,
    UnstructuredObject,
    is_finished,
    is_ready,
)

REVISION, ORDINAL = "controller-revision-hash", "apps.kubernetes.io/pod-index"
_POD_NAME = "statefulset.kubernetes.io/pod-name"
_MADE = ControllerEvent(
    "Normal", "SuccessfulCreate", "Create Pod {name} in StatefulSet {error} successful"
)
_DELETED = ControllerEvent(
    "Normal", "SuccessfulDelete", "Delete Pod {name} in StatefulSet {error} successful"
)


class StatefulSetCache(ControllerCache):
    """StatefulSets and their pods."""

    role = ControllerRole(
        component="statefulset-controller",
        owner=STATEFUL_SETS,
        dependents=PODS,
        watched=(STATEFUL_SETS, PODS),
    )

    def work_for(self, owner: UnstructuredObject, now: float) -> ControllerWork:
        """The changes that bring a StatefulSet nearer to its template and size."""
        return work_for(owner, self.dependents.of(owner.uid))


def work_for(stateful: UnstructuredObject, pods: list[UnstructuredObject]) -> ControllerWork:
    """One step of each ordinal that may take one, and the status.

    Pods are made in order and deleted in the opposite one, each after the one before is ready or
    gone; with `Parallel`, all at once.
    """
    found = {number: pod for pod in pods if (number := _ordinal(stateful, pod)) is not None}
    status = status_patch(stateful, _status(stateful, found))
    if stateful.metadata.deletionTimestamp is not None:
        return ControllerWork(status=status)
    first = int((stateful.spec.get("ordinals") or {}).get("start", 0))
    wanted = range(first, first + int(stateful.spec.get("replicas", 1)))
    at_once = stateful.spec.get("podManagementPolicy") == "Parallel"
    create: list[Creation] = []
    delete = [pod for pod in found.values() if is_finished(pod) and not _is_going(pod)]
    for number in wanted:
        pod = found.get(number)
        if pod is None:
            create += _new(stateful, number)
        if not at_once and (pod is None or not is_ready(pod) or _is_going(pod)):
            break
    else:
        delete += _surplus(stateful, found, wanted, at_once=at_once)
    return ControllerWork(
        create=tuple(create),
        delete=tuple(Deletion(object=pod, done=_event(_DELETED, stateful)) for pod in delete),
        status=status,
    )


def _surplus(
    stateful: UnstructuredObject,
    found: Mapping[int, UnstructuredObject],
    wanted: range,
    *,
    at_once: bool,
) -> list[UnstructuredObject]:
    """Pods beyond the wanted ones, the last first; then one with an old template."""
    beyond = [found[number] for number in sorted(found, reverse=True) if number not in wanted]
    if beyond:
        going = any(_is_going(pod) for pod in beyond)
        left = [pod for pod in beyond if not _is_going(pod)]
        return left if at_once else ([] if going else left[:1])
    strategy = stateful.spec.get("updateStrategy") or {}
    partition = int((strategy.get("rollingUpdate") or {}).get("partition", 0))
    kept = all(number in found and is_ready(found[number]) for number in wanted)
    if strategy.get("type") != "RollingUpdate" or not kept:
        return []
    old = [
        found[number]
        for number in reversed(wanted)
        if number >= partition and not _is_updated(stateful, found[number])
    ]
    return [pod for pod in old[:1] if not _is_going(pod)]


def _new(stateful: UnstructuredObject, number: int) -> list[Creation]:
    """A pod, after its claims; those that are there already stay as they are."""
    metadata, spec = stateful.metadata, stateful.spec
    template = copy.deepcopy(spec.get("template") or {})
    given, pod = template.get("metadata") or {}, template.get("spec") or {}
    name = f"{metadata.name}-{number}"
    labels = {
        **(given.get("labels") or {}),
        _POD_NAME: name,
        ORDINAL: str(number),
        REVISION: _revision(stateful),
    }
    claims = [_claim(stateful, one, number) for one in spec.get("volumeClaimTemplates") or []]
    names = [one["metadata"]["name"] for one in spec.get("volumeClaimTemplates") or []]
    own = [
        {"name": volume, "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
        for volume, claim in zip(names, claims, strict=True)
    ]
    others = [one for one in pod.get("volumes") or [] if one["name"] not in names]
    pod |= {"hostname": name, "subdomain": spec.get("serviceName", ""), "volumes": [*own, *others]}
    about = {
        "name": name,
        "namespace": metadata.namespace,
        "labels": labels,
        "annotations": given.get("annotations") or {},
        "ownerReferences": [reference_to(stateful, STATEFUL_SETS)],
    }
    made = Creation(body=body_of(PODS, about, pod), made=_event(_MADE, stateful))
    return [*(Creation(body=claim, kind=CLAIMS) for claim in claims), made]


def _claim(stateful: UnstructuredObject, template: Json, number: int) -> Json:
    metadata = template["metadata"]
    labels = (stateful.spec.get("selector") or {}).get("matchLabels") or {}
    about = {
        "name": f"{metadata['name']}-{stateful.metadata.name}-{number}",
        "namespace": stateful.metadata.namespace,
        "labels": {**(metadata.get("labels") or {}), **labels},
        "annotations": metadata.get("annotations") or {},
    }
    return body_of(CLAIMS, about, template["spec"])


def _status(stateful: UnstructuredObject, found: Mapping[int, UnstructuredObject]) -> Json:
    revision = f"{stateful.metadata.name}-{_revision(stateful)}"
    ready = sum(is_ready(pod) for pod in found.values())
    updated = sum(_is_updated(stateful, pod) for pod in found.values())
    before = stateful.status.get("currentRevision", revision)
    is_over = updated == len(found)
    return {
        **{name: value for name, value in stateful.status.items() if name == "conditions"},
        "observedGeneration": stateful.metadata.generation,
        "replicas": len(found),
        "readyReplicas": ready,
        "availableReplicas": ready,
        "updatedReplicas": updated,
        "currentReplicas": len(found) if is_over else len(found) - updated,
        "currentRevision": revision if is_over else before,
        "updateRevision": revision,
    }


def _event(event: ControllerEvent, stateful: UnstructuredObject) -> ControllerEvent:
    """The event with the set's name; that of the pod follows."""
    return event.about(name="{name}", error=stateful.metadata.name)


def _ordinal(stateful: UnstructuredObject, pod: UnstructuredObject) -> int | None:
    prefix, _, number = pod.metadata.name.rpartition("-")
    is_one = prefix == stateful.metadata.name and number.isascii() and number.isdecimal()
    return int(number) if is_one else None


def _revision(stateful: UnstructuredObject) -> str:
    return template_hash(stateful.spec.get("template") or {}, 0)


def _is_updated(stateful: UnstructuredObject, pod: UnstructuredObject) -> bool:
    return (pod.metadata.labels or {}).get(REVISION) == _revision(stateful)


def _is_going(pod: UnstructuredObject) -> bool:
    return pod.metadata.deletionTimestamp is not None
