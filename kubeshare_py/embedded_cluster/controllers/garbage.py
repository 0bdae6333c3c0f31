"""Garbage collection by ownerReferences: objects without owners are deleted.

Rules: https://kubernetes.io/docs/concepts/architecture/garbage-collection/. An object is deleted
when none of its owners exists. Owners of unwatched kinds count as existing. An owner that was
deleted in the foreground waits for the dependents that block it; one that orphans waits until they
no longer name it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kubeshare_py.embedded_cluster.controllers.controller import references_without
from kubeshare_py.embedded_cluster.controllers.unstructured import (
    Json,
    ObjectKind,
    Owner,
    UnstructuredObject,
)

# The work of the garbage collector.


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Delete an object, in the background, if it still has this uid."""

    path: str
    uid: str


@dataclass(frozen=True, slots=True)
class PatchObject:
    """Merge-patch an object; its resourceVersion in the body prevents lost updates."""

    path: str
    uid: str
    body: Json


@dataclass(frozen=True, slots=True)
class LookForOwner:
    """Find out whether an owner exists; `owner_absent` reports one that does not."""

    path: str
    uid: str


GarbageWork = DeleteObject | PatchObject | LookForOwner


FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"


@dataclass(frozen=True, slots=True)
class _KnownObject:
    kind: ObjectKind
    object: UnstructuredObject

    @property
    def path(self) -> str:
        metadata = self.object.metadata
        return self.kind.object_path(metadata.namespace, metadata.name)

    @property
    def owners(self) -> list[Owner]:
        return self.object.metadata.ownerReferences or []

    def ends_by(self, finalizer: str) -> bool:
        metadata = self.object.metadata
        return metadata.deletionTimestamp is not None and finalizer in (metadata.finalizers or [])


class Garbage:
    """The known objects of the given kinds. No work before all are listed."""

    def __init__(self, kinds: Iterable[ObjectKind]) -> None:
        self._kinds = {(kind.api_version, kind.kind): kind for kind in kinds}
        self._unlisted = set(self._kinds.values())
        self._known: dict[str, _KnownObject] = {}
        self._dependents: dict[str, set[str]] = {}
        self._absent: set[str] = set()
        self._asked: dict[str, set[type]] = {}
        self._dirty: set[str] = set()

    def watch(self, kind: ObjectKind, others: Iterable[ObjectKind] = ()) -> None:
        """Wait for one more kind to be listed; `others` are its other versions."""
        self._unlisted.add(kind)
        for version in (kind, *others):
            self._kinds[version.api_version, version.kind] = kind

    def unwatch(self, kind: ObjectKind) -> None:
        """Forget a kind and all its objects."""
        self.listed(kind, ())
        self._kinds = {key: held for key, held in self._kinds.items() if held != kind}

    def listed(self, kind: ObjectKind, objects: Iterable[UnstructuredObject]) -> None:
        """Take in all objects of a kind; missing ones are gone."""
        present = {found.uid: found for found in objects}
        gone = [uid for uid, known in self._known.items() if known.kind == kind]
        for uid in gone:
            if uid not in present:
                self.gone(uid)
        for found in present.values():
            self.seen(kind, found)
        self._unlisted.discard(kind)

    def seen(self, kind: ObjectKind, found: UnstructuredObject) -> None:
        """Take in an object as it is now."""
        before = self._owner_uids(found.uid)
        known = self._known[found.uid] = _KnownObject(kind, found)
        after = self._owner_uids(found.uid)
        for owner in before - after:
            self._unlink(owner, found.uid)
        for owner in after:
            self._dependents.setdefault(owner, set()).add(found.uid)
            self._touch(owner)
        self._asked.pop(known.object.uid, None)
        self._absent.discard(found.uid)
        self._touch(found.uid)

    def gone(self, uid: str) -> None:
        """Take in that an object was deleted."""
        for owner in self._owner_uids(uid):
            self._unlink(owner, uid)
        self._known.pop(uid, None)
        self._asked.pop(uid, None)
        self._dirty.discard(uid)
        self.owner_absent(uid)

    def owner_absent(self, uid: str) -> None:
        """Record that no object has this uid."""
        dependents = self._dependents.get(uid)
        if dependents:
            self._absent.add(uid)
            self._dirty.update(dependents)

    def look_again(self, uid: str) -> None:
        """Repeat the work for this uid, which was not done."""
        self._asked.pop(uid, None)
        self._touch(uid)
        self._dirty.update(self._dependents.get(uid, ()))

    def has_work(self) -> bool:
        """Whether `work` may have something."""
        return bool(self._dirty) and not self._unlisted

    def work(self) -> list[GarbageWork]:
        """The work now, each item once until the object changes or `look_again` is called."""
        if not self.has_work():
            return []
        dirty, self._dirty = sorted(self._dirty), set()
        found = [
            work
            for uid in dirty
            if (known := self._known.get(uid)) is not None
            for work in self._work_for(known)
        ]
        return [work for work in found if self._is_fresh(work)]

    def _is_fresh(self, work: GarbageWork) -> bool:
        asked = self._asked.setdefault(work.uid, set())
        if type(work) in asked:
            return False
        asked.add(type(work))
        return True

    def _work_for(self, known: _KnownObject) -> list[GarbageWork]:
        if known.object.metadata.deletionTimestamp is None:
            return self._judged(known)
        if known.ends_by(ORPHAN):
            return self._orphaning(known)
        if known.ends_by(FOREGROUND):
            return self._foreground(known)
        return []

    def _judged(self, known: _KnownObject) -> list[GarbageWork]:
        """The changes of an object that is not being deleted, by whether an owner of it exists."""
        unknown: list[GarbageWork] = []
        for owner in known.owners:
            if owner.uid in self._absent:
                continue
            kind = self._kinds.get((owner.apiVersion, owner.kind))
            if owner.uid in self._known or kind is None:
                return []
            path = kind.object_path(known.object.metadata.namespace, owner.name)
            unknown.append(LookForOwner(path, owner.uid))
        if known.owners and not unknown:
            return [DeleteObject(known.path, known.object.uid)]
        return unknown

    def _orphaning(self, known: _KnownObject) -> list[GarbageWork]:
        uid = known.object.uid
        dependents = self._dependents_of(uid)
        if dependents:
            return [
                _patch(one, ownerReferences=references_without(one.object, uid))
                for one in dependents
            ]
        return [_without_finalizer(known, ORPHAN)]

    def _foreground(self, known: _KnownObject) -> list[GarbageWork]:
        uid = known.object.uid
        dependents = self._dependents_of(uid)
        going: list[GarbageWork] = [
            DeleteObject(one.path, one.object.uid)
            for one in dependents
            if one.object.metadata.deletionTimestamp is None
        ]
        blocked = any(
            owner.uid == uid and owner.blockOwnerDeletion
            for one in dependents
            for owner in one.owners
        )
        return going if blocked else [*going, _without_finalizer(known, FOREGROUND)]

    def _dependents_of(self, uid: str) -> list[_KnownObject]:
        return [self._known[one] for one in sorted(self._dependents.get(uid, ()))]

    def _touch(self, uid: str) -> None:
        if uid in self._known:
            self._dirty.add(uid)

    def _owner_uids(self, uid: str) -> set[str]:
        known = self._known.get(uid)
        return {owner.uid for owner in known.owners} if known is not None else set()

    def _unlink(self, owner: str, dependent: str) -> None:
        dependents = self._dependents.get(owner, set())
        dependents.discard(dependent)
        self._touch(owner)
        if not dependents:
            self._dependents.pop(owner, None)
            self._absent.discard(owner)
            if owner not in self._known:
                self._asked.pop(owner, None)


def _patch(known: _KnownObject, **metadata: object) -> PatchObject:
    version = known.object.metadata.resourceVersion
    body: Json = {"metadata": {**metadata, "resourceVersion": version}}
    return PatchObject(known.path, known.object.uid, body)


def _without_finalizer(known: _KnownObject, finalizer: str) -> PatchObject:
    present = known.object.metadata.finalizers or []
    return _patch(known, finalizers=[one for one in present if one != finalizer])
