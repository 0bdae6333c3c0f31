"""A Deployment's ReplicaSets: their revisions, and their sizes while it rolls or scales."""

import copy
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from kubeshare_py.embedded_cluster.controllers.controller import body_of, reference_to
from kubeshare_py.embedded_cluster.controllers.unstructured import (
    DEPLOYMENTS,
    REPLICA_SETS,
    Json,
    UnstructuredObject,
)
from kubeshare_py.embedded_cluster.protocol.names import SUFFIX_ALPHABET
from kubeshare_py.embedded_cluster.protocol.quantities import amount_of

# The sizes of a Deployment's ReplicaSets: rolling updates, scaling, recreation.
#
# After https://kubernetes.io/docs/concepts/workloads/controllers/deployment/.


ROLLING, RECREATE = "RollingUpdate", "Recreate"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"

#: The wanted sizes, by uid; others stay as they are.
Sizes = dict[str, int]


@dataclass(frozen=True, slots=True)
class Limits:
    """The wanted number of replicas, how many more there may be, and how many may be missing."""

    wanted: int
    surge: int
    unavailable: int

    @property
    def most(self) -> int:
        """The most pods."""
        return self.wanted + self.surge

    @property
    def least_available(self) -> int:
        """The least available pods."""
        return self.wanted - self.unavailable


def limits_of(spec: Json) -> Limits:
    """The limits in a Deployment's spec; with no surge, one pod may always be missing."""
    wanted: int = spec["replicas"]
    if spec["strategy"]["type"] != ROLLING:
        return Limits(wanted, 0, 0)
    rolling = spec["strategy"]["rollingUpdate"]
    surge = amount_of(rolling["maxSurge"], wanted, up=True)
    unavailable = amount_of(rolling["maxUnavailable"], wanted, up=False)
    if not surge and not unavailable:
        unavailable = 1
    return Limits(wanted, surge, min(unavailable, wanted))


def size(replica_set: UnstructuredObject) -> int:
    """Its wanted number of pods."""
    return int(replica_set.spec.get("replicas", 1))


def count(replica_set: UnstructuredObject, name: str) -> int:
    """A number in its status."""
    return int(replica_set.status.get(name, 0))


def active(sets: Sequence[UnstructuredObject]) -> list[UnstructuredObject]:
    """The ReplicaSets that should have pods, the oldest first."""
    return sorted((one for one in sets if size(one)), key=_born)


def is_scaling(limits: Limits, sets: Sequence[UnstructuredObject]) -> bool:
    """Whether a ReplicaSet was sized for another number of replicas than the present one."""
    noted = (_noted(one, DESIRED) for one in active(sets))
    return any(number is not None and number != limits.wanted for number in noted)


def scaled_sizes(
    spec: Json, limits: Limits, new: UnstructuredObject | None, old: Sequence[UnstructuredObject]
) -> Sizes:
    """Sizes after a change of replicas: an ongoing rollout keeps its proportions."""
    sets = [*old, new] if new is not None else [*old]
    live = active(sets)
    if len(live) <= 1:
        latest = live[0] if live else new or max(old, key=_born, default=None)
        return {latest.uid: limits.wanted} if latest is not None else {}
    if new is not None and _is_saturated(new, limits):
        return {one.uid: 0 for one in active(old)}
    return _proportional(live, limits) if spec["strategy"]["type"] == ROLLING else {}


def first_size(limits: Limits, old: Sequence[UnstructuredObject]) -> int:
    """The first size of a new ReplicaSet beside older ones."""
    return min(limits.wanted, max(limits.most - sum(map(size, old)), 0))


def rolling_sizes(
    limits: Limits, new: UnstructuredObject, old: Sequence[UnstructuredObject]
) -> Sizes:
    """The next step of a rolling update; empty when there is none now."""
    grown = _grown(limits, new, old)
    return {new.uid: grown} if grown != size(new) else _shrunk(limits, new, active(old))


def _grown(limits: Limits, new: UnstructuredObject, old: Sequence[UnstructuredObject]) -> int:
    if size(new) >= limits.wanted:
        return limits.wanted
    room = limits.most - size(new) - sum(map(size, old))
    return min(size(new) + max(room, 0), limits.wanted)


def _shrunk(limits: Limits, new: UnstructuredObject, old: Sequence[UnstructuredObject]) -> Sizes:
    """Shrink old ones: unavailable pods first, then as many as the limits allow."""
    unavailable = size(new) - count(new, "availableReplicas")
    spare = size(new) + sum(map(size, old)) - limits.least_available - unavailable
    if spare <= 0:
        return {}
    sizes = {one.uid: size(one) for one in old}
    for one in old:
        idle = size(one) - count(one, "availableReplicas")
        given = max(min(spare, idle), 0)
        sizes[one.uid] -= given
        spare -= given
    spare = sum(count(one, "availableReplicas") for one in [*old, new]) - limits.least_available
    for one in old:
        given = max(min(spare, sizes[one.uid]), 0)
        sizes[one.uid] -= given
        spare -= given
    return {one.uid: sizes[one.uid] for one in old if sizes[one.uid] != size(one)}


def _proportional(live: Sequence[UnstructuredObject], limits: Limits) -> Sizes:
    """Distribute a change of size; the largest gets the rounding remainder."""
    allowed = limits.most if limits.wanted else 0
    to_add = allowed - sum(map(size, live))
    # Among equal ones the newer grow first, and the older shrink first.
    ranked = sorted(sorted(live, key=_born, reverse=to_add > 0), key=size, reverse=True)
    sizes, left = {one.uid: size(one) for one in ranked}, to_add
    for one in ranked:
        share = _share(one, limits)
        share = max(min(share, left), 0) if to_add > 0 else min(max(share, left), 0)
        sizes[one.uid] += share
        left -= share
    sizes[ranked[0].uid] = max(sizes[ranked[0].uid] + left, 0)
    return sizes


def _share(one: UnstructuredObject, limits: Limits) -> int:
    """Its change if all changed in proportion."""
    if not limits.wanted:
        return -size(one)
    before = _noted(one, MAX_REPLICAS)
    if not before:
        return 0
    # Half is rounded away from zero; all of this is positive.
    return (2 * size(one) * limits.most + before) // (2 * before) - size(one)


def _is_saturated(new: UnstructuredObject, limits: Limits) -> bool:
    return size(new) == _noted(new, DESIRED) == count(new, "availableReplicas") == limits.wanted


def _noted(one: UnstructuredObject, annotation: str) -> int | None:
    text = (one.metadata.annotations or {}).get(annotation, "")
    return int(text) if text.isascii() and text.isdecimal() else None


def _born(one: UnstructuredObject) -> tuple[str, str]:
    return one.metadata.creationTimestamp or "", one.metadata.name


# The annotation by which `kubectl apply` remembers an object for its next run.
#
# https://kubernetes.io/docs/tasks/manage-kubernetes-objects/declarative-config/


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


# Revisions of a Deployment: its ReplicaSets by template, and new ones.


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
    ranked = sorted(sets, key=_born)
    template = deployment.spec["template"]
    new = next((one for one in ranked if _without_hash(one.spec["template"]) == template), None)
    return Revisions(new, tuple(one for one in ranked if one is not new))


def revision(replica_set: UnstructuredObject) -> int:
    """Its number; 0 if it has none."""
    return _noted(replica_set, REVISION) or 0


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
    metadata = {
        "name": set_name(deployment, collisions),
        "namespace": deployment.metadata.namespace,
        "labels": labels,
        "annotations": annotations,
        "ownerReferences": [reference_to(deployment, DEPLOYMENTS)],
    }
    return body_of(REPLICA_SETS, metadata, body)


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
