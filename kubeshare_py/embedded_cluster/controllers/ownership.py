"""Controllers of objects by ownerReferences, and which objects controllers adopt and release.

Rules: https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/#how-a-replicaset-works
"""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from kubeshare_py.embedded_cluster.controllers.controller_work import Change
from kubeshare_py.embedded_cluster.controllers.loose_objects import (
    Json,
    LooseObject,
    Owner,
    is_finished,
)
from kubeshare_py.embedded_cluster.controllers.object_kinds import Kind
from kubeshare_py.embedded_cluster.protocol.label_selectors import selects


@dataclass(frozen=True, slots=True)
class Claim:
    """The objects that an owner's selector claims, and the changes needed for that."""

    objects: tuple[LooseObject, ...]
    changes: tuple[Change, ...]


def controller_of(found: LooseObject) -> Owner | None:
    """The owner that controls an object; at most one does."""
    return next((one for one in found.metadata.ownerReferences or [] if one.controller), None)


def reference_to(owner: LooseObject, kind: Kind) -> Json:
    """The entry of ownerReferences that makes `owner` the controller."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": owner.metadata.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def references_without(found: LooseObject, uid: str) -> list[Json]:
    """An object's ownerReferences without one owner's."""
    return [
        {name: value for name, value in msgspec.to_builtins(owner).items() if value is not None}
        for owner in found.metadata.ownerReferences or []
        if owner.uid != uid
    ]


def claim(
    owner: LooseObject,
    kind: Kind,
    owned: Iterable[LooseObject],
    unowned: Iterable[LooseObject],
) -> Claim:
    """Keep objects that match the owner's selector, release others, adopt unowned ones."""
    matches = selects(owner.spec.get("selector"))
    kept: list[LooseObject] = []
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
    return Claim(tuple(kept), tuple(changes))


def _can_be_adopted(found: LooseObject) -> bool:
    return found.metadata.deletionTimestamp is None and not is_finished(found)


def _owners_change(found: LooseObject, references: list[Json]) -> Change:
    return Change(object=found, body={"metadata": {"ownerReferences": references}})
