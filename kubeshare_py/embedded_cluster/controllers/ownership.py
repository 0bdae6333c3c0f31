"""Controllers of objects by ownerReferences, and which objects controllers adopt and release.

Rules: https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/#how-a-replicaset-works
"""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from kubeshare_py.embedded_cluster.controllers.controller_work import Change
from kubeshare_py.embedded_cluster.controllers.object_kinds import ObjectKind
from kubeshare_py.embedded_cluster.controllers.unstructured import (
    Json,
    Owner,
    UnstructuredObject,
    is_finished,
)
from kubeshare_py.embedded_cluster.protocol.label_selectors import selects


@dataclass(frozen=True, slots=True)
class OwnershipClaim:
    """The objects that an owner's selector claims, and the changes needed for that."""

    objects: tuple[UnstructuredObject, ...]
    changes: tuple[Change, ...]


def controller_of(found: UnstructuredObject) -> Owner | None:
    """The owner that controls an object; at most one does."""
    return next((one for one in found.metadata.ownerReferences or [] if one.controller), None)


def reference_to(owner: UnstructuredObject, kind: ObjectKind) -> Json:
    """The entry of ownerReferences that makes `owner` the controller."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": owner.metadata.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def references_without(found: UnstructuredObject, uid: str) -> list[Json]:
    """An object's ownerReferences without one owner's."""
    return [
        {name: value for name, value in msgspec.to_builtins(owner).items() if value is not None}
        for owner in found.metadata.ownerReferences or []
        if owner.uid != uid
    ]


def claim(
    owner: UnstructuredObject,
    kind: ObjectKind,
    owned: Iterable[UnstructuredObject],
    unowned: Iterable[UnstructuredObject],
) -> OwnershipClaim:
    """Keep objects that match the owner's selector, release others, adopt unowned ones."""
    matches = selects(owner.spec.get("selector"))
    kept: list[UnstructuredObject] = []
    changes: list[Change] = []
    for one in owned:
        if matches(one.metadata.labels):
            kept.append(one)
        elif one.metadata.deletionTimestamp is None:
            changes.append(_owners_change(one, references_without(one, owner.uid)))
    if owner.metadata.deletionTimestamp is None:
        for one in unowned:
            if _can_be_adopted(one) and matches(one.metadata.labels):
                kept.append(one)
                references = [*references_without(one, owner.uid), reference_to(owner, kind)]
                changes.append(_owners_change(one, references))
    return OwnershipClaim(tuple(kept), tuple(changes))


def _can_be_adopted(found: UnstructuredObject) -> bool:
    return found.metadata.deletionTimestamp is None and not is_finished(found)


def _owners_change(found: UnstructuredObject, references: list[Json]) -> Change:
    return Change(object=found, body={"metadata": {"ownerReferences": references}})
