"""Discovery: /version, /api, /apis in the aggregated and the legacy form."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from kubeshare_py.embedded_cluster.protocol.messages import ApiRequest, ApiResponse, json_response
from kubeshare_py.embedded_cluster.protocol.resources import Resource, Subresource
from kubeshare_py.embedded_cluster.protocol.status import Json, no_such_resource
from kubeshare_py.embedded_cluster.protocol.versions import by_rank

GIT_VERSION = "v1.36.3-sim"
_DISCOVERY = "apidiscovery.k8s.io"
_REVIEWS = (
    ("authentication.k8s.io", "tokenreviews", "TokenReview"),
    ("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"),
    ("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
    ("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
)


def version() -> ApiResponse:
    """GET /version."""
    major, minor = GIT_VERSION.removeprefix("v").split(".")[:2]
    return json_response(
        {
            "major": major,
            "minor": minor,
            "gitVersion": GIT_VERSION,
            "gitCommit": "",
            "gitTreeState": "clean",
            "buildDate": "2026-01-01T00:00:00Z",
            "goVersion": "none",
            "compiler": "none",
            "platform": "linux/amd64",
        }
    )


def with_reviews(kinds: Sequence[Resource]) -> tuple[Resource, ...]:
    """The kinds and the reviews, which are served but never stored."""
    reviews = tuple(
        Resource(group=group, plural=plural, kind=kind, namespaced=False, verbs=("create",))
        for group, plural, kind in _REVIEWS
    )
    return (*kinds, *reviews)


def discover(request: ApiRequest, kinds: Sequence[Resource]) -> ApiResponse:
    """GET /api, /apis and below; refuses unknown groups with 404."""
    path = request.path.rstrip("/")
    form = _aggregated(request.accept) if path in ("/api", "/apis") else ""
    if form:
        return _aggregated_list(path, form, kinds)
    if path == "/api":
        return json_response({"kind": "APIVersions", "versions": ["v1"]})
    groups = [group for group in _groups(kinds) if group[0]]
    if path == "/apis":
        listed = [_group(name, list(rows)) for name, rows in groups]
        return json_response({"kind": "APIGroupList", "apiVersion": "v1", "groups": listed})
    parts = path.removeprefix("/apis/").split("/")
    if path.startswith("/apis/") and len(parts) == 1:
        rows = next((rows for name, rows in groups if name == parts[0]), None)
        if rows is None:
            raise no_such_resource()
        return json_response({"kind": "APIGroup", "apiVersion": "v1", **_group(parts[0], rows)})
    group_version = "v1" if path == "/api/v1" else "/".join(parts)
    return _resource_list(group_version, kinds)


def _aggregated(accept: str) -> str:
    """The first aggregated version asked for ("" when plain JSON comes first)."""
    for part in accept.split(","):
        options = dict(piece.strip().partition("=")[::2] for piece in part.split(";")[1:])
        if options.get("g") == _DISCOVERY and options.get("v") in ("v2", "v2beta1"):
            return options["v"]
        if not options:
            return ""
    return ""


def _aggregated_list(path: str, form: str, kinds: Sequence[Resource]) -> ApiResponse:
    items = [_item(name, rows) for name, rows in _groups(kinds) if bool(name) == (path == "/apis")]
    body = {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"{_DISCOVERY}/{form}",
        "metadata": {},
        "items": items,
    }
    answer = json_response(body)
    return ApiResponse(
        body=answer.body,
        content_type=f"application/json;g={_DISCOVERY};v={form};as=APIGroupDiscoveryList",
        headers=(("Vary", "Accept"), ("Cache-Control", "public")),
    )


def _groups(kinds: Sequence[Resource]) -> Iterator[tuple[str, list[Resource]]]:
    for name, rows in groupby(sorted(kinds, key=lambda row: row.group), lambda row: row.group):
        yield name, list(rows)


def _item(name: str, rows: Sequence[Resource]) -> Json:
    versions = [
        {
            "version": version,
            "freshness": "Current",
            "resources": [_discovered(row) for row in rows if row.version == version],
        }
        for version in by_rank(row.version for row in rows)
    ]
    metadata: Json = {"name": name} if name else {}
    return {"metadata": {**metadata, "creationTimestamp": None}, "versions": versions}


def _discovered(row: Resource) -> Json:
    # Empty group and version are those of the list.
    kind = {"group": "", "version": "", "kind": row.kind}
    if row.definition:
        kind |= {"group": row.group, "version": row.version}
    body: Json = {
        "resource": row.plural,
        "responseKind": kind,
        "scope": "Namespaced" if row.namespaced else "Cluster",
        "singularResource": row.singular,
        "verbs": list(row.listed_verbs or row.verbs),
    }
    if row.short_names:
        body["shortNames"] = list(row.short_names)
    if row.categories:
        body["categories"] = list(row.categories)
    if row.subresources:
        body["subresources"] = [_discovered_part(row, part) for part in row.subresources]
    return body


def _discovered_part(row: Resource, part: Subresource) -> Json:
    kind = {"group": part.group, "version": part.version, "kind": part.kind or row.kind}
    if row.definition and not part.kind:
        kind |= {"group": row.group, "version": row.version}
    return {"subresource": part.name, "responseKind": kind, "verbs": list(part.verbs)}


def _group(name: str, rows: Sequence[Resource]) -> Json:
    versions = [
        {"groupVersion": f"{name}/{version}", "version": version}
        for version in by_rank(row.version for row in rows)
    ]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resource_list(group_version: str, kinds: Sequence[Resource]) -> ApiResponse:
    rows = [row for row in kinds if row.api_version == group_version]
    if not rows:
        raise no_such_resource()
    resources: list[Json] = []
    for row in rows:
        resources.append(_legacy(row))
        resources += [_legacy_part(row, part) for part in row.subresources]
    return json_response(
        {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": group_version,
            "resources": resources,
        }
    )


def _legacy(row: Resource) -> Json:
    body: Json = {
        "name": row.plural,
        "singularName": row.singular,
        "namespaced": row.namespaced,
        "kind": row.kind,
        "verbs": list(row.listed_verbs or row.verbs),
    }
    if row.short_names:
        body["shortNames"] = list(row.short_names)
    if row.categories:
        body["categories"] = list(row.categories)
    return body


def _legacy_part(row: Resource, part: Subresource) -> Json:
    body: Json = {
        "name": f"{row.plural}/{part.name}",
        "singularName": "",
        "namespaced": row.namespaced,
        "kind": part.kind or row.kind,
        "verbs": list(part.verbs),
    }
    if part.group:
        body |= {"group": part.group, "version": part.version}
    return body
