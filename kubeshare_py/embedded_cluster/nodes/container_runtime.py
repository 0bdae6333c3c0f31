"""A container's start: its environment, and the cards and folders that follow from it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kubeshare_py.embedded_cluster.controllers.unstructured import Json, UnstructuredObject

# The environment that a kubelet gives to a pod's containers, as far as the pod determines it.
#
# Rules:
# https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
# and https://kubernetes.io/docs/concepts/workloads/pods/downward-api/. Left out, because the
# simulation has none of them: config maps, secrets, service links, resource fields.


_REFERENCE = re.compile(r"\$(\$|\(([-._a-zA-Z][-._a-zA-Z0-9]*)\))")
_SUBSCRIPT = re.compile(r"metadata\.(annotations|labels)\['(.*)'\]")


def pod_environment(
    pod: UnstructuredObject, host_ip: str, pod_ip: str
) -> dict[str, dict[str, str]]:
    """Each container's variables, of all kinds of containers, by the containers' names."""
    kinds = ("initContainers", "containers", "ephemeralContainers")
    containers = [container for kind in kinds for container in pod.spec.get(kind) or []]
    fields = _fields(pod, host_ip, pod_ip)
    return {
        container["name"]: _container_environment(container, pod, fields)
        for container in containers
    }


def _container_environment(
    container: Json, pod: UnstructuredObject, fields: Mapping[str, str]
) -> dict[str, str]:
    variables: dict[str, str] = {}
    for entry in container.get("env") or []:
        source = entry.get("valueFrom")
        if source is None:
            variables[entry["name"]] = _expanded(entry.get("value") or "", variables)
        elif "fieldRef" in source:
            # A field's value is used as it is: references in it are not expanded.
            path = source["fieldRef"].get("fieldPath", "")
            variables[entry["name"]] = _field(path, pod, fields)
    return variables


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    """Replace $(NAME) by variables declared before; unknown ones stay, $$ is a plain $."""

    def replacement(found: re.Match[str]) -> str:
        if found[1] == "$":
            return "$"
        return variables.get(found[2], found[0])

    return _REFERENCE.sub(replacement, text)


def _field(path: str, pod: UnstructuredObject, fields: Mapping[str, str]) -> str:
    subscript = _SUBSCRIPT.fullmatch(path)
    if subscript is None:
        return fields.get(path, "")
    values = (
        pod.metadata.annotations if subscript[1] == "annotations" else pod.metadata.labels
    ) or {}
    # Absent is empty, not an error: NVIDIA's runtime then gives no GPU.
    return values.get(subscript[2], "")


def _fields(pod: UnstructuredObject, host_ip: str, pod_ip: str) -> dict[str, str]:
    return {
        "metadata.name": pod.metadata.name,
        "metadata.namespace": pod.metadata.namespace,
        "metadata.uid": pod.metadata.uid,
        "spec.nodeName": pod.spec.get("nodeName") or "",
        "spec.serviceAccountName": pod.spec.get("serviceAccountName") or "",
        "status.hostIP": host_ip,
        "status.hostIPs": host_ip,
        "status.podIP": pod_ip,
        "status.podIPs": pod_ip,
    }


# A node's handling of containers' variables: which cards, how much memory, which folders.
#
# The toolkit's rules: https://github.com/NVIDIA/nvidia-container-toolkit (no variable: the image's
# value, `all` for CUDA images; empty or `void`: no card; the hook apply-cuda-memory-limits needs
# both variables as whole MiB and makes the container fail otherwise). The kubelet's for
# subPathExpr:
# https://kubernetes.io/docs/concepts/storage/volumes/#using-subpath-expanded-environment


VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
REQUEST, LIMIT = "NVIDIA_GPU_MEMORY_REQUEST", "NVIDIA_GPU_MEMORY_LIMIT"
_NO_CARDS = ("", "void", "none")
_PATH_REFERENCE = re.compile(r"\$\(([^)]*)\)")

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
            found[mount["mountPath"]] = _expanded_path(mount["subPathExpr"], environment)
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


def _expanded_path(text: str, environment: Environment) -> str:
    def value(found: re.Match[str]) -> str:
        if found[1] not in environment:
            raise StartProblem(f"subPathExpr {text!r}: there is no variable {found[1]}")
        return environment[found[1]]

    path = _PATH_REFERENCE.sub(value, text)
    if path.startswith("/") or ".." in path.split("/"):
        raise StartProblem(f"subPathExpr {text!r}: {path!r} leads out of its volume")
    return path
