"""The API server as one function: a request in, a response or a watch out.

`ApiService.handle` is pure but for its own store: no I/O, no clock, chance from a given generator.
"""

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from kubeshare_py.embedded_cluster.apiserver import discovery, reads, subresources, writes
from kubeshare_py.embedded_cluster.apiserver.crd_control import settle
from kubeshare_py.embedded_cluster.apiserver.discovery import Catalogue
from kubeshare_py.embedded_cluster.kinds.kinds import KINDS
from kubeshare_py.embedded_cluster.kinds.pods import SYSTEM_CLASSES
from kubeshare_py.embedded_cluster.protocol.messages import (
    ADMIN_GROUPS,
    ApiRequest,
    ApiResponse,
    Call,
    RequestUser,
    WatchAnswer,
    json_response,
    refusal_response,
)
from kubeshare_py.embedded_cluster.protocol.mutation import Mutation, unchanged
from kubeshare_py.embedded_cluster.protocol.resources import READ_VERBS, Resource
from kubeshare_py.embedded_cluster.protocol.status import (
    ApiRefusal,
    Json,
    bad_request,
    method_not_allowed,
    no_such_resource,
    not_found,
)
from kubeshare_py.embedded_cluster.protocol.store import ApiStore
from kubeshare_py.manifests.state_group import GROUP

# TokenReviews and SubjectAccessReviews: served but never stored.
#
# https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-review-v1/ and
# https://kubernetes.io/docs/reference/kubernetes-api/authorization-resources/subject-access-review-v1/


@dataclass(slots=True)
class AccessGrants:
    """The users of tokens, and the rights that reviews report to other servers.

    This server allows every known user everything. `paths` are nonResourceURLs by user, with a
    final `*` for a prefix; `objects` are (resource.group, namespace) that a user may read, "" for
    all namespaces; `creates` are those that a user may create. Administrators may do everything.
    """

    user_of: Callable[[str], RequestUser | None] = lambda token: None
    paths: dict[str, list[str]] = field(default_factory=dict)
    objects: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    creates: dict[str, set[tuple[str, str]]] = field(default_factory=dict)


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
        verb = asked.get("verb")
        rights = access.creates if verb == "create" else access.objects
        is_known = verb == "create" or verb in READ_VERBS
        return {"allowed": is_known and _is_held(rights.get(user, set()), asked)}
    path = (spec.get("nonResourceAttributes") or {}).get("path", "")
    return {"allowed": any(_matches(pattern, path) for pattern in access.paths.get(user, []))}


def _is_held(held: Collection[tuple[str, str]], asked: Json) -> bool:
    name, namespace = (
        f"{asked.get('resource', '')}.{asked.get('group', '')}",
        asked.get("namespace"),
    )
    return bool({(name, ""), (name, namespace or "")} & {*held})


def _self(request: ApiRequest, _access: AccessGrants) -> Json:
    return {"userInfo": _user_info(request.user)}


def _self_access(request: ApiRequest, access: AccessGrants) -> Json:
    """This server allows everything; the state is another server's, which asks what `_access` says.

    So what users are told of their own rights is what they then may do. kubectl asks in protobuf,
    which is not read here.
    """
    if ADMIN_GROUPS[0] in request.user.groups or not request.body.startswith(b"{"):
        return {"allowed": True}
    asked = _spec(request).get("resourceAttributes") or {}
    if asked.get("group") != GROUP:
        return {"allowed": True}
    return {"allowed": _is_held(access.objects.get(request.user.name, set()), asked)}


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


FIRST_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_FIRST_OBJECTS: tuple[tuple[str, Sequence[Json]], ...] = (
    ("/api/v1/namespaces", [{"metadata": {"name": name}} for name in FIRST_NAMESPACES]),
    ("/apis/scheduling.k8s.io/v1/priorityclasses", SYSTEM_CLASSES),
)
_NO_PAGE = ApiResponse(
    status=404, body=b"404 page not found\n", content_type="text/plain; charset=utf-8"
)
_PREFIXES = {"api": 2, "apis": 3}

ApiAnswer = ApiResponse | WatchAnswer
Handler = Callable[[Call], ApiAnswer]

_OBJECT: dict[str, tuple[str, Handler]] = {
    "GET": ("get", reads.get),
    "PUT": ("update", writes.update),
    "PATCH": ("patch", writes.patch),
    "DELETE": ("delete", writes.delete),
}
_COLLECTION: dict[str, tuple[str, Handler]] = {
    "GET": ("list", reads.listing),
    "POST": ("create", writes.create),
    "DELETE": ("deletecollection", writes.delete_collection),
}
_PARTS: dict[tuple[str, str], Handler] = {
    ("status", "GET"): reads.get,
    ("status", "PUT"): writes.update,
    ("status", "PATCH"): writes.patch,
    ("scale", "GET"): subresources.get_scale,
    ("scale", "PUT"): subresources.update_scale,
    ("scale", "PATCH"): subresources.patch_scale,
    ("binding", "POST"): subresources.bind,
    ("eviction", "POST"): subresources.evict,
    ("log", "GET"): subresources.log,
    ("exec", "GET"): subresources.stream,
    ("exec", "POST"): subresources.stream,
    ("attach", "GET"): subresources.stream,
    ("attach", "POST"): subresources.stream,
    ("portforward", "GET"): subresources.stream,
    ("portforward", "POST"): subresources.stream,
}


class ApiService:
    """A Kubernetes API server without network and clock."""

    def __init__(
        self,
        *,
        rng: random.Random,
        now: float,
        store: ApiStore | None = None,
        kinds: Sequence[Resource] = KINDS,
    ) -> None:
        self.store = store or ApiStore()
        self.access = AccessGrants()
        #: What is done to new pods.
        self.mutation: Mutation = unchanged
        #: What other servers serve, as they say themselves: shown, and never asked for here.
        self.aggregated: tuple[Resource, ...] = ()
        self._rng = rng
        self._kinds = Catalogue(kinds, self.store)
        for path, objects in _FIRST_OBJECTS:
            for one in objects:
                body = msgspec.json.encode(one)
                self.handle(ApiRequest(method="POST", path=path, body=body), now)

    def handle(self, request: ApiRequest, now: float) -> ApiAnswer:
        """Answer one request; `now` in seconds since 1970."""
        self.store.now = now
        try:
            answer = self._answer(request, now)
        except ApiRefusal as refusal:
            return refusal_response(refusal)
        if request.method != "GET":
            settle(self.store, now, self._rng)
        return answer

    def _answer(self, request: ApiRequest, now: float) -> ApiAnswer:
        path = request.path.rstrip("/") or "/"
        parts = path.strip("/").split("/")
        if parts[0] == "apis" and parts[1:2] and not self._serves(parts[1:3]):
            return _NO_PAGE
        if len(parts) > _PREFIXES.get(parts[0], len(parts)):
            return self._resource(request, parts, now)
        if request.method != "GET":
            raise method_not_allowed()
        return self._page(request, path, parts[0])

    def _serves(self, group_version: Sequence[str]) -> bool:
        """Whether there is such a group, or such a version of it."""
        if len(group_version) == 1 and any(
            row.group == group_version[0] for row in self.aggregated
        ):
            return True
        return self._kinds.serves(*group_version)

    def _page(self, request: ApiRequest, path: str, first: str) -> ApiResponse:
        """What is not about objects."""
        if path in ("/healthz", "/livez", "/readyz"):
            return ApiResponse(body=b"ok", content_type="text/plain")
        if path == "/version":
            return discovery.version()
        if first in _PREFIXES:
            return discovery.discover(request, (*self._kinds.served(), *self.aggregated))
        if first == "openapi":
            return discovery.openapi(path, request.accept, self._kinds.served(), self.aggregated)
        return _NO_PAGE

    def _resource(self, request: ApiRequest, parts: list[str], now: float) -> ApiAnswer:
        depth = _PREFIXES[parts[0]]
        namespace, rest = "", parts[depth:]
        if rest[0] == "namespaces" and rest[2:] not in ([], ["status"]):
            namespace, rest = rest[1], rest[2:]
        plural, name, subresource, *deeper = [*rest, "", ""]
        resource = self._kinds.find("/".join(parts[1:depth]), plural)
        if resource is None or any(deeper) or (namespace and not resource.namespaced):
            if depth == _PREFIXES["apis"] and not self._kinds.is_fixed(parts[1]):
                return _NO_PAGE
            raise no_such_resource()
        if resource.kind in REVIEWS:
            return review(request, resource, self.access)
        call = Call(
            request=request,
            resource=resource,
            store=self.store,
            rng=self._rng,
            now=now,
            kinds=self._kinds,
            namespace=namespace,
            name=name,
            subresource=subresource,
            mutation=self.mutation,
        )
        answer = _handler(call)(call)
        return _warned(answer, resource) if resource.warning else answer


def _warned(answer: ApiAnswer, resource: Resource) -> ApiAnswer:
    if not isinstance(answer, ApiResponse):
        return answer
    warning = ("Warning", f'299 - "{resource.warning}"')
    return replace(answer, headers=(warning, *answer.headers))


def _no_page(_call: Call) -> ApiResponse:
    return _NO_PAGE


def _handler(call: Call) -> Handler:
    request, resource = call.request, call.resource
    if call.subresource:
        if resource.subresource(call.subresource) is None:
            missing = not_found(resource.named(call.name))
            raise missing if resource.definition else no_such_resource()
        found = _PARTS.get((call.subresource, request.method))
        if found is None:
            raise method_not_allowed()
        return found
    if request.method == "GET" and call.option("watch") in ("true", "1"):
        return reads.watch
    table = _OBJECT if call.name else _COLLECTION
    verb, handler = table.get(request.method, ("", reads.get))
    unscoped = resource.namespaced and not call.namespace and request.method != "GET"
    if unscoped and resource.definition:
        return _no_page
    if verb not in resource.verbs or unscoped:
        raise method_not_allowed()
    return handler
