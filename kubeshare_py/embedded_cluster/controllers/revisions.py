"""Revisions of a Deployment: its ReplicaSets by template, and new ones."""

import copy
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from kubeshare_py.embedded_cluster.controllers.applied import LAST_APPLIED
from kubeshare_py.embedded_cluster.controllers.object_kinds import DEPLOYMENTS
from kubeshare_py.embedded_cluster.controllers.ownership import reference_to
from kubeshare_py.embedded_cluster.controllers.rollouts import DESIRED, MAX_REPLICAS, Limits
from kubeshare_py.embedded_cluster.controllers.unstructured import Json, UnstructuredObject
from kubeshare_py.embedded_cluster.protocol.names import SUFFIX_ALPHABET

HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
_HISTORY = "deployment.kubernetes.io/revision-history"
_LONGEST_HISTORY = 2000
_NOT_COPIED = {
    LAST_APPLIED,
    "deprecated.deployment.rollback.to",
    REVISION,
    _HISTORY,
    DESIRED,
    MAX_REPLICAS,
}
_HASH_LETTERS = 10


@dataclass(frozen=True, slots=True)
class Revisions:
    """The ReplicaSet with the Deployment's template, if there is one, and all others."""

    new: UnstructuredObject | None
    old: tuple[UnstructuredObject, ...]

    @property
    def all(self) -> tuple[UnstructuredObject, ...]:
        """Old ones first."""
        return self.old if self.new is None else (*self.old, self.new)


def revisions_of(deployment: UnstructuredObject, sets: Sequence[UnstructuredObject]) -> Revisions:
    """A Deployment's ReplicaSets, oldest first; of two with one template the older counts."""
    ranked = sorted(sets, key=lambda one: (one.metadata.creationTimestamp or "", one.metadata.name))
    template = deployment.spec["template"]
    new = next((one for one in ranked if _without_hash(one.spec["template"]) == template), None)
    return Revisions(new, tuple(one for one in ranked if one is not new))


def revision(replica_set: UnstructuredObject) -> int:
    """Its number; 0 if it has none."""
    text = (replica_set.metadata.annotations or {}).get(REVISION, "")
    return int(text) if text.isascii() and text.isdecimal() else 0


def noted_sizes(limits: Limits) -> dict[str, str]:
    """Annotations with the number of replicas for which a size was chosen."""
    return {DESIRED: str(limits.wanted), MAX_REPLICAS: str(limits.most)}


def new_annotations(deployment: UnstructuredObject, found: Revisions) -> dict[str, str]:
    """The new ReplicaSet's annotations: the Deployment's own, and its revision."""
    present = dict((found.new.metadata.annotations or {}) if found.new else {})
    given = deployment.metadata.annotations or {}
    present |= {name: text for name, text in given.items() if name not in _NOT_COPIED}
    number = max((revision(one) for one in found.old), default=0) + 1
    before = revision(found.new) if found.new else 0
    if before < number:
        present[REVISION] = str(number)
        if before:
            present[_HISTORY] = _with_history(present.get(_HISTORY, ""), before)
    return present


def set_name(deployment: UnstructuredObject, collisions: int) -> str:
    """The name of a new ReplicaSet for the Deployment's template."""
    return f"{deployment.metadata.name}-{template_hash(deployment.spec['template'], collisions)}"


def template_hash(template: Json, collisions: int) -> str:
    """A hash of a template; not the same as a real controller's."""
    text = msgspec.json.encode([template, collisions], order="deterministic")
    number = int.from_bytes(hashlib.sha256(text).digest(), "big")
    letters = []
    for _ in range(_HASH_LETTERS):
        number, place = divmod(number, len(SUFFIX_ALPHABET))
        letters.append(SUFFIX_ALPHABET[place])
    return "".join(letters)


def new_set(
    deployment: UnstructuredObject, annotations: dict[str, str], replicas: int, collisions: int
) -> Json:
    """The ReplicaSet for a Deployment's template."""
    spec = deployment.spec
    mark = {HASH: template_hash(spec["template"], collisions)}
    template = copy.deepcopy(spec["template"])
    labels = template["metadata"]["labels"] = {**template["metadata"].get("labels", {}), **mark}
    selector = dict(spec["selector"])
    selector["matchLabels"] = {**selector.get("matchLabels", {}), **mark}
    body: Json = {"replicas": replicas, "selector": selector, "template": template}
    if spec.get("minReadySeconds"):
        body["minReadySeconds"] = spec["minReadySeconds"]
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": set_name(deployment, collisions),
            "namespace": deployment.metadata.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [reference_to(deployment, DEPLOYMENTS)],
        },
        "spec": body,
    }


def _without_hash(template: Json) -> Json:
    metadata = dict(template.get("metadata") or {})
    labels = {name: text for name, text in (metadata.get("labels") or {}).items() if name != HASH}
    return {**template, "metadata": {**metadata, "labels": labels}}


def _with_history(history: str, number: int) -> str:
    """The earlier numbers of a ReplicaSet after a roll-back, the last ones if many."""
    numbers = [*(history.split(",") if history else []), str(number)]
    while len(",".join(numbers)) > _LONGEST_HISTORY:
        del numbers[0]
    return ",".join(numbers)
