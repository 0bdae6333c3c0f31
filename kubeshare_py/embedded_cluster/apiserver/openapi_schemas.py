"""OpenAPI schemas of custom kinds, for `kubectl explain`.

The built-in kinds have none: with them, kubectl would compute its patches from lists' merge keys,
which are in no schema here.
"""

from kubeshare_py.embedded_cluster.protocol.fields import TYPES
from kubeshare_py.embedded_cluster.protocol.resources import Resource
from kubeshare_py.embedded_cluster.protocol.status import Json
from kubeshare_py.embedded_cluster.schemas.schema_values import EMBEDDED

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
            "properties": {
                part.partition(":")[0]: _typed(part.partition(":")[2])
                for part in TYPES[kind].split()
            },
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
