"""Container images: those that a pod needs, and those that nodes have."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PodImages:
    """The images of a pod's containers and volumes, sorted, with a tag or digest.

    An image that several of them use is there as often. `containers` is the number of containers.
    """

    names: tuple[str, ...]
    containers: int


@dataclass(frozen=True, slots=True)
class NodeImage:
    """An image on a node: all its names, and its size in bytes."""

    names: tuple[str, ...]
    size: int
