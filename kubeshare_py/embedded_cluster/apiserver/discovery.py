"""The kinds that are served, and how clients discover them: /api, /apis, /version, OpenAPI."""

import hashlib
from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec

from kubeshare_py.embedded_cluster.kinds.custom_kinds import defined_kinds
from kubeshare_py.embedded_cluster.kinds.definitions import DEFINITIONS
from kubeshare_py.embedded_cluster.kinds.schemas import EMBEDDED
from kubeshare_py.embedded_cluster.protocol.fields import TYPES
from kubeshare_py.embedded_cluster.protocol.messages import ApiRequest, ApiResponse, json_response
from kubeshare_py.embedded_cluster.protocol.resources import Resource, Subresource, by_rank
from kubeshare_py.embedded_cluster.protocol.status import Json, no_such_resource
from kubeshare_py.embedded_cluster.protocol.store import ApiStore, StoredObject

# Discovery: /version, /api, /apis in the aggregated and the legacy form.


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
    if row.subresources:
        body["subresources"] = [_discovered_part(row, part) for part in row.subresources]
    return {**body, **_more_names(row)}


def _more_names(row: Resource) -> Json:
    names = {"shortNames": list(row.short_names), "categories": list(row.categories)}
    return {field: found for field, found in names.items() if found}


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
    return {
        "name": row.plural,
        "singularName": row.singular,
        "namespaced": row.namespaced,
        "kind": row.kind,
        "verbs": list(row.listed_verbs or row.verbs),
        **_more_names(row),
    }


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


# All kinds that are served: the fixed ones, and those of definitions in the store.


class Catalogue:
    """Look-ups of kinds. Kinds of definitions are read anew whenever these change.

    Iterating over it gives every kind that is stored, served or not.
    """

    def __init__(self, fixed: Sequence[Resource], store: ApiStore) -> None:
        self._store = store
        self._fixed = tuple(fixed)
        self._served_fixed = with_reviews(fixed)
        self._rows = {(row.api_version, row.plural): row for row in self._served_fixed}
        self._groups = {row.group for row in self._served_fixed}
        self._entries: tuple[StoredObject, ...] = ()
        self._custom: tuple[Resource, ...] = ()

    def __iter__(self) -> Iterator[Resource]:
        yield from self._fixed
        yield from self._defined()

    def served(self) -> tuple[Resource, ...]:
        """The kinds that clients can discover."""
        return self._served_fixed + tuple(row for row in self._defined() if row.verbs)

    def find(self, api_version: str, plural: str) -> Resource | None:
        """The kind served under a URL."""
        found = self._rows.get((api_version, plural))
        if found is not None:
            return found
        wanted = (api_version, plural)
        rows = (row for row in self._defined() if row.verbs)
        return next((row for row in rows if (row.api_version, row.plural) == wanted), None)

    def is_fixed(self, group: str) -> bool:
        """Whether a group is one of the fixed ones."""
        return group in self._groups

    def serves(self, group: str, version: str = "") -> bool:
        """Whether there is any kind of that group, in that version where definitions make it."""
        return self.is_fixed(group) or any(
            row.group == group and version in ("", row.version)
            for row in self._defined()
            if row.verbs
        )

    def _defined(self) -> tuple[Resource, ...]:
        entries = tuple(self._store.entries(DEFINITIONS.store_bucket))
        if [*map(id, entries)] != [*map(id, self._entries)]:
            self._entries = entries
            self._custom = tuple(row for entry in entries for row in defined_kinds(entry.object))
        return self._custom


# OpenAPI schemas of custom kinds, for `kubectl explain`.
#
# The built-in kinds have none: with them, kubectl would compute its patches from lists' merge keys,
# which are in no schema here.


_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_SHARED = {"Meta": f"{_META}.ObjectMeta", "OwnerReference": f"{_META}.OwnerReference"}
_EITHER = "x-kubernetes-int-or-string"
_LETTERS = {
    **dict.fromkeys("seq", "string"),
    **dict.fromkeys("iz", "integer"),
    **dict.fromkeys("bo", "boolean"),
    "n": "number",
    "*": "object",
}
_ABOUT_KIND = "The kind of this object, in CamelCase; the URL says it too. Cannot be changed."
_ABOUT_VERSION = "The group and version that this object is written in."
_ABOUT_METADATA = "Name, labels, owners and whatever else all objects have."


def schemas_of(rows: list[Resource]) -> Json:
    """`components.schemas` of one group version's document."""
    found: Json = {}
    for row in rows:
        if row.schema is not None:
            found[schema_name(row)] = _published(row, row.schema)
    return {**found, **_shared()} if found else {}


def schema_name(row: Resource) -> str:
    """`com.example.v1.Widget`."""
    return ".".join([*reversed(row.group.split(".")), row.version, row.kind])


def _published(row: Resource, schema: Json) -> Json:
    kind = {"group": row.group, "kind": row.kind, "version": row.version}
    body = {**_with_meta(_plain(schema)), "x-kubernetes-group-version-kind": [kind]}
    if row.selectable:
        fields = [{"fieldPath": path} for path in row.selectable]
        body["x-kubernetes-selectable-fields"] = fields
    return body


def _with_meta(schema: Json) -> Json:
    """The schema with metadata, in the root and in every embedded object."""
    metadata = {"description": _ABOUT_METADATA, "allOf": [_reference("Meta")]}
    given = {
        "apiVersion": {"description": _ABOUT_VERSION, "type": "string"},
        "kind": {"description": _ABOUT_KIND, "type": "string"},
        "metadata": metadata,
    }
    return {**schema, "properties": {**schema.get("properties", {}), **given}}


def _plain(schema: Json) -> Json:
    body = dict(schema)
    if body.get(_EITHER):
        body.setdefault("anyOf", [{"type": "integer"}, {"type": "string"}])
    if "properties" in body:
        body["properties"] = {name: _plain(one) for name, one in body["properties"].items()}
    for name in ("items", "additionalProperties"):
        if isinstance(body.get(name), dict):
            body[name] = _plain(body[name])
    return _with_meta(body) if body.get(EMBEDDED) else body


def _shared() -> Json:
    return {
        name: {
            "type": "object",
            "properties": {field: _typed(letter) for field, letter in TYPES[kind].items()},
        }
        for kind, name in _SHARED.items()
    }


def _typed(letter: str) -> Json:
    if letter[0] == "[":
        return {"type": "array", "items": _typed(letter[1:-1])}
    if letter[0] == "{":
        return {"type": "object", "additionalProperties": _typed(letter[1:-1])}
    return {"type": _LETTERS[letter]} if letter in _LETTERS else _reference(letter)


def _reference(kind: str) -> Json:
    return {"$ref": f"#/components/schemas/{_SHARED[kind]}"}


# The smallest OpenAPI v3 documents with which `kubectl apply` and `create -f` work.
#
# kubectl searches, per kind, for a PATCH operation with the query parameter `fieldValidation`; it
# then leaves validation to the server. Only custom kinds have schemas: `kubectl explain` shows
# nothing for the others.


_ROOT = "/openapi/v3"
_V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


def openapi(
    path: str, accept: str, kinds: Sequence[Resource], aggregated: Sequence[Resource] = ()
) -> ApiResponse:
    """GET /openapi/v2, /openapi/v3 and one v3 document per group version; 404 for others.

    Those of `aggregated` kinds are listed; their servers have the documents.
    """
    if path == "/openapi/v2":
        return _version_2(accept)
    if path.rstrip("/") == _ROOT:
        paths = {
            _prefix(version): {"serverRelativeURL": _url(version, kinds)}
            for version in _versions(kinds)
        }
        for version in _versions(aggregated):
            prefix = _prefix(version)
            paths.setdefault(prefix, {"serverRelativeURL": f"{_ROOT}/{prefix}"})
        return json_response({"paths": paths})
    for version in _versions(kinds):
        if path == f"{_ROOT}/{_prefix(version)}":
            return json_response(_document(version, kinds))
    raise no_such_resource()


def _version_2(accept: str) -> ApiResponse:
    """A document without definitions.

    kubectl reads it (in protobuf, where nothing is an empty document) to validate `kind: List`; it
    skips kinds that are not defined there.
    """
    if "protobuf" in accept:
        return ApiResponse(content_type=_V2_PROTOBUF)
    info = {"title": "kubeshare-py embedded API server", "version": "v1"}
    return json_response({"swagger": "2.0", "info": info, "paths": {}})


def _versions(kinds: Sequence[Resource]) -> list[str]:
    return sorted({row.api_version for row in kinds})


def _prefix(version: str) -> str:
    return f"apis/{version}" if "/" in version else f"api/{version}"


def _url(version: str, kinds: Sequence[Resource]) -> str:
    # kubectl keeps a document for as long as its hash is the same.
    document = msgspec.json.encode(_document(version, kinds))
    digest = hashlib.sha256(document).hexdigest()[:16].upper()
    return f"{_ROOT}/{_prefix(version)}?hash={digest}"


def _document(version: str, kinds: Sequence[Resource]) -> Json:
    rows = [row for row in kinds if row.api_version == version]
    paths = {_path(row): {"patch": _operation(row)} for row in rows}
    info = {"title": "kubeshare-py embedded API server", "version": version}
    components = {"schemas": schemas_of(rows)}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": components}


def _path(row: Resource) -> str:
    middle = "namespaces/{namespace}/" if row.namespaced else ""
    return f"/{_prefix(row.api_version)}/{middle}{row.plural}/{{name}}"


def _operation(row: Resource) -> Json:
    return {
        "parameters": [
            {"name": name, "in": "query", "schema": {"type": "string"}}
            for name in ("dryRun", "fieldManager", "fieldValidation")
        ],
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": {
            "group": row.group,
            "version": row.version,
            "kind": row.kind,
        },
    }
