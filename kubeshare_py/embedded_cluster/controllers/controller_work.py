"""The work of a simulated controller: creations, deletions, changes, a status, events."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kubeshare_py.embedded_cluster.controllers.object_kinds import ObjectKind
from kubeshare_py.embedded_cluster.controllers.unstructured import Json, UnstructuredObject


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
    """The work for one object.

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
