"""A node's handling of containers' variables: which cards, how much memory, which folders.

The toolkit's rules: https://github.com/NVIDIA/nvidia-container-toolkit (no variable: the image's
value, `all` for CUDA images; empty or `void`: no card; the hook apply-cuda-memory-limits needs both
variables as whole MiB and makes the container fail otherwise). The kubelet's for subPathExpr:
https://kubernetes.io/docs/concepts/storage/volumes/#using-subpath-expanded-environment
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kubeshare_py.embedded_cluster.controllers.unstructured import Json, UnstructuredObject

VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
REQUEST, LIMIT = "NVIDIA_GPU_MEMORY_REQUEST", "NVIDIA_GPU_MEMORY_LIMIT"
_NO_CARDS = ("", "void", "none")
_REFERENCE = re.compile(r"\$\(([^)]*)\)")

Environment = Mapping[str, str]


class StartProblem(ValueError):
    """The container cannot be started; the text says why."""


@dataclass(frozen=True, slots=True)
class RuntimeCards:
    """A container's cards (`all` is every card of the node), and MiB of each if limited."""

    cards: tuple[str, ...] = ()
    limit_mib: int | None = None


def given(environment: Environment, image: Environment | None = None) -> RuntimeCards:
    """The cards of a container, whose image has the variables `image`. Raises StartProblem."""
    values = {**(image or {}), **environment}
    visible = values.get(VISIBLE_DEVICES, "")
    if visible in _NO_CARDS:
        return RuntimeCards()  # Nothing is injected, so no hook checks limits.
    return RuntimeCards(tuple(visible.split(",")), _limit(values))


def folders(container: Json, environment: Environment) -> dict[str, str]:
    """The folders below each volume, by the path in the container. Raises StartProblem."""
    found = {}
    for mount in container.get("volumeMounts") or ():
        if mount.get("subPathExpr"):
            found[mount["mountPath"]] = _expanded(mount["subPathExpr"], environment)
    return found


def check_start(pod: UnstructuredObject, environments: Mapping[str, Environment]) -> None:
    """Raises StartProblem for the first container that its node could not start."""
    for container in _containers(pod.spec):
        environment = environments[container["name"]]
        try:
            folders(container, environment)
            given(environment)
        except StartProblem as problem:
            raise StartProblem(f"container {container['name']}: {problem}") from problem


def _containers(spec: Json) -> Iterator[Json]:
    lists: Sequence[str] = ("initContainers", "containers")
    return (container for kind in lists for container in spec.get(kind) or ())


def _limit(values: Environment) -> int | None:
    """MiB of each card; None if one variable is missing, which the hook accepts."""
    if REQUEST not in values or LIMIT not in values:
        return None
    for name in (REQUEST, LIMIT):
        if not (values[name].isascii() and values[name].isdecimal()):
            raise StartProblem(f"{name}={values[name]!r} is no number of MiB")
    request, limit = int(values[REQUEST]), int(values[LIMIT])
    if request > limit:
        raise StartProblem(f"{REQUEST}={request} is above {LIMIT}={limit}")
    return limit


def _expanded(text: str, environment: Environment) -> str:
    def value(found: re.Match[str]) -> str:
        if found[1] not in environment:
            raise StartProblem(f"subPathExpr {text!r}: there is no variable {found[1]}")
        return environment[found[1]]

    path = _REFERENCE.sub(value, text)
    if path.startswith("/") or ".." in path.split("/"):
        raise StartProblem(f"subPathExpr {text!r}: {path!r} leads out of its volume")
    return path
