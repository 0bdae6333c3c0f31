"""The pod that a SharePod describes: its spec as template, its labels and annotations.

As KubeShare 1.0 makes it (newPod in pkg/devicemanager/controller.go of release-1.0), except that
the scheduler decides: `spec.nodeName` becomes a required node affinity. What containers need of
their card comes with the pod's annotations, and not from here.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from kubeshare_py.dialects import results
from kubeshare_py.dialects.sharepod.keys import VIRTUAL_GPU
from kubeshare_py.manifests.metadata import ObjectMeta
from kubeshare_py.manifests.sharepods.canonical_json import hash_of
from kubeshare_py.manifests.sharepods.share_pod_api import (
    API_VERSION,
    ASSIGNED_CARD_NAME,
    KIND,
    MADE_FROM,
)
from kubeshare_py.sharepods.share_pod import SharePodTemplate

#: Of `kubectl apply`, about the SharePod itself.
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_OURS = frozenset({LAST_APPLIED, ASSIGNED_CARD_NAME, MADE_FROM})
#: Beginning of the annotations of which an edit matters.
_KUBESHARE = "kubeshare/"
_NO_SCHEDULER = ("", "default-scheduler")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def owner_reference(metadata: ObjectMeta) -> dict[str, Any]:
    """The reference that makes this SharePod the controller of a pod."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": metadata.name,
        "uid": metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def template_annotations(metadata: ObjectMeta) -> dict[str, str]:
    """Those for the pod: without results, which are the scheduler's, and the name that it chose."""
    annotations = metadata.annotations or {}
    assigned = annotations.get(ASSIGNED_CARD_NAME)
    return {
        key: value
        for key, value in annotations.items()
        if not (
            key in _OURS or results.is_result(key) or (key == VIRTUAL_GPU and value == assigned)
        )
    }


def pod_template(
    metadata: ObjectMeta, spec: dict[str, Any], scheduler_name: str
) -> SharePodTemplate:
    """The pod of a SharePod; one that names no scheduler gets `scheduler_name`."""
    labels = metadata.labels or {}
    annotations = template_annotations(metadata)
    field_hashes = tuple(sorted(_hashes(spec, labels, annotations).items()))
    made_from = msgspec.json.encode(dict(field_hashes)).decode()
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": metadata.name,
            "namespace": metadata.namespace,
            "labels": labels,
            "annotations": {**annotations, MADE_FROM: made_from},
            "ownerReferences": [owner_reference(metadata)],
        },
        "spec": _scheduled(spec, scheduler_name),
    }
    return SharePodTemplate(manifest=msgspec.json.encode(pod), field_hashes=field_hashes)


def _hashes(
    spec: Mapping[str, Any], labels: Mapping[str, str], annotations: Mapping[str, str]
) -> dict[str, str]:
    """Each field of the template with a hash of its value, by the name that users know."""
    found = {f"spec.{name}": hash_of(value) for name, value in spec.items() if value is not None}
    if labels:
        found["metadata.labels"] = hash_of(labels)
    asked = {key: value for key, value in annotations.items() if key.startswith(_KUBESHARE)}
    return found | {f"metadata.annotations[{key}]": hash_of(value) for key, value in asked.items()}


def _scheduled(spec: Mapping[str, Any], scheduler_name: str) -> dict[str, Any]:
    found = dict(spec)
    if found.get("schedulerName", "") in _NO_SCHEDULER:
        found["schedulerName"] = scheduler_name
    node = found.get("nodeName")
    if isinstance(node, str):
        found.pop("nodeName")
        if node:
            found["affinity"] = _on_node(found.get("affinity"), node)
    return found


def _on_node(affinity: Any, node: str) -> Any:
    """The affinity with this node as a requirement; unchanged if the API server will refuse it."""
    affinity = {} if affinity is None else affinity
    if not isinstance(affinity, dict):
        return affinity
    of_nodes = affinity.get("nodeAffinity") or {}
    required = of_nodes.get(_REQUIRED) or {} if isinstance(of_nodes, dict) else None
    terms = required.get("nodeSelectorTerms") or [{}] if isinstance(required, dict) else None
    if not isinstance(terms, list) or not all(isinstance(term, dict) for term in terms):
        return affinity
    # Terms are alternatives: each must name the node, as for pods of a DaemonSet.
    line = {"key": "metadata.name", "operator": "In", "values": [node]}
    bound = [{**term, "matchFields": [*(term.get("matchFields") or ()), line]} for term in terms]
    of_nodes = {**of_nodes, _REQUIRED: {"nodeSelectorTerms": bound}}
    return {**affinity, "nodeAffinity": of_nodes}
