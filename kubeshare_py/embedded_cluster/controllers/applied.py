"""The annotation by which `kubectl apply` remembers an object for its next run.

https://kubernetes.io/docs/tasks/manage-kubernetes-objects/declarative-config/
"""

from typing import Any

import msgspec

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def as_applied(workload: dict[str, Any]) -> dict[str, Any]:
    """The object with the annotation, whose text is the one that kubectl 1.36 writes."""
    metadata = workload["metadata"]
    annotations = {k: v for k, v in metadata.get("annotations", {}).items() if k != LAST_APPLIED}
    before = {**workload, "metadata": {**metadata, "annotations": annotations}}
    text = msgspec.json.encode(before, order="deterministic").decode() + "\n"
    return {
        **workload,
        "metadata": {**metadata, "annotations": {**annotations, LAST_APPLIED: text}},
    }
