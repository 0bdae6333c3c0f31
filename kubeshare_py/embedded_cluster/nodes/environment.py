"""The environment that a kubelet gives to a pod's containers, as far as the pod determines it.

Rules:
https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
and https://kubernetes.io/docs/concepts/workloads/pods/downward-api/. Left out, because the
simulation has none of them: config maps, secrets, service links, resource fields.
"""

import re
from collections.abc import Mapping

from kubeshare_py.embedded_cluster.controllers.unstructured import Json, UnstructuredObject

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
