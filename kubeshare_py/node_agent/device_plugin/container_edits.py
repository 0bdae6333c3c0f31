"""What a container with devices gets: variables, and files of the node."""

from collections.abc import Mapping

import msgspec


class HostMount(msgspec.Struct, frozen=True, gc=False):
    """A file or folder of the node in a container."""

    host: str
    container: str
    read_only: bool = False


class ContainerEdits(msgspec.Struct, frozen=True, gc=False):
    """Variables replace those that pod and image set, and mounts those at the same place."""

    variables: Mapping[str, str] = {}
    mounts: tuple[HostMount, ...] = ()

    def and_more(self, more: "ContainerEdits") -> "ContainerEdits":
        """Both together; the variables of `more` win."""
        return ContainerEdits({**self.variables, **more.variables}, (*self.mounts, *more.mounts))
