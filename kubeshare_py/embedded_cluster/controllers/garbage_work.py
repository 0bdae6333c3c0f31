"""The work of the garbage collector."""

from dataclasses import dataclass

from kubeshare_py.embedded_cluster.controllers.unstructured import Json


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
