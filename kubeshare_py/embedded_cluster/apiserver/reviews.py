"""TokenReviews and SubjectAccessReviews: served but never stored.

https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-review-v1/ and
https://kubernetes.io/docs/reference/kubernetes-api/authorization-resources/subject-access-review-v1/
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import msgspec

from kubeshare_py.embedded_cluster.protocol.messages import (
    ADMIN_GROUPS,
    ApiRequest,
    ApiResponse,
    RequestUser,
    json_response,
)
from kubeshare_py.embedded_cluster.protocol.resources import READ_VERBS, Resource
from kubeshare_py.embedded_cluster.protocol.status import Json, bad_request, method_not_allowed


@dataclass(slots=True)
class AccessGrants:
    """The users of tokens, and the rights that reviews report to other servers.

    This server allows every known user everything. `paths` are nonResourceURLs by user, with a
    final `*` for a prefix; `objects` are (resource.group, namespace) that a user may read, "" for
    all namespaces. Administrators may read all.
    """

    user_of: Callable[[str], RequestUser | None] = lambda token: None
    paths: dict[str, list[str]] = field(default_factory=dict)
    objects: dict[str, set[tuple[str, str]]] = field(default_factory=dict)


def review(request: ApiRequest, resource: Resource, access: AccessGrants) -> ApiResponse:
    """POST of any review; the spec is not repeated in the answer."""
    if request.method != "POST":
        raise method_not_allowed()
    body = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": {}}
    status = REVIEWS[resource.kind](request, access)
    return json_response({**body, "status": status}, 201)


def _token(request: ApiRequest, access: AccessGrants) -> Json:
    token = _spec(request).get("token")
    user = access.user_of(token) if isinstance(token, str) and token else None
    if user is None:
        # With an empty user, as Go writes it.
        return {"user": {}, "error": "[invalid bearer token, unknown]"}
    return {"authenticated": True, "user": _user_info(user)}


def _access(request: ApiRequest, access: AccessGrants) -> Json:
    spec = _spec(request)
    if ADMIN_GROUPS[0] in (spec.get("groups") or []):
        return {"allowed": True}
    user = spec.get("user", "")
    if asked := spec.get("resourceAttributes"):
        return {"allowed": _may_read(access.objects.get(user, set()), asked)}
    path = (spec.get("nonResourceAttributes") or {}).get("path", "")
    return {"allowed": any(_matches(pattern, path) for pattern in access.paths.get(user, []))}


def _may_read(held: Collection[tuple[str, str]], asked: Json) -> bool:
    name, namespace = (
        f"{asked.get('resource', '')}.{asked.get('group', '')}",
        asked.get("namespace"),
    )
    reads = asked.get("verb") in READ_VERBS
    return reads and bool({(name, ""), (name, namespace or "")} & {*held})


def _self(request: ApiRequest, _access: AccessGrants) -> Json:
    return {"userInfo": _user_info(request.user)}


def _self_access(_request: ApiRequest, _access: AccessGrants) -> Json:
    return {"allowed": True}


def _matches(pattern: str, path: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith("*") else path == pattern


def _spec(request: ApiRequest) -> Json:
    try:
        body = msgspec.json.decode(request.body)
        spec = body["spec"]
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise bad_request(f"the review has no spec: {error}") from error
    if not isinstance(spec, dict):
        raise bad_request("the review's spec is no object")
    return spec


def _user_info(user: RequestUser) -> Json:
    return {"username": user.name, "groups": list(user.groups)}


REVIEWS: Mapping[str, Callable[[ApiRequest, AccessGrants], Json]] = {
    "TokenReview": _token,
    "SubjectAccessReview": _access,
    "SelfSubjectReview": _self,
    "SelfSubjectAccessReview": _self_access,
}
