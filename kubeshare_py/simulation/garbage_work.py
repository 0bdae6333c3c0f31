"""What the garbage collector watches, and what it asks for."""

from dataclasses import dataclass

from kubeshare_py.simulation.loose_objects import Json


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind whose objects own or are owned; `prefix` is its group version's path."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def path(self) -> str:
        """Where all of them are listed."""
        prefix = "/apis" if "/" in self.api_version else "/api"
        return f"{prefix}/{self.api_version}/{self.plural}"

    def object_path(self, namespace: str, name: str) -> str:
        """Where one of them is."""
        if not self.namespaced:
            return f"{self.path}/{name}"
        return f"{self.path.removesuffix(self.plural)}namespaces/{namespace}/{self.plural}/{name}"


PODS = Kind("v1", "Pod", "pods")
JOBS = Kind("batch/v1", "Job", "jobs")


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Delete an object, in the background, if it still is the one with this uid."""

    path: str
    uid: str


@dataclass(frozen=True, slots=True)
class PatchObject:
    """Merge-patch an object; the body has its resourceVersion, so that nobody is overwritten."""

    path: str
    uid: str
    body: Json


@dataclass(frozen=True, slots=True)
class LookForOwner:
    """Find out whether an owner is there; report with `owner_absent` or `owner_present`."""

    path: str
    uid: str


GarbageWork = DeleteObject | PatchObject | LookForOwner
