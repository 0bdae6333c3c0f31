"""What all simulated controllers share: their work, ownership of objects, caches."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import msgspec

from kubeshare_py.embedded_cluster.controllers.unstructured import (
    Json,
    ObjectKind,
    Owner,
    UnstructuredObject,
    is_finished,
)
from kubeshare_py.embedded_cluster.protocol.selectors import selects

MaybeObject = UnstructuredObject | None

# The work of a simulated controller: creations, deletions, changes, a status, events.


@dataclass(frozen=True, slots=True)
class ControllerEvent:
    """An event about the object of a controller.

    In a message, {name} stands for another object's name and {error} for the server's error.
    """

    type: str
    reason: str
    message: str

    def about(self, *, name: str = "", error: str = "") -> "ControllerEvent":
        """The event with its message filled in."""
        return replace(self, message=self.message.format(name=name, error=error))


_POD_MADE = ControllerEvent("Normal", "SuccessfulCreate", "Created pod: {name}")
_POD_REFUSED = ControllerEvent("Warning", "FailedCreate", "Error creating: {error}")
_POD_DELETED = ControllerEvent("Normal", "SuccessfulDelete", "Deleted pod: {name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """An object to create, with the events for success and refusal.

    Without a `kind`, it is of the role's dependents.
    """

    body: Json
    kind: ObjectKind | None = None
    made: ControllerEvent | None = None
    refused: ControllerEvent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """An object to be deleted."""

    object: UnstructuredObject
    done: ControllerEvent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A merge patch of an object as it was seen: refused if it has changed since.

    `part` is a subresource, "" for the object itself. Without a `kind`, it is of the role's
    dependents.
    """

    object: UnstructuredObject
    body: Json
    part: str = ""
    kind: ObjectKind | None = None
    done: ControllerEvent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerWork:
    """The changes that a controller makes for one object.

    Deletions are of the role's dependents. `status` is a merge patch body,
    None if the status is right. At `look_at`, Unix time (s), the object needs another look.
    """

    create: tuple[Creation, ...] = ()
    delete: tuple[Deletion, ...] = ()
    change: tuple[Change, ...] = ()
    status: Json | None = None
    events: tuple[ControllerEvent, ...] = ()
    look_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRole:
    """The kinds of a controller. `component` is the source of its events."""

    component: str
    owner: ObjectKind
    dependents: ObjectKind
    watched: tuple[ObjectKind, ...]


def new_pod(body: Json) -> Creation:
    """A pod to create, with the usual events."""
    return Creation(body=body, made=_POD_MADE, refused=_POD_REFUSED)


def surplus_pod(pod: UnstructuredObject) -> Deletion:
    """A pod to delete, with the usual event."""
    return Deletion(object=pod, done=_POD_DELETED)


def body_of(kind: ObjectKind, metadata: Json, spec: Json) -> Json:
    """A new object."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": metadata,
        "spec": spec,
    }


def own_change(found: UnstructuredObject, body: Json, kind: ObjectKind) -> ControllerWork:
    """One merge patch of the object that work is done for."""
    return ControllerWork(change=(Change(object=found, body=body, kind=kind),))


def without_finalizer(found: UnstructuredObject, name: str, kind: ObjectKind) -> ControllerWork:
    """The end of a finalizer of the object that work is done for, if it has it."""
    held = found.metadata.finalizers or []
    if name not in held:
        return ControllerWork()
    kept = [one for one in held if one != name]
    return own_change(found, {"metadata": {"finalizers": kept}}, kind)


def difference(old: Json, new: Json) -> Json:
    """The JSON merge patch (RFC 7396) from `old` to `new`."""
    patch: Json = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            if inner := difference(before, value):
                patch[name] = inner
        elif before != value:
            patch[name] = value
    return patch


def status_patch(
    owner: UnstructuredObject, status: Json, annotations: Mapping[str, str] | None = None
) -> Json | None:
    """The patch of /status to this status and these annotations; None if nothing changes."""
    changed = difference(owner.status, status)
    noted = changed_annotations(owner, annotations or {})
    if not changed and not noted:
        return None
    metadata: Json = {"resourceVersion": owner.metadata.resourceVersion}
    if noted:
        metadata["annotations"] = noted
    return {"metadata": metadata, "status": changed}


def changed_annotations(found: UnstructuredObject, wanted: Mapping[str, str]) -> dict[str, str]:
    """The annotations that an object does not have yet."""
    present = found.metadata.annotations or {}
    return {name: text for name, text in wanted.items() if present.get(name) != text}


# Controllers of objects by ownerReferences, and which objects controllers adopt and release.
#
# Rules:
# https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/#how-a-replicaset-works


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


# Objects of one kind, indexed by the controller that owns them.


#: Stands for the time of an accepted deletion that was not seen yet.
_ACCEPTED = "accepted"

#: All of one owner ("owner", uid), or all unowned ones ("namespace", name).
_DependentGroup = tuple[str, str]


class Dependents:
    """The known objects, including requested ones that no watch has shown yet."""

    def __init__(self, owner_kind: str, touched: Callable[[str], None]) -> None:
        """`touched` is called with the uid of every owner, of that kind, that needs work."""
        self._owner_kind = owner_kind
        self._touched = touched
        self._known: dict[str, UnstructuredObject] = {}
        self._groups: dict[_DependentGroup, set[str]] = {}
        self._spaces: dict[str, set[str]] = {}
        self._created: dict[str, float] = {}
        self._deleted: set[str] = set()
        self._gone: set[str] = set()

    def listed(self, found: Iterable[UnstructuredObject], asked_at: float) -> None:
        """Take in all objects as of after `asked_at` (s), of the clock of `created`.

        One that was created later may be missing from the list and is kept.
        """
        present = {one.uid: one for one in found}
        for uid in [uid for uid in self._known if uid not in present]:
            if self._created.get(uid, asked_at - 1) < asked_at:
                self._forget(uid)
        for one in present.values():
            self._take(one)

    def seen(self, found: UnstructuredObject) -> None:
        """Take in an object as it is now."""
        self._created.pop(found.uid, None)
        self._take(found)

    def created(self, found: UnstructuredObject, now: float) -> None:
        """Take in the answer to a creation; the watch may have shown it before, or its end."""
        if found.uid not in self._known and found.uid not in self._gone:
            self._created[found.uid] = now
            self._take(found)

    def deleted(self, uid: str) -> None:
        """Record an accepted deletion: from now on the object is being deleted."""
        if uid in self._known:
            self._deleted.add(uid)
            self._take(self._known[uid])

    def gone(self, uid: str) -> None:
        """Record that an object was deleted."""
        self._gone.add(uid)
        self._forget(uid)

    def all_answered(self) -> None:
        """Record that no creation is under way any more."""
        self._gone.clear()

    def of(self, owner: str) -> list[UnstructuredObject]:
        """The objects that the owner with this uid controls."""
        return self._group(("owner", owner))

    def unowned(self, namespace: str) -> list[UnstructuredObject]:
        """The objects of a namespace without a controller."""
        return self._group(("namespace", namespace))

    def get(self, uid: str) -> UnstructuredObject | None:
        """The object with this uid, whatever its controller."""
        return self._known.get(uid)

    def within(self, namespace: str) -> list[UnstructuredObject]:
        """All objects of a namespace, whatever their controllers."""
        return [self._known[uid] for uid in sorted(self._spaces.get(namespace, ()))]

    def names(self, namespace: str) -> frozenset[str]:
        """The names in use in a namespace."""
        return frozenset(one.metadata.name for one in self.within(namespace))

    def _take(self, found: UnstructuredObject) -> None:
        if found.uid in self._known:
            self._unlink(found.uid)
        if found.uid in self._deleted and found.metadata.deletionTimestamp is None:
            doomed = msgspec.structs.replace(found.metadata, deletionTimestamp=_ACCEPTED)
            found = msgspec.structs.replace(found, metadata=doomed)
        self._known[found.uid] = found
        self._spaces.setdefault(found.metadata.namespace, set()).add(found.uid)
        group = self._group_of(found)
        if group is not None:
            self._groups.setdefault(group, set()).add(found.uid)
            self._touch(group)

    def _forget(self, uid: str) -> None:
        self._created.pop(uid, None)
        self._deleted.discard(uid)
        if uid in self._known:
            self._unlink(uid)
            self._spaces[self._known[uid].metadata.namespace].discard(uid)
            del self._known[uid]

    def _unlink(self, uid: str) -> None:
        group = self._group_of(self._known[uid])
        if group is not None:
            members = self._groups[group]
            members.discard(uid)
            if not members:
                del self._groups[group]
            self._touch(group)

    def _group(self, group: _DependentGroup) -> list[UnstructuredObject]:
        return [self._known[uid] for uid in sorted(self._groups.get(group, ()))]

    def _group_of(self, found: UnstructuredObject) -> _DependentGroup | None:
        controller = controller_of(found)
        if controller is None:
            return "namespace", found.metadata.namespace
        return ("owner", controller.uid) if controller.kind == self._owner_kind else None

    def _touch(self, group: _DependentGroup) -> None:
        kind, uid = group
        if kind == "owner":
            self._touched(uid)


# The state of a simulated controller: its objects, their dependents, and which need work.


class ControllerCache(ABC):
    """Takes in watches and answers, and gives the work once all lists are in.

    A controller whose selector claims unowned objects sets `adopts`.
    """

    role: ClassVar[ControllerRole]
    adopts: ClassVar[bool] = False

    def __init__(self) -> None:
        #: The objects of each watched kind, by uid.
        self.known: dict[ObjectKind, dict[str, UnstructuredObject]] = {
            kind: {} for kind in self.role.watched
        }
        self.dependents = Dependents(self.role.owner.kind, self.look_again)
        #: The last refusal, by the uid of its owner; and the owners waiting for another try.
        self.refusals: dict[str, str] = {}
        self.resting: set[str] = set()
        self._unlisted = set(self.role.watched)
        self._dirty: set[str] = set()

    @abstractmethod
    def work_for(self, owner: UnstructuredObject, now: float) -> ControllerWork:
        """The changes that one object needs now; `now` is Unix time (s)."""

    def concerns(self, kind: ObjectKind, found: UnstructuredObject) -> bool:
        """Whether an object of a watched kind is taken in."""
        del kind, found
        return True

    def changed(self, kind: ObjectKind, before: MaybeObject, after: MaybeObject) -> None:
        """Mark what needs work when an object came, changed or went: one of the two is there."""
        del kind, before, after

    @property
    def owners(self) -> dict[str, UnstructuredObject]:
        """The objects that get work, by uid."""
        return self.known[self.role.owner]

    def listed(
        self, kind: ObjectKind, found: Sequence[UnstructuredObject], asked_at: float
    ) -> None:
        """Take in all objects of a kind as of after `asked_at` (s), of the clock of `created`."""
        present = {one.uid: one for one in found if self.concerns(kind, one)}
        before, self.known[kind] = self.known[kind], present
        self._unlisted.discard(kind)
        if kind == self.role.owner:
            self.look_at_all()
        elif kind == self.role.dependents:
            self.dependents.listed(present.values(), asked_at)
            if self.adopts:
                self.look_at_all()
        for uid in {**before, **present}:
            if before.get(uid) != present.get(uid):
                self.changed(kind, before.get(uid), present.get(uid))

    def seen(self, kind: ObjectKind, found: UnstructuredObject) -> None:
        """Take in an object as it is now."""
        if not self.concerns(kind, found):
            return
        before = self.known[kind].get(found.uid)
        self.known[kind][found.uid] = found
        if kind == self.role.owner:
            self._dirty.add(found.uid)
        elif kind == self.role.dependents:
            self.dependents.seen(found)
            if self.adopts and controller_of(found) is None:
                self.look_at_selectors_of(found)
        self.changed(kind, before, found)

    def gone(self, kind: ObjectKind, uid: str) -> None:
        """Take in that an object was deleted."""
        before = self.known[kind].pop(uid, None)
        if kind == self.role.owner:
            self.refusals.pop(uid, None)
            self.resting.discard(uid)
        elif kind == self.role.dependents:
            self.dependents.gone(uid)
        if before is not None:
            self.changed(kind, before, None)

    def created(self, found: UnstructuredObject, now: float) -> None:
        """Take in the answer to a creation; `now` is in seconds of a clock that is never set."""
        self.dependents.created(found, now)

    def deleted(self, uid: str) -> None:
        """Take in that a deletion was accepted."""
        self.dependents.deleted(uid)

    def refused(self, uid: str, why: str) -> None:
        """Record that a request for an object was refused; `try_again` follows later."""
        self.refusals[uid] = why
        self.resting.add(uid)

    def settled(self, uid: str) -> None:
        """Record that all work of an object was done."""
        if self.refusals.pop(uid, None) is not None:
            self._dirty.add(uid)

    def try_again(self, uid: str) -> None:
        """Allow refused requests of an object once more."""
        self.resting.discard(uid)
        self._dirty.add(uid)

    def look_again(self, uid: str) -> None:
        """Mark an object for work."""
        self._dirty.add(uid)

    def look_at_all(self) -> None:
        """Mark all objects for work."""
        self._dirty.update(self.owners)

    def look_at_namespace(self, namespace: str) -> None:
        """Mark all objects of a namespace for work."""
        self._dirty.update(
            uid for uid, one in self.owners.items() if one.metadata.namespace == namespace
        )

    def look_at_selectors_of(self, found: UnstructuredObject) -> None:
        """Mark all objects that select this one for work."""
        metadata = found.metadata
        for uid, owner in self.owners.items():
            is_near = owner.metadata.namespace == metadata.namespace
            if is_near and selects(owner.spec.get("selector"))(metadata.labels):
                self._dirty.add(uid)

    def has_work(self) -> bool:
        """Whether some object is marked for work."""
        return bool(self._dirty) and not self._unlisted

    def work(self, now: float) -> list[tuple[UnstructuredObject, ControllerWork]]:
        """Each marked object with its work; `now` is Unix time (s).

        To be called when all requests of the last call have been answered.
        """
        if not self.has_work():
            return []
        dirty, self._dirty = sorted(self._dirty), set()
        self.dependents.all_answered()
        found = (self.owners.get(uid) for uid in dirty)
        return [(owner, self.work_for(owner, now)) for owner in found if owner is not None]
