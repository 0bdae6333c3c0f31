"""What a simulated controller asks for: objects made, deleted and changed, a status, events."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kubeshare_py.embedded_cluster.controllers.loose_objects import Json, LooseObject
from kubeshare_py.embedded_cluster.controllers.object_kinds import Kind


@dataclass(frozen=True, slots=True)
class ControllerEvent:
    """An event about the object that a controller looks after.

    In a message, {name} stands for another object's name and {error} for what the server said.
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
    """An object to be made, and what is told about it."""

    body: Json
    made: ControllerEvent | None = None
    refused: ControllerEvent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """An object to be deleted."""

    object: LooseObject
    done: ControllerEvent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A merge patch of an object as it was seen: refused if it has changed since."""

    object: LooseObject
    body: Json
    done: ControllerEvent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What to do for one object.

    What is made, deleted or changed is of the kind that the controller's role calls dependents.
    `status` is a merge patch body, None where the status is right already. At `look_at`, Unix time
    in seconds, the object needs another look.
    """

    create: tuple[Creation, ...] = ()
    delete: tuple[Deletion, ...] = ()
    change: tuple[Change, ...] = ()
    status: Json | None = None
    events: tuple[ControllerEvent, ...] = ()
    look_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """What a controller looks after. `component` is the source of its events."""

    component: str
    owner: Kind
    dependents: Kind
    watched: tuple[Kind, ...]


def new_pod(body: Json) -> Creation:
    """A pod to be made, told as all controllers tell it."""
    return Creation(body=body, made=_POD_MADE, refused=_POD_REFUSED)


def surplus_pod(pod: LooseObject) -> Deletion:
    """A pod to be deleted, told as all controllers tell it."""
    return Deletion(object=pod, done=_POD_DELETED)


def difference(old: Json, new: Json) -> Json:
    """The JSON merge patch (RFC 7396) that makes `new` of `old`."""
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
    owner: LooseObject, status: Json, annotations: Mapping[str, str] | None = None
) -> Json | None:
    """The patch of /status to this status and with these annotations; None if nothing changes."""
    changed = difference(owner.status, status)
    noted = changed_annotations(owner, annotations or {})
    if not changed and not noted:
        return None
    metadata: Json = {"resourceVersion": owner.metadata.resourceVersion}
    if noted:
        metadata["annotations"] = noted
    return {"metadata": metadata, "status": changed}


def changed_annotations(found: LooseObject, wanted: Mapping[str, str]) -> dict[str, str]:
    """Those that an object does not have yet."""
    present = found.metadata.annotations or {}
    return {name: text for name, text in wanted.items() if present.get(name) != text}
