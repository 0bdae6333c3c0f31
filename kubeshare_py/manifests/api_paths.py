"""Paths of objects in the Kubernetes API: the one place where names become parts of paths.

A name may come from a port, from an annotation or from a user, so every segment is escaped here: a
name with "?", "/" or ".." stays one name, which the API server refuses or does not find. A test in
tests/architecture keeps other modules from making paths.
"""

import re

from kubeshare_py.domain.identity import PodKey

CORE = "/api/v1"
#: The characters that RFC 3986 (2.3) leaves as they are; all of an RFC 1123 name is among them.
_UNRESERVED = re.compile(r"[A-Za-z0-9._~-]+")
#: What servers and proxies remove from paths, so that the path of another object would be left: a
#: DELETE of a pod without a name would delete all pods.
_REMOVED = ("", ".", "..")
#: "%", which no object has in its name: IsValidPathSegmentName of
#: k8s.io/apimachinery/pkg/api/validation/path.
_NO_NAME = "%25"
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_RFC_1123_LABEL = re.compile(_LABEL)
_RFC_1123_SUBDOMAIN = re.compile(rf"{_LABEL}([.]{_LABEL})*")
LONGEST_LABEL, LONGEST_SUBDOMAIN = 63, 253


def object_path(api: str, plural: str, name: str, namespace: str | None = None) -> str:
    """The path of an object; `api` is as `CORE` or `/apis/apps/v1`, None: it has no namespace."""
    return f"{collection_path(api, plural, namespace)}/{path_segment(name)}"


def collection_path(api: str, plural: str, namespace: str | None = None) -> str:
    """The path of all objects of a kind, in one namespace or (None) in all."""
    if namespace is None:
        return f"{api}/{plural}"
    return f"{api}/namespaces/{path_segment(namespace)}/{plural}"


def pod_path(key: PodKey) -> str:
    """The path of a pod."""
    return object_path(CORE, "pods", key.name, key.namespace)


def node_path(node: str) -> str:
    """The path of a Node."""
    return object_path(CORE, "nodes", node)


def path_segment(name: str) -> str:
    """The name as one segment of a path; never empty, and never one that is removed from paths."""
    if name in _REMOVED:
        return _NO_NAME
    if _UNRESERVED.fullmatch(name):
        return name
    return "".join(
        chr(byte) if _UNRESERVED.fullmatch(chr(byte)) else f"%{byte:02X}"
        for byte in name.encode("utf-8", "surrogatepass")
    )


def is_label_name(name: str) -> bool:
    """Whether it may name a namespace: an RFC 1123 label."""
    return len(name) <= LONGEST_LABEL and _RFC_1123_LABEL.fullmatch(name) is not None


def is_subdomain_name(name: str) -> bool:
    """Whether it may name a pod or a Node: an RFC 1123 subdomain."""
    return len(name) <= LONGEST_SUBDOMAIN and _RFC_1123_SUBDOMAIN.fullmatch(name) is not None
