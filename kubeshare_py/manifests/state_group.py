"""The API group of the scheduler's state, as kube-apiserver and kubectl discover it.

https://kubernetes.io/docs/reference/using-api/api-concepts/#discovery-api
"""

from collections.abc import Mapping
from typing import Any

GROUP, VERSION = "state.kubeshare.io", "v1"
API_VERSION = f"{GROUP}/{VERSION}"
#: The group's path, and the name of its APIService.
ROOT = f"/apis/{API_VERSION}"
API_SERVICE = f"{VERSION}.{GROUP}"
GPUS, PODS = "gpus", "pods"
#: The kinds: one pod with the reasons for where it is, many pods, all cards.
POD, POD_LIST, GPU, GPU_LIST = "PodState", "PodStateList", "GPU", "GPUList"

Json = dict[str, Any]

_DISCOVERY = "apidiscovery.k8s.io"
_KINDS: Mapping[str, tuple[str, str, bool, tuple[str, ...]]] = {
    GPUS: (GPU, "gpu", False, ("get", "list")),
    PODS: (POD, "podstate", True, ("get", "list")),
}
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
}


def status(code: int, message: str, resource: str = "", name: str = "") -> Json:
    """An error in the form of the Kubernetes API."""
    details = {"group": GROUP, "kind": resource} if resource else {}
    if name:
        details["name"] = name
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": _REASONS.get(code, "InternalError"),
        **({"details": details} if details else {}),
        "code": code,
    }


def resource_list() -> Json:
    """GET /apis/state.kubeshare.io/v1."""
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": API_VERSION,
        "resources": [
            {
                "name": plural,
                "singularName": singular,
                "namespaced": namespaced,
                "kind": kind,
                "verbs": list(verbs),
            }
            for plural, (kind, singular, namespaced, verbs) in _KINDS.items()
        ],
    }


def group() -> Json:
    """GET /apis/state.kubeshare.io."""
    return {"kind": "APIGroup", "apiVersion": "v1", **_group()}


def group_list() -> Json:
    """GET /apis."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group()]}


def discovery_type(accept: str) -> str:
    """The content type of aggregated discovery that a client prefers; "" if none."""
    for part in accept.split(","):
        media, *options = (piece.strip() for piece in part.split(";"))
        given = dict(option.partition("=")[::2] for option in options)
        if media == "application/json" and given.get("g") == _DISCOVERY:
            if given.get("v") in ("v2", "v2beta1"):
                return f"{media};g={_DISCOVERY};v={given['v']};as=APIGroupDiscoveryList"
        elif media in ("application/json", "*/*") and "g" not in given:
            return ""
    return ""


def group_discovery(content_type: str) -> Json:
    """GET /apis in the aggregated form."""
    version = "v2beta1" if "v=v2beta1" in content_type else "v2"
    resources = [
        {
            "resource": plural,
            "responseKind": {"group": GROUP, "version": VERSION, "kind": kind},
            "scope": "Namespaced" if namespaced else "Cluster",
            "singularResource": singular,
            "verbs": list(verbs),
        }
        for plural, (kind, singular, namespaced, verbs) in _KINDS.items()
    ]
    item = {
        "metadata": {"name": GROUP, "creationTimestamp": None},
        "versions": [{"version": VERSION, "resources": resources, "freshness": "Current"}],
    }
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"{_DISCOVERY}/{version}",
        "metadata": {},
        "items": [item],
    }


def openapi_v2() -> Json:
    """GET /openapi/v2: no types, because the documents are read-only."""
    return {"swagger": "2.0", "info": _info(), "paths": {}, "definitions": {}}


def openapi_v3() -> Json:
    """GET /openapi/v3: the path of each group's document."""
    return {"paths": {ROOT.lstrip("/"): {"serverRelativeURL": f"/openapi/v3{ROOT}"}}}


def _group() -> Json:
    version = {"groupVersion": API_VERSION, "version": VERSION}
    return {"name": GROUP, "versions": [version], "preferredVersion": version}


def _info() -> Json:
    return {"title": GROUP, "version": VERSION}
