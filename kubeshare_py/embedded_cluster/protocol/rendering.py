"""From stored objects to response bodies: objects, lists, tables, watch lines.

What a client gets is negotiated by its Accept header: plain JSON, a Table (kubectl get), or only
the metadata.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from kubeshare_py.embedded_cluster.protocol.resources import Resource
from kubeshare_py.embedded_cluster.protocol.status import Json, bad_request, not_acceptable
from kubeshare_py.embedded_cluster.protocol.store import StoredObject

_META_GROUP = "meta.k8s.io"
_ACCEPTED = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
_INCLUDE = ("", "Metadata", "Object", "None")
_NAME_TEXT = "Name must be unique within a namespace."


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """One client's view of one kind: `mode` is object, table or partial."""

    resource: Resource
    mode: str = "object"
    version: str = "v1"
    include: str = "Metadata"
    now: float = 0.0

    @property
    def cache_key(self) -> str:
        """Views with equal keys render an event equally; "" for views that are not shared."""
        return self.resource.api_version if self.mode == "object" else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPage:
    """A list's own metadata."""

    revision: int
    next: str = ""
    remaining: int | None = None

    def metadata(self) -> Json:
        """As ListMeta."""
        body: Json = {"resourceVersion": str(self.revision)}
        if self.next:
            body["continue"] = self.next
        if self.remaining is not None:
            body["remainingItemCount"] = self.remaining
        return body


def negotiate(accept: str, resource: Resource, include: str, now: float) -> Rendering:
    """The first acceptable alternative; 406 when there is none, 400 for a bad includeObject."""
    for part in accept.split(",") if accept else ["*/*"]:
        media, *parameters = (piece.strip() for piece in part.split(";"))
        options = dict(pair.partition("=")[::2] for pair in parameters)
        mode = _mode(media.lower(), options)
        if mode is None:
            continue
        if mode == "table" and include not in _INCLUDE:
            raise bad_request(f'unrecognized includeObject value: "{include}"')
        version = options.get("v", "v1")
        return Rendering(
            resource=resource, mode=mode, version=version, include=include or "Metadata", now=now
        )
    raise not_acceptable(_ACCEPTED)


def object_body(view: Rendering, entry: StoredObject) -> bytes:
    """One object as JSON."""
    if view.mode == "table":
        return msgspec.json.encode(table(view, [entry], {"resourceVersion": _rv(entry)}))
    if view.mode == "partial":
        return msgspec.json.encode(_partial(entry.object, view.version))
    resource = view.resource
    head = f'{{"kind":"{resource.kind}","apiVersion":"{resource.api_version}",'.encode()
    return head + _fields(resource, entry)[1:]


def list_body(view: Rendering, entries: Sequence[StoredObject], page: ListPage) -> bytes:
    """A list as JSON; its items carry no kind, but for custom ones."""
    if view.mode == "table":
        return msgspec.json.encode(table(view, entries, page.metadata()))
    resource = view.resource
    kind, version = resource.list_kind, resource.api_version
    if view.mode == "partial":
        kind, version = "PartialObjectMetadataList", f"{_META_GROUP}/{view.version}"
        items = [msgspec.json.encode(_partial(entry.object, view.version)) for entry in entries]
    elif resource.definition:
        items = [object_body(view, entry) for entry in entries]
    else:
        items = [_fields(resource, entry) for entry in entries]
    head = {"kind": kind, "apiVersion": version, "metadata": page.metadata()}
    # kube-apiserver makes the items of a partial list one by one, so that an empty one is Go's
    # nil slice, which JSON shows as null; other lists show [].
    empty = view.mode == "partial" and not items
    listed = b"null" if empty else b"[" + b",".join(items) + b"]"
    return msgspec.json.encode(head)[:-1] + b',"items":' + listed + b"}"


def table(
    view: Rendering, entries: Sequence[StoredObject], metadata: Json, *, columns: bool = True
) -> Json:
    """A meta.k8s.io Table."""
    resource = view.resource
    body: Json = {
        "kind": "Table",
        "apiVersion": f"{_META_GROUP}/{view.version}",
        "metadata": metadata,
        "columnDefinitions": _columns(resource) if columns else None,
        "rows": [_row(view, entry.object) for entry in entries],
    }
    return body


def watch_line(event_type: str, body: bytes) -> bytes:
    """One line of a watch stream."""
    return b'{"type":"' + event_type.encode() + b'","object":' + body + b"}\n"


def bookmark_body(view: Rendering, revision: int, *, initial_end: bool = False) -> bytes:
    """The object of a BOOKMARK event."""
    metadata: Json = {"resourceVersion": str(revision), "creationTimestamp": None}
    if initial_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    resource = view.resource
    if view.mode == "table":
        obj = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        body = table(view, [], {"resourceVersion": str(revision)}, columns=False)
        body["rows"] = [{"cells": [], "object": obj}]
        return msgspec.json.encode(body)
    kind, version = resource.kind, resource.api_version
    if view.mode == "partial":
        kind, version = "PartialObjectMetadata", f"{_META_GROUP}/{view.version}"
    return msgspec.json.encode({"kind": kind, "apiVersion": version, "metadata": metadata})


def _mode(media: str, options: dict[str, str]) -> str | None:
    if media not in ("application/json", "application/*", "*/*"):
        return None
    wanted = options.get("as", "")
    if not wanted:
        return "object"
    if options.get("g") != _META_GROUP or options.get("v") not in ("v1", "v1beta1"):
        return None
    if wanted == "Table":
        return "table"
    return "partial" if wanted.startswith("PartialObjectMetadata") else None


def _fields(resource: Resource, entry: StoredObject) -> bytes:
    """The object without kind and apiVersion, as this resource's version shows it."""
    shown = resource.present(entry.object)
    return entry.body() if shown is entry.object else msgspec.json.encode(shown)


def _partial(obj: Json, version: str) -> Json:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"{_META_GROUP}/{version}",
        "metadata": obj["metadata"],
    }


def _columns(resource: Resource) -> list[Json]:
    first: Json = {
        "name": "Name",
        "type": "string",
        "format": "name",
        "description": _NAME_TEXT,
        "priority": 0,
    }
    own = [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description or f"{column.name} of the {resource.kind}",
            "priority": column.priority,
        }
        for column in resource.columns
    ]
    return own if _names_itself(resource) else [first, *own]


def _row(view: Rendering, obj: Json) -> Json:
    resource = view.resource
    cells = resource.cells(obj, view.now)
    if not _names_itself(resource):
        cells = [obj["metadata"]["name"], *cells]
    row: Json = {"cells": cells, "object": None}
    if view.include == "Metadata":
        row["object"] = _partial(obj, view.version)
    elif view.include == "Object":
        row["object"] = {**resource.head(), **resource.present(obj)}
    return row


def _names_itself(resource: Resource) -> bool:
    """Whether the name is among the kind's own columns."""
    return any(column.name == "Name" for column in resource.columns)


def _rv(entry: StoredObject) -> str:
    return str(entry.object["metadata"].get("resourceVersion", ""))
