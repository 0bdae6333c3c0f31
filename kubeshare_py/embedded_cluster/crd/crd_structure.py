"""Whether a schema is structural: every value has a known type before rules apply to it.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema
"""

from kubeshare_py.embedded_cluster.protocol.status import (
    Json,
    StatusCause,
    not_allowed,
    required,
    wrong,
)
from kubeshare_py.embedded_cluster.schemas.schema_texts import pattern_problem
from kubeshare_py.embedded_cluster.schemas.schema_values import EMBEDDED, PRESERVE

_EITHER = "x-kubernetes-int-or-string"
_EITHER_TYPES = [{"type": "integer"}, {"type": "string"}]
_JUNCTORS = ("anyOf", "allOf", "oneOf")
_LEVELS = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
_ONLY_OUTSIDE = {
    **dict.fromkeys(("type", "title", "description"), "must be empty to be structural"),
    **dict.fromkeys(("additionalProperties", "default"), "must be undefined to be structural"),
    **dict.fromkeys(("nullable", PRESERVE, EMBEDDED, _EITHER), "must be false to be structural"),
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
    "x-kubernetes-validations": "must be empty to be structural",
}


def structure_causes(schema: Json, where: str) -> list[StatusCause]:
    """Everything that makes a schema not structural, in the order of the fields' names."""
    found = [*_invariants(schema, where, "root"), *_missing(schema, schema, where, where)]
    return sorted(found, key=lambda cause: (cause.field, cause.message))


def _invariants(schema: Json, where: str, level: str) -> list[StatusCause]:
    found = []
    if schema.get("type") == "array" and "items" not in schema:
        found.append(required(f"{where}.items", "must be specified"))
    if "items" in schema:
        found += _invariants(schema["items"], f"{where}.items", "item")
    for name, inner in schema.get("properties", {}).items():
        found += _invariants(inner, f"{where}.properties[{name}]", "field")
    if "additionalProperties" in schema:
        inner = schema["additionalProperties"]
        if level == "root":
            text = "must not be used at the root"
            found.append(not_allowed(f"{where}.additionalProperties", text))
        if isinstance(inner, dict):
            found += _invariants(inner, f"{where}.additionalProperties", "field")
    found += _type_causes(schema, where, level)
    found += _junctor_causes(schema, where)
    if level == "root" or schema.get(EMBEDDED):
        found += _meta_causes(schema, where, level)
    return found


def _type_causes(schema: Json, where: str, level: str) -> list[StatusCause]:
    kind, place = schema.get("type", ""), f"{where}.type"
    if schema.get(EMBEDDED) and kind != "object":
        text = f"must be object if {EMBEDDED} is true"
        return [wrong(place, kind, text) if kind else required(place, text)]
    if not kind and not schema.get(_EITHER) and not schema.get(PRESERVE):
        return [required(place, _LEVELS[level])]
    if level == "root" and kind and kind != "object":
        return [wrong(place, kind, "must be object at the root")]
    found = []
    for name in (PRESERVE, EMBEDDED):
        if schema.get(_EITHER) and schema.get(name):
            text = f"must be false if {_EITHER} is true"
            found.append(wrong(f"{where}.{name}", value=True, text=text))
    return found


def _meta_causes(schema: Json, where: str, level: str) -> list[StatusCause]:
    """Kind, version and metadata of an object are given; the root may restrict the name."""
    fields, found = schema.get("properties", {}), []
    for name, kind in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
        if name in fields and fields[name].get("type") != kind:
            place = f"{where}.properties[{name}].type"
            found.append(wrong(place, fields[name].get("type", ""), f"must be {kind}"))
    metadata = fields.get("metadata", {})
    others = {key for key in metadata if key not in ("type", "properties", "default")}
    if level == "root" and (others or {*metadata.get("properties", {})} - {"name", "generateName"}):
        text = (
            "must not specify anything other than name and generateName, but metadata is "
            "implicitly specified"
        )
        found.append(not_allowed(f"{where}.properties[metadata]", text))
    if schema.get(EMBEDDED) and not schema.get(PRESERVE) and not fields:
        text = f"must not be empty if {EMBEDDED} is true without {PRESERVE}"
        found.append(required(f"{where}.properties", text))
    return found


def _junctor_causes(schema: Json, where: str) -> list[StatusCause]:
    """What stands below anyOf, allOf, oneOf and not."""
    found = []
    for name in _JUNCTORS:
        for index, inner in enumerate(schema.get(name, [])):
            if not _is_either(schema, name, index):
                found += _nested(inner, f"{where}.{name}[{index}]")
    if "not" in schema:
        found += _nested(schema["not"], f"{where}.not")
    pattern = schema.get("pattern", "")
    if pattern and (problem := pattern_problem(pattern)):
        found.append(wrong(f"{where}.pattern", pattern, problem))
    return found


def _is_either(schema: Json, name: str, index: int) -> bool:
    """Integer or string, in one of the two ways in which this may be written with types."""
    if name == "anyOf":
        return bool(schema["anyOf"] == _EITHER_TYPES)
    return bool(name == "allOf" and index == 0 and schema["allOf"][0] == {"anyOf": _EITHER_TYPES})


def _nested(schema: Json, where: str) -> list[StatusCause]:
    found = [
        not_allowed(f"{where}.{keyword}", text)
        for keyword, text in _ONLY_OUTSIDE.items()
        if schema.get(keyword) not in (None, False, "", [])
    ]
    found += _junctor_causes(schema, where)
    if isinstance(schema.get("items"), dict):
        found += _nested(schema["items"], f"{where}.items")
    for name, inner in schema.get("properties", {}).items():
        found += _nested(inner, f"{where}.properties[{name}]")
    if "metadata" in schema.get("properties", {}):
        text = "must not be specified in a nested context"
        found.append(not_allowed(f"{where}.properties[metadata]", text))
    return found


def _missing(rules: Json, schema: Json | None, where: str, said: str) -> list[StatusCause]:
    """Fields that only a rule names, below the junctors of `rules`."""
    found = []
    nested = [
        (f"{said}.{name}[{index}]", inner)
        for name in _JUNCTORS
        for index, inner in enumerate(rules.get(name, []))
    ]
    if "not" in rules:
        nested.append((f"{said}.not", rules["not"]))
    for place, inner in nested:
        found += _unknown(inner, schema, where, place)
    return found


def _unknown(rules: Json, schema: Json | None, where: str, said: str) -> list[StatusCause]:
    if schema is None:
        return [required(where, f"because it is defined in {said}")]
    found = _missing(rules, schema, where, said)
    if "items" in rules:
        found += _unknown(rules["items"], schema.get("items"), f"{where}.items", f"{said}.items")
    for name, inner in rules.get("properties", {}).items():
        known = schema.get("properties", {}).get(name)
        part = f"properties[{name}]"
        found += _unknown(inner, known, f"{where}.{part}", f"{said}.{part}")
    return found
