"""The pods of a Job: made from its template, identified by owner, label and index."""

import copy

from kubeshare_py.embedded_cluster.controllers.object_kinds import JOBS
from kubeshare_py.embedded_cluster.controllers.ownership import controller_of, reference_to
from kubeshare_py.embedded_cluster.controllers.unstructured import Json, UnstructuredObject

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
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": prefix[-_LONGEST_PREFIX:].lstrip("-."),
            "namespace": job.metadata.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [reference_to(job, JOBS)],
        },
        "spec": spec,
    }


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
